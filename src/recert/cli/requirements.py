"""Conditions for use in a pipeline: --require 'accuracy:0.5>=0.6'."""

import operator
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recert.certificates import Certificates
    from recert.sequential import Enough

_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
# Matched as a whole, and not evaluated as Python: a requirement may come from a file that others write.
_FORM = re.compile(r"\s*(accuracy|acr|abstained|smoothed-accuracy)(?::([0-9.]+))?\s*(>=|<=|>|<)\s*([0-9.eE+-]+)\s*")


_OF_PREDICTIONS = ("abstained", "smoothed-accuracy")


def check_forms(requirements: list[str] | None, *, predictions: bool = False) -> None:
    """Refuse a requirement that cannot be read, or that is not about predictions, before any work is done for it."""
    for requirement in requirements or ():
        match = _FORM.fullmatch(requirement)
        if match is None or (match[1] == "accuracy") != (match[2] is not None):
            raise ValueError(
                "expected a requirement like accuracy:0.5>=0.6, acr>=0.4, abstained<=0.1 or smoothed-accuracy>=0.7, "
                f"got {requirement!r}"
            )
        if predictions and match[1] not in _OF_PREDICTIONS:
            raise ValueError(
                f"expected a requirement about {' or '.join(_OF_PREDICTIONS)}, since predictions have no radius, got {requirement!r}"
            )


def check_labels(requirements: list[str] | None, labels: "NDArray[np.int64] | None") -> None:
    """Refuse a requirement that needs labels where there are none."""
    for requirement in requirements or ():
        if labels is None and not requirement.strip().startswith("abstained"):
            raise ValueError(f"expected labels to check {requirement!r}, got data without labels")


def enough(requirements: list[str] | None, labels: "NDArray[np.int64] | None") -> "Enough | None":
    """Whether certificates decide all requirements already, as `recert.certify(at=..., enough=...)` asks; None if none can be."""
    accuracies = [match for requirement in requirements or () if (match := _FORM.fullmatch(requirement))]
    if labels is None or not accuracies or any(match[1] != "accuracy" for match in accuracies):
        return None

    def decided(result: "Certificates") -> bool:
        return all(_decided(match, result, labels) for match in accuracies)

    return decided


def _decided(match: re.Match[str], result: "Certificates", labels: "NDArray[np.int64]") -> bool:
    _, radius, comparison, limit = match.groups()
    least = float(result.certified_accuracy(labels, float(radius)))
    # An input that is not given up may yet be shown, if it is predicted right or nothing is known of its prediction.
    open_ones = (result.outcome != "radius-out-of-reach") & (result.radius < float(radius))
    open_ones &= (result.prediction == labels) | (result.prediction < 0)
    values = (least, least + float(open_ones.mean()))
    return len({_COMPARE[comparison](value, float(limit)) for value in values}) == 1


def met(requirement: str, result: "Certificates", labels: "NDArray[np.int64] | None") -> tuple[bool, float]:
    """Whether a condition holds, and the value it is about."""
    check_forms([requirement])
    match = _FORM.fullmatch(requirement)
    assert match is not None
    metric, radius, comparison, limit = match.groups()
    check_labels([requirement], labels)
    if metric == "accuracy":
        value = float(result.certified_accuracy(labels, float(radius)))  # type: ignore[arg-type]
    elif metric == "acr":
        value = result.average_certified_radius(labels)  # type: ignore[arg-type]
    elif metric == "abstained":
        value = result.abstention_rate
    else:
        value = result.smoothed_accuracy(labels)  # type: ignore[arg-type]
    return bool(_COMPARE[comparison](value, float(limit))), value
