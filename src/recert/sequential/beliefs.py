"""What selection votes choose for inputs that are decided from a cache: the question, the bets, and how alpha is divided. It claims nothing."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from recert.noise import Noise
from recert.sequential.thresholds import widest_pair
from recert.votes import SelectionCounts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FLIP_RATES = np.geomspace(0.002, 1.0, 8)
"""Of noises that lose the class, as multiples of share x (1 - share): what is bet on each fits such a rate."""
STAKES = 1 - np.geomspace(0.002, 0.8, 8)
"""Shares of what one has that are bet whatever the selection votes say, since they may be wrong."""
BELIEVED = 0.85
"""Of the whole stake, what is put on what the selection votes say."""
WEIGHTS = np.repeat([BELIEVED, 1 - BELIEVED], [len(FLIP_RATES), len(STAKES)]) / len(STAKES) * (1 - 1e-12)
LEAST_SLACK = 0.01
"""That is believed."""
USUAL_FLIPS = 0.05
"""A rate of flips, for choices that need one."""
CAUTION = 1.0
"""Levels are chosen for a slack that is so many standard deviations of the selection votes smaller: too fine a choice would fail there."""
REPLAYED = 8.0
"""So many times the noises that are expected to be needed may be replayed."""
LEAST_REPLAYS = 500
MOST_REPLAYED = 0.25
"""Of the cached votes. The others bound the original's probabilities."""
LEVELS = 8
FIRST_SHARES = (0.02, 0.1, 0.3, 0.6)
"""Of alpha, what the first level's bound on the original's probability may have."""
TILTS = (0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.5)
"""How fast the change's part of alpha grows with the normal quantile of a level's error."""
OF_ALL = 0.1
"""Of alpha, for a claim from the whole cache, where the noises of the levels were not enough."""
OF_ALL_CACHED = 0.2
"""Of that, for the bound on the original's probability."""


@dataclass(frozen=True)
class Believed:
    """What selection votes say of each input."""

    shares: Floats
    """Of votes for each class, never none or all: inputs x classes."""
    pair: NDArray[np.bool_]
    """Where a pair is likely to be shown with fewer passes than the class alone: inputs x radii."""
    slack: Floats
    """Between the share of the class and what it must be above: inputs x radii."""
    rival: Floats
    """Of pairs: what every other class must be below."""
    classes: Ints
    votes: Ints
    """How many chose, of each input."""

    @classmethod
    def of(
        cls, selection: SelectionCounts, classes: Ints, noise: Noise, radii: Floats, alone: Floats, *, runner_up: bool
    ) -> Self:
        votes, rows = selection.sum(axis=1), np.arange(len(selection))
        shares = (selection + 0.5) / (votes[:, None] + 1)
        top, others = shares[rows, classes], shares.copy()
        others[rows, classes] = 0
        slack = top[:, None] - alone
        if not runner_up:
            return cls(shares, np.zeros(alone.shape, dtype=bool), slack, 1 - alone, classes, votes)
        one = np.ones(len(rows))
        gap, _, rival = widest_pair(noise, radii, top, np.minimum(others.max(axis=1), 1 - top), (one, one))
        # For the class alone only noises on which it was voted for are replayed. A pair needs ln 2 more, about a tenth.
        pair = 0.9 * gap > slack / top[:, None]
        return cls(shares, np.asarray(pair), np.where(pair, gap, slack), rival, classes, votes)

    def stakes(self, rows: Ints, classes: Ints) -> Floats:
        """Shares of what one has that are bet on a class, for or against it: rows x radii x bets, with `WEIGHTS`.

        With slack d and a share q of noises that lose, the best is 1 - q/d (Kelly), and d/q or less where as many gain; d / (d + q) is close to
        either. What q is nobody knows before: so several rates.
        """
        share = self.shares[rows, classes]
        slack = np.where((classes == self.classes[rows])[:, None], self.slack[rows], self.rival[rows] - share[:, None])
        slack = np.maximum(slack, LEAST_SLACK)[..., None]
        fit = slack / (slack + FLIP_RATES * (share * (1 - share))[:, None, None])
        return np.concatenate(
            [np.minimum(fit, STAKES[0]), np.broadcast_to(STAKES, fit.shape[:-1] + STAKES.shape)], axis=-1
        )


@dataclass(frozen=True)
class Levels:
    """How alpha is divided: inputs x radii x levels, and at last for a claim from the whole cache.

    The noises that are replayed first have levels. Where the original's probability is bounded at a small error, by the others, the change
    has most of alpha; where it is bounded at a large one, the change has less. A claim needs the change shown at every level, or
    else for the bound from the whole cache. See docs/theory.md.
    """

    errors: Floats
    """Of the bounds on the original's probability; increasing over levels."""
    costs: Floats
    """By how much ln(1/alpha) grows for the change."""
    replays: Ints
    """Noises that levels have: inputs x radii."""


def levels_for(believed: Believed, size: int, alpha: Floats) -> Levels:
    """Levels with which the fewest replays are expected."""
    share = believed.shares[np.arange(len(believed.shares)), believed.classes]
    slack = believed.slack - CAUTION * np.sqrt(share * (1 - share) / np.maximum(believed.votes, 1))[:, None]
    kinds, place = np.unique(
        np.stack(np.broadcast_arrays(np.round(share, 3)[:, None], np.round(slack, 3), (1 - OF_ALL) * alpha), axis=-1).reshape(-1, 3),
        axis=0, return_inverse=True,
    )  # fmt: skip
    found = [_levels_of_one(each[0], each[1], each[2], size) for each in kinds.tolist()]
    shape, place = believed.slack.shape, place.ravel()
    errors, costs, replays = (np.stack(each)[place] for each in zip(*found, strict=True))
    errors, costs = errors.reshape(*shape, LEVELS), costs.reshape(*shape, LEVELS) - np.log1p(-OF_ALL)
    of_all = np.full((*shape, 1), -np.log(OF_ALL * (1 - OF_ALL_CACHED)))
    return Levels(
        np.concatenate([errors, OF_ALL * OF_ALL_CACHED * alpha[..., None]], axis=-1),
        np.concatenate([costs, of_all], axis=-1),
        replays.reshape(shape),
    )


def _levels_of_one(share: float, slack: float, alpha: float, size: int) -> tuple[Floats, Floats, Ints]:
    """Errors, costs and noises, by a normal law for what the votes bound and a usual rate of flips."""
    variance = max(share * (1 - share), 1 / size)
    slack = max(slack, LEAST_SLACK)
    growth = slack**2 / (slack + USUAL_FLIPS * variance)
    replays = int(np.clip(REPLAYED * -np.log(alpha) / growth, LEAST_REPLAYS, int(MOST_REPLAYED * size)))
    spread, best = float(np.sqrt(variance / (size - replays))), (np.inf, np.zeros(0), np.zeros(0))
    for first in FIRST_SHARES:
        errors = (first * alpha) ** (1 - np.arange(LEVELS + 1) / LEVELS)
        away = -ndtri(errors[:-1]) * spread
        between, width = -ndtri(np.sqrt(errors[:-1] * errors[1:])), np.diff(errors)
        for tilt in TILTS:
            more = np.exp(tilt * between)
            more = np.minimum((1 - first) * more / (more @ width), 1 / alpha)
            d = np.maximum(slack - away, 1e-3)
            needed = float(((-np.log(alpha) - np.log(more)) / (d**2 / (d + USUAL_FLIPS * variance))).max())
            if needed < best[0]:
                best = needed, errors[:-1], -np.log(more)
    return best[1], best[2], np.asarray(replays)
