"""What a bound will be, before it is known: tables over (probability, replays), at the flips that are expected.

Predictions choose; they claim nothing. So they may interpolate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit, ndtr, ndtri

from recert import bounds

Floats = NDArray[np.float64]
RadiusPredictor = Callable[[Floats, Floats, Floats], Floats]
"""Probability of the class, of its runner-up, and forward passes, to the radius that may be expected."""

_PROBABILITIES = np.concatenate(
    [np.linspace(logit(0.05), logit(0.99), 18), np.linspace(logit(0.993), logit(1 - 2e-6), 8)]
)
_RISK = 0.002  # how often there may be fewer noises of a kind than the selection votes promised
_OTHER_SHARES = np.array([0.0, 0.1, 0.25, 0.5])


@dataclass(frozen=True)
class Circumstances:
    """What all inputs share: votes in the cache, error, and flips per vote that is not unanimous.

    The model of flips: f^p takes the class away with probability flips * p * (1 - p) and gives it as often: modified
    networks change their mind where the vote is split, as often in one direction as in the other.
    """

    samples: int
    alpha: float
    flips: float = 0.0


@dataclass(frozen=True)
class Table:
    """A predicted bound on a grid, interpolated on the normal scale."""

    passes: Floats
    quantiles: Floats
    """Normal quantile of the bound: probabilities x passes."""

    def quantile(self, probability: Floats, passes: Floats) -> Floats:
        """Normal quantile of the bound; minus infinity with fewer passes than the table begins with."""
        i, u = _place(logit(np.clip(probability, 0.05, 1 - 2e-6)), _PROBABILITIES)
        j, v = _place(np.log(np.maximum(passes, 1.0)), np.log(self.passes))
        # One row of the table for each probability, blended first: there are far fewer of these than of places.
        if passes.ndim and passes.shape[:-1] == (1,) * (passes.ndim - 1) and probability.shape[-1:] == (1,):
            of_rows = self.quantiles[i[..., 0]] * (1 - u) + self.quantiles[i[..., 0] + 1] * u
            places, shares = j.reshape(-1), v.reshape(-1)
            blended = of_rows[..., places] * (1 - shares) + of_rows[..., places + 1] * shares
        else:
            q, width = self.quantiles.ravel(), self.quantiles.shape[1]
            at = i * width + j
            low = q[at] * (1 - v) + q[at + 1] * v
            high = q[at + width] * (1 - v) + q[at + width + 1] * v
            blended = low * (1 - u) + high * u
        return np.where(passes < self.passes[0], -np.inf, blended)

    def __call__(self, probability: Floats, passes: Floats) -> Floats:
        return np.asarray(ndtr(self.quantile(probability, passes)))

    def radius(self, sigma: float) -> RadiusPredictor:
        """The radius that the bound gives on its own."""
        return lambda p, _, m: sigma * np.maximum(self.quantile(p, m), 0.0)

    def two_sided_radius(self, sigma: float) -> RadiusPredictor:
        """The radius if the bound is asked of the class and, turned round, of the runner-up, who gets at most the rest."""

        def predicted(p: Floats, q: Floats, m: Floats) -> Floats:
            top = self.quantile(p, m)
            return sigma / 2 * np.maximum(top + np.maximum(self.quantile(1 - q, m), top), 0.0)

        return predicted


def _place(value: Floats, grid: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Left grid point of each value, and how far it lies towards the next."""
    left = np.clip(np.searchsorted(grid, value, side="right") - 1, 0, len(grid) - 2)
    return left, np.clip((value - grid[left]) / (grid[left + 1] - grid[left]), 0.0, 1.0)


def passes_grid(largest: int, *, apart: float = 0.115) -> Floats:
    """Numbers of forward passes from 8 on, each about 12% above the one before: finer makes no plan better."""
    largest = max(largest, 9)
    return np.unique(np.round(np.geomspace(8, largest, 2 + int(np.log(largest / 8) / apart))))


def _mesh(largest: int) -> tuple[Floats, Floats]:
    """Probabilities x passes at which bounds are tabulated; between them they are smooth."""
    probabilities, passes = np.meshgrid(expit(_PROBABILITIES), passes_grid(largest, apart=0.3), indexing="ij")
    return probabilities, passes


@lru_cache(maxsize=32)
def series_table(given: Circumstances, largest: int, bound_name: str = "series_lower") -> Table:
    """The series bound, or that for few flips, after m replays of noises on which f voted for the class."""
    p, m = _mesh(largest)
    votes = np.round(p * given.samples)
    # The bound for few flips falls steeply with each, and flips differ between inputs: it must pay even with twice as many.
    caution = 2 if bound_name == "few_flips_lower" else 1
    return _tabulated(
        m[0],
        lambda lost: getattr(bounds, bound_name)(votes, given.samples, m - lost, m, given.alpha),
        caution * m * given.flips * (1 - p),
    )


@dataclass(frozen=True)
class SplitTable:
    """The paired bound with its best split, and which share of the replays goes to noises on which f did not vote c."""

    bound: Table
    shares: Floats

    def other_share(self, probability: Floats, passes: Floats) -> Floats:
        i, _ = _place(logit(np.clip(probability, 0.05, 1 - 2e-6)), _PROBABILITIES)
        j, _ = _place(np.log(np.maximum(passes, 1.0)), np.log(self.bound.passes))
        return np.asarray(self.shares[i, j])


@lru_cache(maxsize=32)
def paired_table(given: Circumstances, largest: int) -> SplitTable:
    """The paired bound after m replays, each split tried."""
    p, m = _mesh(largest)
    tried = np.stack([_quantiles(_expected_paired(given, p, m, np.round(share * m))) for share in _OTHER_SHARES])
    return SplitTable(Table(m[0], tried.max(axis=0)), _OTHER_SHARES[tried.argmax(axis=0)])


@lru_cache(maxsize=32)
def paired_unsplit_table(given: Circumstances, largest: int) -> Table:
    """The paired bound after m replays as they come."""
    p, m = _mesh(largest)
    return Table(m[0], _quantiles(_expected_paired(given, p, m, np.round((1 - p) * m))))


def _expected_paired(given: Circumstances, p: Floats, m: Floats, other: Floats) -> Floats:
    other = np.minimum(other, np.floor((1 - p) * given.samples))
    lost = np.minimum(np.round((m - other) * given.flips * (1 - p)), m - other)
    gained = np.minimum(np.round(other * given.flips * p), other)
    return np.asarray(
        bounds.paired_lower(np.round(p * given.samples), given.samples, lost, m - other, gained, other, given.alpha)
    )


@lru_cache(maxsize=32)
def joint_table(given: Circumstances, largest: int, selected: int) -> SplitTable:
    """About the joint bound after m replays, each split tried, given how many selection votes there are."""
    p, m = _mesh(largest)
    most = safe_count((1 - p) * selected, selected, given.samples)
    tried = np.stack([_joint_statistic(given, p, m, np.minimum(share * m, most)) for share in _OTHER_SHARES])
    return SplitTable(Table(m[0], _quantiles(tried.max(axis=0))), _OTHER_SHARES[tried.argmax(axis=0)])


@lru_cache(maxsize=32)
def joint_unsplit_table(given: Circumstances, largest: int, selected: int) -> Table:
    """About the joint bound after m replays as they come."""
    p, m = _mesh(largest)
    other = np.minimum((1 - p) * m, safe_count((1 - p) * selected, selected, given.samples))
    return Table(m[0], _quantiles(_joint_statistic(given, p, m, other)))


def safe_count(seen: Floats | float, selected: float, samples: int) -> Floats:
    """How many of the cached noises are surely of a kind that so many of the selection votes were of."""
    share = betaincinv(np.maximum(seen, 0.5), np.maximum(selected - np.asarray(seen), 0.0) + 1, _RISK)
    expected = np.where(np.asarray(seen) < 1, 0.0, share * samples)
    return np.asarray(np.maximum(0.0, expected - 3 * np.sqrt(expected)))


def _joint_statistic(given: Circumstances, p: Floats, m: Floats, other: Floats) -> Floats:
    """The statistic by which the joint bound orders outcomes, at the expected counts (`bounds.joint`): it is close to it."""
    top, some = m - other, np.maximum(other, 1.0)
    x, y = np.clip(given.flips * (1 - p), 0, 1), np.where(other >= 1, np.clip(given.flips * p, 0, 1), 0.0)
    of_votes, of_lost = _half_width(p, given.samples, given.alpha), _half_width(1 - x, top, given.alpha)
    of_gained = np.where(other >= 1, _half_width(y, some, given.alpha), 0.0)
    spread = np.sqrt(((1 - x - y + of_gained) * of_votes) ** 2 + (p * of_lost) ** 2 + ((1 - p) * of_gained) ** 2)
    return np.where(x + of_lost > 0.5, 0.0, p * (1 - x) + (1 - p) * y - spread)


def _half_width(share: Floats, trials: Floats | int, alpha: float) -> Floats:
    """Clopper-Pearson's half-width from below, continued to counts that are not whole."""
    successes = share * trials
    return np.asarray(
        share - np.where(successes > 0, betaincinv(np.maximum(successes, 1e-3), trials - successes + 1, alpha), 0.0)
    )


@lru_cache(maxsize=32)
def irs_table(given: Circumstances, largest: int, cache_alpha: float, reuse_threshold: float) -> Table:
    """The paper's bound after m replays or fresh draws."""
    p, m = _mesh(largest)
    cached = bounds.clopper_pearson_lower(np.round(p * given.samples), given.samples, cache_alpha)
    fresh = bounds.clopper_pearson_lower(np.round(p * m), m, given.alpha)
    rate = 2 * given.flips * p * (1 - p)

    def bound(lost: Floats) -> Floats:
        moved = cached - bounds.clopper_pearson_upper(lost, m, given.alpha - cache_alpha)
        return np.asarray(np.where(cached < reuse_threshold, moved, fresh))

    return _tabulated(m[0], bound, m * rate)


@lru_cache(maxsize=32)
def scratch_table(alpha: float, largest: int) -> Table:
    """Clopper-Pearson on m fresh votes, the class being given."""
    p, m = _mesh(largest)
    return Table(m[0], _quantiles(bounds.clopper_pearson_lower(np.floor(p * m), m, alpha)))


def _tabulated(passes: Floats, bound: Callable[[Floats], Floats], expected: Floats) -> Table:
    """A table of a bound at the expected number of flips, between the two whole numbers around it."""
    low = np.floor(np.minimum(expected, passes))
    share = np.minimum(expected, passes) - low
    at_low = bound(low)
    at_high = bound(np.minimum(low + 1, passes)) if share.any() else at_low
    return Table(passes, _quantiles(at_low) * (1 - share) + _quantiles(at_high) * share)


def _quantiles(bound: Floats) -> Floats:
    return np.asarray(ndtri(np.clip(bound, 1e-6, 1 - 1e-9)))
