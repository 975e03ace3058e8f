"""A changed model beside the original: what was lost, and whether too few samples or the change cost it. Pure numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recert.report.results import Result
from recert.report.summary import right_or_certified

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


def original_of(result: Result, results: Sequence[Result]) -> Result | None:
    """What a changed model is compared with: the certification of the same noise, if there is one."""
    if not result.is_changed:
        return None
    noise = result.certificates.settings.noise
    return next((r for r in results if r.is_original and r.certificates.settings.noise == noise), None)


@dataclass(frozen=True)
class Losses:
    """How many of these inputs were lost, and to what. `to_samples` and `to_change` are None where the result does not tell."""

    before: int
    after: int
    lost: int
    gained: int
    to_samples: int | None
    to_change: int | None


@dataclass(frozen=True, eq=False)
class Difference:
    """The same inputs, certified with the original and with the changed model."""

    result: Result
    original: Result

    @cached_property
    def without_flips(self) -> Floats | None:
        """The radius of each input had nothing flipped, 0 where that does not count; None where the result does not tell."""
        c = self.result.certificates
        if c.radius_without_flips is None or np.isnan(c.radius_without_flips).any():
            return None
        if self.result.labels is None:
            return c.radius_without_flips
        # An input that abstains has no prediction of its own: with other votes it would have had the original's.
        predicted = np.where(c.prediction >= 0, c.prediction, self.original.certificates.prediction)
        return np.where(predicted == self.result.labels, c.radius_without_flips, 0.0)

    def counted(self, radius: float) -> tuple[Mask, Mask]:
        """Which inputs are certified at a radius (and right, if that is known): with the original, and now."""
        both = [right_or_certified(r) & (r.certificates.radius >= radius) for r in (self.original, self.result)]
        return both[0], both[1]

    def losses(self, radius: float) -> Losses:
        """At a radius."""
        was, now = self.counted(radius)
        lost = was & ~now
        by_samples = None if self.without_flips is None else lost & self.to_samples(radius)
        to_samples = None if by_samples is None else int(by_samples.sum())
        return Losses(
            before=int(was.sum()), after=int(now.sum()), lost=int(lost.sum()), gained=int((now & ~was).sum()),
            to_samples=to_samples, to_change=None if to_samples is None else int(lost.sum()) - to_samples,
        )  # fmt: skip

    def to_samples(self, radius: float) -> Mask:
        """Which inputs would not have this radius even had nothing flipped: their votes were too few for it."""
        assert self.without_flips is not None
        short = self.without_flips < radius if radius > 0 else self.without_flips <= 0
        return np.asarray(short & ~self.other_class)

    @cached_property
    def other_class(self) -> Mask:
        """Which inputs are certified for another class than before."""
        before, after = self.original.certificates.prediction, self.result.certificates.prediction
        return np.asarray((before >= 0) & (after >= 0) & (before != after))

    @property
    def certified_by_both(self) -> int:
        return int((self.original.certificates.certified & self.result.certificates.certified).sum())

    @cached_property
    def average_radii(self) -> tuple[float, float | None, float]:
        """ACR of the original, with nothing flipped, and now."""
        before, after = (float(counted_radii(r).mean()) for r in (self.original, self.result))
        return before, None if self.without_flips is None else float(self.without_flips.mean()), after

    def what_happened(self, radius: float) -> list[str]:
        """Of each input in a few words what changed: whether it is certified at the radius, or at all, and for which class."""
        was, now = self.counted(radius)
        before, after = self.original.certificates.certified, self.result.certificates.certified
        at = f" at {radius:g}" if radius else ""
        texts = np.full(len(was), "", dtype=object)
        texts[now & ~was] = f"gained{at}"
        texts[~before & after] = "certified now"
        for gone, word, limit in ((before & ~after, "abstains now", 0.0), (was & ~now, f"lost{at}", radius)):
            texts[gone] = word
            if self.without_flips is not None:
                by_samples = self.to_samples(limit)
                texts[gone & by_samples] = f"{word}: too few samples"
                texts[gone & ~by_samples] = f"{word}: change"
        texts[self.other_class] = "another class"
        return [str(text) for text in texts]


def counted_radii(result: Result) -> Floats:
    """Radii, 0 where they do not count."""
    return np.where(right_or_certified(result), result.certificates.radius, 0.0)
