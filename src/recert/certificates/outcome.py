"""The outcome of an input, with an explanation. Abstaining is a result, not an error."""

from enum import StrEnum


class Outcome(StrEnum):
    """Outcomes of certify, recertify and predict; each explains itself and names the remedy."""

    CERTIFIED = "certified"
    PREDICTED = "predicted"
    NO_MAJORITY = "no-majority"
    RUNNER_UP_TOO_CLOSE = "runner-up-too-close"
    NOT_CERTIFIED_BEFORE = "not-certified-before"
    LEFT_OUT_BY_PLAN = "left-out-by-plan"
    TRANSFER_TOO_WEAK = "transfer-too-weak"
    NOT_SIGNIFICANT = "not-significant"
    RADIUS_OUT_OF_REACH = "radius-out-of-reach"
    UNDECIDED = "undecided"

    @property
    def explanation(self) -> str:
        """Why an input fared so, and what one can do about it."""
        return _EXPLANATIONS[self]

    @property
    def abstained(self) -> bool:
        """Whether nothing is claimed."""
        return self not in (Outcome.CERTIFIED, Outcome.PREDICTED)


_SECOND_TRY = "A second try is a second look at the same votes: the errors of all tries add up, unless looks=... was planned before the first."
_EXPLANATIONS = {
    Outcome.CERTIFIED: "The prediction does not change within the radius.",
    Outcome.PREDICTED: "The most frequent class is the most probable one.",
    Outcome.NO_MAJORITY: (
        "The class is not shown to have more than half of the votes. "
        "More samples help if it nearly has, as a second look whose error is added to the first; otherwise the model is unsure "
        "under this noise."
    ),
    Outcome.RUNNER_UP_TOO_CLOSE: (
        "The class is not shown to be ahead of every other class. More samples help if the two are not tied, as a second look whose "
        "error is added to the first."
    ),
    Outcome.NOT_CERTIFIED_BEFORE: (
        "The original model abstained here, so there is nothing to transfer and no sample was spent. "
        "Certify this input from scratch if you need it."
    ),
    Outcome.LEFT_OUT_BY_PLAN: (
        "The budget was spent on other inputs, where it was expected to buy more. More samples help, or plan='uniform'. "
        + _SECOND_TRY
    ),
    Outcome.TRANSFER_TOO_WEAK: (
        "After allowing for the votes that the modification may have flipped, no majority is left. "
        "More samples help if few of the replayed votes flipped. " + _SECOND_TRY
    ),
    Outcome.RADIUS_OUT_OF_REACH: (
        "By the votes so far the (smallest) radius asked for is unlikely to be shown, so that no more were spent. That it is smaller is "
        "not claimed. Ask for a smaller radius."
    ),
    Outcome.UNDECIDED: (
        "The radius asked for was neither shown nor given up when the votes were spent, or when enough was known. A larger number of samples "
        "goes on from here, and costs no further error."
    ),
    Outcome.NOT_SIGNIFICANT: "The two most frequent classes are too close to tell apart. More samples help, as a second look.",
}
