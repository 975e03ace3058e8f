"""What a bound will be, before it is known: tables over (probability, replays), at the flips that are expected.

Predictions choose; they claim nothing. So they may interpolate. Each method of re-certification fills tables of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit

from recert import bounds
from recert.noise import Noise
from recert.planning.splines import interpolation

Floats = NDArray[np.float64]
RadiusPredictor = Callable[[Floats, Floats, Floats], Floats]
"""Probability of the class, of its runner-up, and forward passes, to the radius that may be expected."""

# In logits: evenly spaced up to .99, then wider up to 1 - 2e-6. So they are close together near 1, where radii grow fastest.
_PROBABILITIES = np.concatenate(
    [np.linspace(logit(0.05), logit(0.99), 18), np.linspace(logit(0.993), logit(1 - 2e-6), 8)]
)
TABLE_STEP = 0.3
"""How far apart numbers of passes are in a table, in logarithms."""
# Bounds that take a search are computed at every second of both, and at the last probability: splines through these are as close
# to the bounds between them as straight lines through twice as many, and the bounds themselves jump by as much from count to count.
_SEARCHED = np.append(_PROBABILITIES[::2], _PROBABILITIES[-1])
_LOWEST = 1e-6
"""No bound is taken to be smaller: on the scale of a plan 0 may be infinitely far away."""
_RISK = 0.002  # how often there may be fewer noises of a kind than the selection votes promised
OTHER_SHARES = np.array([0.0, 0.1, 0.25, 0.5])
"""Shares of the replays that may go to noises on which f did not vote for the class."""


@dataclass(frozen=True)
class Circumstances:
    """What all inputs share: votes in the cache, error of a bound, the noise, and flips per vote that is not unanimous.

    The model of flips: f^p takes the class away with probability flips * p * (1 - p) and gives it as often: modified
    networks change their vote where the vote is split, as often in one direction as in the other.
    """

    samples: int
    alpha: float
    noise: Noise
    flips: float = 0.0


@dataclass(frozen=True)
class Table:
    """A predicted bound on a grid, interpolated on the scale that the noise has for plans."""

    noise: Noise
    passes: Floats
    scaled: Floats
    """The bound on that scale: probabilities x passes."""

    def on_scale(self, probability: Floats, passes: Floats) -> Floats:
        """The bound on the plan's scale; minus infinity with fewer passes than the table begins with."""
        # Interpolated between logits and between logarithms of passes: bounds are smooth in these.
        i, u = _place(logit(np.clip(probability, 0.05, 1 - 2e-6)), _PROBABILITIES)
        at, grid = np.log(np.maximum(passes, 1.0)), np.log(self.passes)
        if passes.shape == (1,) * (passes.ndim - 1) + passes.shape[-1:] and probability.shape[-1:] == (1,):
            # The same passes for all: columns for these are made once, and each probability then blends two rows.
            columns = between(self.scaled, grid, at.reshape(-1))
            low, high = columns[i[..., 0]], columns[i[..., 0] + 1]
            high -= low
            high *= u
            blended = np.add(low, high, out=low)  # in place: most of a plan's time is spent here
        else:
            j, v = _place(at, grid)
            # Flat indices, so that numpy gathers by one array of them instead of two.
            q, width = self.scaled.ravel(), self.scaled.shape[1]
            here = i * width + j
            low = q[here] * (1 - v) + q[here + 1] * v
            high = q[here + width] * (1 - v) + q[here + width + 1] * v
            blended = low * (1 - u) + high * u
        too_few = passes < self.passes[0]
        return np.where(too_few, -np.inf, blended) if too_few.any() else blended

    def as_noises_come(self) -> "Table":
        """The same bound if the event holds on only some of the noises that are drawn, and only these are replayed."""
        p = expit(_PROBABILITIES)[:, None]
        fewest = np.full((1, 1), self.noise.plan_scale(np.array(_LOWEST)))
        return Table(self.noise, self.passes, np.maximum(self.on_scale(p, self.passes * p), fewest))

    def radius(self, sides: int) -> RadiusPredictor:
        """The radius from the bound of the class alone, or, with two sides, from that of the runner-up as well."""
        return self._from_both if sides == 2 else self._from_class

    def _from_class(self, top: Floats, runner_up: Floats, passes: Floats) -> Floats:
        bound = self.on_scale(top, passes)
        return self.noise.planned_radius(bound, bound)

    def _from_both(self, top: Floats, runner_up: Floats, passes: Floats) -> Floats:
        """The same bound of the event that a sample does not vote for the runner-up, which gets at most what the class leaves."""
        bound = self.on_scale(top, passes)
        return self.noise.planned_radius(bound, np.maximum(self.on_scale(1 - runner_up, passes), bound))


@dataclass(frozen=True)
class SplitTable:
    """A bound with its best split, and which share of the replays goes to noises on which f did not vote for the class."""

    bound: Table
    shares: Floats

    def other_share(self, probability: Floats, passes: Floats) -> Floats:
        i, _ = _place(logit(np.clip(probability, 0.05, 1 - 2e-6)), _PROBABILITIES)
        j, _ = _place(np.log(np.maximum(passes, 1.0)), np.log(self.bound.passes))
        return np.asarray(self.shares[i, j])


def _place(value: Floats, grid: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Left grid point of each value, and how far it is towards the next, from 0 to 1."""
    left = np.clip(np.searchsorted(grid, value, side="right") - 1, 0, len(grid) - 2)
    return left, np.clip((value - grid[left]) / (grid[left + 1] - grid[left]), 0.0, 1.0)


def between(values: Floats, grid: Floats, at: Floats) -> Floats:
    """Values that are known on a grid (the last axis), on straight lines between."""
    left, share = _place(at, grid)
    return values[..., left] * (1 - share) + values[..., left + 1] * share


def passes_grid(largest: int, *, apart: float = 0.115) -> Floats:
    """Numbers of forward passes from 8 on, each about 12% above the one before: finer makes no plan better."""
    largest = max(largest, 9)
    return np.unique(np.round(np.geomspace(8, largest, 2 + int(np.log(largest / 8) / apart))))


def fine_mesh(largest: int) -> tuple[Floats, Floats]:
    """All probabilities x passes of a table, for bounds that take no search."""
    probabilities, passes = np.meshgrid(expit(_PROBABILITIES), passes_grid(largest, apart=TABLE_STEP), indexing="ij")
    return probabilities, passes


def mesh(largest: int) -> tuple[Floats, Floats]:
    """Probabilities x passes at which bounds are searched, far apart: a table has others between, from splines."""
    probabilities, passes = np.meshgrid(expit(_SEARCHED), passes_grid(largest, apart=2 * TABLE_STEP), indexing="ij")
    return probabilities, passes


def table_at_expected_flips(
    given: Circumstances, passes: Floats, bound: Callable[[Floats], Floats], expected: Floats
) -> Table:
    """A table of a bound (a function of the flips, on the mesh) at the expected number, between the two whole numbers around it."""
    # Bounds are defined for whole numbers of flips; the mean of the two neighbours changes smoothly with the expected number.
    low = np.floor(np.minimum(expected, passes))
    share = np.minimum(expected, passes) - low
    at_low = bound(low)
    at_high = bound(np.minimum(low + 1, passes)) if share.any() else at_low
    sparse = scaled(at_low, given.noise) * (1 - share) + scaled(at_high, given.noise) * share
    fine = passes_grid(int(passes[-1]), apart=TABLE_STEP)
    of_probabilities = interpolation(_SEARCHED, _PROBABILITIES)
    of_passes = interpolation(np.log(passes), np.log(fine))
    return Table(given.noise, fine, of_probabilities @ sparse @ of_passes.T)


def scaled(bound: Floats, noise: Noise) -> Floats:
    """Bounds on the plan's scale, away from 0 and 1, where it may be infinite."""
    return noise.plan_scale(np.clip(bound, _LOWEST, 1 - 1e-9))


def safe_count(seen: Floats | float, selected: float, samples: int) -> Floats:
    """How many of the cached noises are very probably of a kind that `seen` of the `selected` selection votes were of.

    A lower bound on the kind's share (Clopper-Pearson at _RISK), then three standard deviations less than its expected count.
    """
    share = betaincinv(np.maximum(seen, 0.5), np.maximum(selected - np.asarray(seen), 0.0) + 1, _RISK)
    expected = np.where(np.asarray(seen) < 1, 0.0, share * samples)
    return np.asarray(np.maximum(0.0, expected - 3 * np.sqrt(expected)))


def half_width(share: Floats, trials: Floats | int, alpha: float) -> Floats:
    """Clopper-Pearson's half-width from below, continued to counts that are not whole."""
    successes = share * trials
    return np.asarray(
        share - np.where(successes > 0, betaincinv(np.maximum(successes, 1e-3), trials - successes + 1, alpha), 0.0)
    )


@lru_cache(maxsize=32)
def fresh_votes_table(alpha: float, noise: Noise, largest: int) -> Table:
    """Clopper-Pearson on m fresh votes, the class being given."""
    p, m = fine_mesh(largest)
    return Table(noise, m[0], scaled(bounds.clopper_pearson_lower(np.floor(p * m), m, alpha), noise))
