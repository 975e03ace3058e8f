"""Conditions for use in a pipeline: --require 'accuracy:0.5>=0.6'."""

import operator
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recert.certificates import Certificates

_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_FORM = re.compile(r"\s*(accuracy|acr|abstained|smoothed-accuracy)(?::([0-9.]+))?\s*(>=|<=|>|<)\s*([0-9.eE+-]+)\s*")


def check_forms(requirements: list[str] | None) -> None:
    """Refuse a requirement that cannot be read before any work is done for it."""
    for requirement in requirements or ():
        match = _FORM.fullmatch(requirement)
        if match is None or (match[1] == "accuracy") != (match[2] is not None):
            raise ValueError(
                "expected a requirement like accuracy:0.5>=0.6, acr>=0.4, abstained<=0.1 or smoothed-accuracy>=0.7, "
                f"got {requirement!r}"
            )


def met(requirement: str, result: "Certificates", labels: "NDArray[np.int64] | None") -> tuple[bool, float]:
    """Whether a condition holds, and the value it is about."""
    check_forms([requirement])
    match = _FORM.fullmatch(requirement)
    assert match is not None
    metric, radius, comparison, limit = match.groups()
    if labels is None and metric != "abstained":
        raise ValueError(f"expected labels to check {requirement!r}, got data without labels")
    if metric == "accuracy":
        value = float(result.certified_accuracy(labels, float(radius)))  # type: ignore[arg-type]
    elif metric == "acr":
        value = result.average_certified_radius(labels)  # type: ignore[arg-type]
    elif metric == "abstained":
        value = result.abstention_rate
    else:
        value = result.smoothed_accuracy(labels)  # type: ignore[arg-type]
    return bool(_COMPARE[comparison](value, float(limit))), value
