"""On which inputs the scales of a network were measured, where that is known: mostly training data, but not always."""

import warnings
from collections.abc import Iterable
from typing import Any

from torch import nn

ATTRIBUTE = "_calibrated_on"


class CalibratedOnInputs(UserWarning):
    """The scales of a quantised network were measured on inputs that are now certified."""


def note_calibration(model: nn.Module, digests: Iterable[str]) -> None:
    """Keep with a network which inputs its scales were measured on. It is no part of what the network is known by."""
    setattr(model, ATTRIBUTE, tuple(digests))


def calibrated_on(model: Any, digests: Iterable[str]) -> int:
    """On how many of these inputs, equal ones once, the scales of a model, or of a network inside it, were measured."""
    if not isinstance(model, nn.Module):
        return 0
    known = {digest for module in model.modules() for digest in getattr(module, ATTRIBUTE, ())}
    return len(known & set(digests))


def warn_of_calibration(model: Any, digests: Iterable[str], *, stacklevel: int) -> str:
    """A warning, which is returned as well, if a model was calibrated on some of these inputs; else an empty text."""
    shared = calibrated_on(model, digests)
    if not shared:
        return ""
    said = calibration_remark(shared)
    warnings.warn(said, CalibratedOnInputs, stacklevel=stacklevel + 1)
    return said


def calibration_remark(shared: int) -> str:
    return (
        f"The scales of this quantised network were measured on {shared} of the inputs that are certified: the certificates hold, but "
        "accuracy on other data may be lower. Calibrate on training data."
    )
