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
    values = (least := wanted.value(result, labels), least + _still_open(wanted, result, labels))
    return len({wanted.kept_by(value) for value in values}) == 1


def _still_open(wanted: Requirement, result: "Certificates", labels: "NDArray[np.int64] | None") -> float:
    """The share of inputs that may yet be shown: they are given votes, and are predicted right or nothing is known of their prediction."""
    # Not by their outcome: one that was shown at a smaller radius and given up at the next is certified, and has no votes to come.
    known = result.outcome == "radius-out-of-reach" if result.decided is None else result.decided
    open_ones = ~known & (result.radius < (wanted.radius or 0.0))
    open_ones &= (result.prediction == labels) | (result.prediction < 0)
    return float(open_ones.mean())


def said_of(
    requirement: str, holds: bool, value: float, result: "Certificates", labels: "NDArray[np.int64] | None"
) -> str:
    """Whether a condition holds, the value it is about, and what that rests on; of abstentions how many are the budget's doing."""
    from recert.certificates import Outcome

    said = "met" if holds else "[red]not met[/red]"
    wanted = Requirement.parse(requirement)
    if result.settings.at and wanted.metric == "accuracy":
        return f"{said}: {requirement} ({_one_by_one(wanted, holds, value, result, labels)})"
    left_out = float((result.outcome == Outcome.LEFT_OUT_BY_PLAN).mean()) if len(result) else 0.0
    more = f", of which {left_out:.4f} left out by the plan" if left_out and wanted.metric == "abstained" else ""
    return f"{said}: {requirement} (it is {value:.4f}{more})"


def _one_by_one(
    wanted: Requirement, holds: bool, value: float, result: "Certificates", labels: "NDArray[np.int64] | None"
) -> str:
    """Where inputs are decided one by one, and no longer than a condition takes: what is known of the value, and how surely."""
    from recert.certificates import Outcome

    left, s = int((result.outcome == Outcome.UNDECIDED).sum()), result.settings
    now = f"it is {value:.4f}" + (f" with {left} of {len(result)} inputs undecided" if left else "")
    if holds != wanted.comparison.startswith(">"):  # too few are certified, which is no claim
        most = value + _still_open(wanted, result, labels)
        return f"{now}, {most:.4f} at most: these votes show no more, which does not mean that the model has no more"
    if (claims := max(s.family, s.claims)) > 1:
        return f"{now}: its certificates hold together with probability at least {1 - s.error * claims:.6g}"
    return f"{now}: each of its certificates holds with probability at least {1 - s.error:.6g}"


def met(requirement: str, result: "Certificates", labels: "NDArray[np.int64] | None") -> tuple[bool, float]:
    """Whether a condition holds, and the value it is about."""
    wanted = Requirement.parse(requirement)
    value = wanted.value(result, labels)
    return wanted.kept_by(value), value
