"""Incremental randomized smoothing, the paper's method (Algorithms 2 and 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.noise import Stream
from recert.planning import RadiusPredictor, Selected
from recert.planning.tables import Circumstances, Table, mesh, table_at_expected_flips
from recert.recertification.method import Bounds, Counts, Method, Noises, Terms
from recert.recertification.scratch import bound_fresh, count_fresh, fresh_as_cached
from recert.votes import Votes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Irs(Method):
    """The cached bound minus a bound on the disparity; fresh votes where the cached bound is at least `reuse_threshold`.

    The cache's alpha is spent on its bound, the rest of alpha on the disparity. With `form="paper"` the fresh branch runs at
    the whole alpha; because the choice of branch looks at the cached votes, only an error of alpha + (alpha - cache alpha) is
    proved. With "exact" it runs at the cache's alpha. One-sided, and every input is given the same unless given.

    Whatever the modified model says most often, the claim is about the class that the original was certified for: the
    cached votes bound no other.
    """

    reuse_threshold: float = 0.99
    form: str = "paper"

    name: ClassVar[str] = "irs"
    certificates: ClassVar[tuple[str, ...]] = ("one-sided",)
    usual_plan: ClassVar[str] = "uniform"
    largest_share: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.form not in ("paper", "exact"):
            raise ValueError(f"expected the form of irs to be 'paper' or 'exact', got {self.form!r}")
        if not 0 <= self.reuse_threshold <= 1:
            raise ValueError(
                f"expected a reuse_threshold between 0 and 1, got {self.reuse_threshold}; the paper's is 0.99"
            )

    def noises(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> Noises | None:
        top_votes = int(np.count_nonzero(cached == selected.top))
        # The one choice that looks at votes that claim: `error` says what is proved for it.
        if _cached_lower(np.array([top_votes]), terms)[0] >= self.reuse_threshold:
            return Noises(selected.top, Stream.FRESH, range(passes))
        return Noises(selected.top, Stream.ESTIMATION, range(passes), top_votes, before=cached[:passes])

    def count(self, noises: Noises, votes: Votes, terms: Terms) -> Counts:
        if noises.before is None:
            return count_fresh(noises, votes, terms)
        # A vote for nobody always disagrees (EstimateZeta).
        lost = int(np.count_nonzero((votes != noises.before) | (votes >= terms.classes)))
        return Counts(noises.top_votes, terms.samples, replayed=len(votes), kept=len(votes) - lost, lost=lost)

    def without_flips(self, counts: Counts, top: int, cached: Ints) -> Counts | None:
        if not counts.replayed:
            return fresh_as_cached(counts, top, cached)
        return replace(counts, kept=counts.replayed, lost=0) if counts.lost else counts

    def bound(self, counts: Sequence[Counts], terms: Terms) -> Bounds:
        top_lower = np.zeros(len(counts))
        fresh = np.array([each.replayed == 0 for each in counts])
        if fresh.any():
            alpha = terms.alpha if self.form == "paper" else terms.cache_alpha
            top_lower[fresh] = bound_fresh([each for each in counts if each.replayed == 0], terms, alpha).top_lower
        replays = [each for each in counts if each.replayed]
        if replays:
            top_lower[~fresh] = _transferred(replays, terms)
        return Bounds(top_lower)

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        return _table(terms.circumstances, largest, terms.cache_alpha, self.reuse_threshold).radius(1)

    def alpha_to_skip(self, terms: Terms) -> float:
        zeta_alpha(terms)  # refuses an alpha that leaves nothing for the disparity
        return terms.cache_alpha

    def error(self, terms: Terms) -> float:
        """The paper's fresh branch runs at the whole alpha although the choice of branch looked at the cached votes."""
        unproved = zeta_alpha(terms) if self.form == "paper" and self.reuse_threshold < 1 else 0.0
        return terms.alpha + unproved

    def knobs(self, terms: Terms) -> dict[str, Any]:
        return {"threshold": float(self.reuse_threshold), "form": self.form, "cache alpha": terms.cache_alpha}


def zeta_alpha(terms: Terms) -> float:
    """The error that is left for the disparity when the cached bound has spent the cache's."""
    if terms.alpha <= terms.cache_alpha:
        raise ValueError(
            f"expected alpha above {terms.cache_alpha:g}, which the cached bound spends already, got {terms.alpha:g} for each claim "
            f"(after a family or planned looks have divided it); a usual value is {2 * terms.cache_alpha:g}"
        )
    return terms.alpha - terms.cache_alpha


def _cached_lower(top_votes: NDArray[np.int64], terms: Terms) -> Floats:
    return np.asarray(bounds.clopper_pearson_lower(top_votes, terms.samples, terms.cache_alpha))


def _transferred(counts: Sequence[Counts], terms: Terms) -> Floats:
    """Theorem 4: top_lower - disparity_upper, by the union bound."""
    top_votes, lost, replayed = np.array([(each.top_votes, each.lost, each.replayed) for each in counts]).T
    disparity_upper = bounds.clopper_pearson_upper(lost, replayed, zeta_alpha(terms))
    return np.asarray(np.maximum(np.nextafter(_cached_lower(top_votes, terms) - disparity_upper, -1.0), 0.0))


@lru_cache(maxsize=32)
def _table(given: Circumstances, largest: int, cache_alpha: float, reuse_threshold: float) -> Table:
    """The paper's bound after m replays or fresh draws."""
    p, m = mesh(largest)
    cached = bounds.clopper_pearson_lower(np.round(p * given.samples), given.samples, cache_alpha)
    fresh = bounds.clopper_pearson_lower(np.round(p * m), m, given.alpha)
    rate = 2 * given.flips * p * (1 - p)

    def bound(lost: Floats) -> Floats:
        moved = cached - bounds.clopper_pearson_upper(lost, m, given.alpha - cache_alpha)
        return np.asarray(np.where(cached < reuse_threshold, moved, fresh))

    return table_at_expected_flips(given, m[0], bound, m * rate)
