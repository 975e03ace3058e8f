"""What an audit found, and what it cannot show."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recert.auditing.damage import surviving_radii
from recert.auditing.shares import Share
from recert.cache import Cache

LIMITS = (
    "An audit does not show: whether the maker tried many seeds and kept the best; how the inputs were chosen; "
    "that no vote is forged (only how many, at most); anything about inputs that were not audited."
)


class Verdict(StrEnum):
    GENUINE = "genuine"
    NOT_GENUINE = "not genuine"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True, repr=False)
class Audit:
    """Replayed votes against stored ones. Arrays have a row per audited input."""

    verdict: Verdict
    selection: Share
    estimation: Share
    alpha: float
    tolerate: float
    detect: float
    input: NDArray[Any]
    replayed: NDArray[np.int64]
    wrong: NDArray[np.int64]
    wrong_upper: NDArray[np.float64]
    """Per input, each on its own: bound on the share of wrong estimation votes; nan where too few were replayed."""
    cached_inputs: int
    samples_to_decide: int
    other_numerics: tuple[str, ...]
    other_digests: bool
    """Whether the model was audited on the user's word: its digests are not those of the cache."""
    forward_passes: int
    seconds: float
    cache: Cache = field(repr=False)
    rows_sent: int | None = None
    """Of a function: how many rows it was given, what checks and attempts that failed took included."""

    def __repr__(self) -> str:
        return f"<Audit: {self.sentence}>"

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        wrong, replayed = self.wrong.sum(), self.replayed.sum()
        called = "the model, whose digests are not those of the cache," if self.other_digests else "the model"
        found = f"{self.verdict}: {wrong:,} of {replayed:,} votes replayed are not what {called} says"
        if self.verdict is Verdict.NOT_GENUINE:
            worst = int(np.argmax(self.wrong / np.maximum(1, self.replayed)))
            return f"{found} (tolerated: {self.tolerate:.3%}; most at input {self.input[worst][:12]})"
        at_most = f"at most {self.selection.upper:.3%} of the selection votes and {self.estimation.upper:.3%} of the others are wrong"
        if self.verdict is Verdict.GENUINE:
            return f"{found}; with probability {1 - self.alpha:g} {at_most}"
        return (
            f"{found}, and only {at_most} is shown, not {self.tolerate + self.detect:.3%}; "
            f"replay {self.samples_to_decide:,} votes per input"
        )

    def surviving_average_radius(self, labels: ArrayLike | None = None) -> float:
        """Average certified radius that the model's own votes give, at least, with probability 1 - alpha over the audit.

        The wrong votes that the audit cannot exclude are assumed where they cost most radius. Without labels, every certified input
        counts.
        """
        counted = self.cache.certificates.certified
        if labels is not None:
            counted = counted & (self.cache.certificates.prediction == np.asarray(labels))
        worst = {"wrong_selection": self.selection.most_wrong, "wrong_estimation": self.estimation.most_wrong}
        return surviving_radii(self.cache, counted, **worst) / len(counted)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, for JSON."""
        return {
            "verdict": self.verdict.value,
            "sentence": self.sentence,
            **{f"{name} {part}": getattr(getattr(self, name), part) for name in ("selection", "estimation")
               for part in ("wrong", "replayed", "population", "lower", "upper")},
            "audited inputs": len(self.input),
            "cached inputs": self.cached_inputs,
            "alpha": self.alpha,
            "tolerate": self.tolerate,
            "detect": self.detect,
            "other numerics": list(self.other_numerics),
            "other digests": self.other_digests,
            "forward passes": self.forward_passes,
            **({} if self.rows_sent is None else {"rows sent": self.rows_sent}),
            "seconds": self.seconds,
        }  # fmt: skip
