"""Conditions for use in a pipeline: --require 'accuracy:0.5>=0.6'."""

from typing import TYPE_CHECKING

from recert.requirements import Requirement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recert.certificates import Certificates
    from recert.sequential import Enough

_OF_PREDICTIONS = ("abstained", "smoothed-accuracy")


def check_forms(requirements: list[str] | None, *, predictions: bool = False) -> None:
    """Refuse a requirement that cannot be read, or that is not about predictions, before any work is done for it."""
    for requirement in requirements or ():
        wanted = Requirement.parse(requirement)
        if predictions and wanted.metric not in _OF_PREDICTIONS:
            raise ValueError(
                f"expected a requirement about {' or '.join(_OF_PREDICTIONS)}, since predictions have no radius, got {requirement!r}"
            )


def check_labels(requirements: list[str] | None, labels: "NDArray[np.int64] | None") -> None:
    """Refuse a requirement that needs labels where there are none."""
    for requirement in requirements or ():
        if labels is None and Requirement.parse(requirement).needs_labels:
            raise ValueError(f"expected labels to check {requirement!r}, got data without labels")


def enough(requirements: list[str] | None, labels: "NDArray[np.int64] | None") -> "Enough | None":
    """Whether certificates decide all requirements already, as `recert.certify(at=..., enough=...)` asks; None if none can be."""
    wanted = [Requirement.parse(requirement) for requirement in requirements or ()]
    if labels is None or not wanted or any(each.metric != "accuracy" for each in wanted):
        return None

    def decided(result: "Certificates") -> bool:
        return all(_decided(each, result, labels) for each in wanted)

    return decided


def _decided(wanted: Requirement, result: "Certificates", labels: "NDArray[np.int64]") -> bool:
    least = wanted.value(result, labels)
    # An input that is not given up may yet be shown, if it is predicted right or nothing is known of its prediction.
    open_ones = (result.outcome != "radius-out-of-reach") & (result.radius < (wanted.radius or 0.0))
    open_ones &= (result.prediction == labels) | (result.prediction < 0)
    values = (least, least + float(open_ones.mean()))
    return len({wanted.kept_by(value) for value in values}) == 1


def said_of(requirement: str, value: float, result: "Certificates") -> str:
    """A condition and the value it is about; how many inputs were left when that was known; of abstentions how many are the
    budget's doing."""
    from recert.certificates import Outcome

    left_out = float((result.outcome == Outcome.LEFT_OUT_BY_PLAN).mean()) if len(result) else 0.0
    more = (
        f", of which {left_out:.4f} left out by the plan"
        if left_out and requirement.strip().startswith("abstained")
        else ""
    )
    left = int((result.outcome == Outcome.UNDECIDED).sum())
    more += f" with {left} of {len(result)} inputs undecided" if left else ""
    return f"{requirement} (it is {value:.4f}{more})"


def met(requirement: str, result: "Certificates", labels: "NDArray[np.int64] | None") -> tuple[bool, float]:
    """Whether a condition holds, and the value it is about."""
    wanted = Requirement.parse(requirement)
    value = wanted.value(result, labels)
    return wanted.kept_by(value), value
