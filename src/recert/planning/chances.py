"""How probable it is that a radius is reached: by how many flips a bound allows, and by how many there may be.

A radius that is reached at the expected number of flips may be missed by one flip more. So a plan for a radius goes by the
chance: a few passes more, where they make room for a flip, are then worth what they cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from recert.planning.tables import RadiusPredictor

Floats = NDArray[np.float64]
ChancePredictor = Callable[[Floats, Floats, Floats], Floats]
"""Probability of the class, of its runner-up, and forward passes, to the chance that a radius is reached."""

FEW = (0, 1, 2, 3, 5, 8, 13)
"""Numbers of flips that bounds are predicted at where each costs much: with more of them others are better."""
MANY = (*FEW, 20, 30, 45, 70, 110, 170, 260, 400)


@dataclass(frozen=True)
class FlipChances:
    """The chance that no more votes for the class are lost than the bound allows.

    Flips per vote that is not unanimous differ between inputs about as an exponential variable does (measured on real networks),
    so that the number of losses is geometric: more than a of them come with probability (mean / (1 + mean)) ** (a + 1).
    """

    radius: float
    numbers: Sequence[int]
    after: Sequence[RadiusPredictor]
    """The radius after each of these numbers of losses; it falls with them."""
    flips: float
    """Losses per replay, relative to the share of votes that the class does not have."""

    def __call__(self, top: Floats, runner_up: Floats, passes: Floats) -> Floats:
        mean = passes * self.flips * np.maximum(1 - top, 0.0)
        allowed = self._allowed(top, runner_up, passes, mean.shape)
        return np.where(allowed < 0, 0.0, 1 - (mean / (1 + mean)) ** (np.floor(allowed) + 1))

    def _allowed(self, top: Floats, runner_up: Floats, passes: Floats, shape: tuple[int, ...]) -> Floats:
        """How many losses leave the radius, between numbers on a straight line; -1 where none may be lost, and it is missed."""
        allowed, before = np.full(shape, -1.0), np.zeros(shape)
        # Inputs that miss the radius at one number miss it at all larger ones: only the others are looked at again.
        rows = np.arange(shape[0])
        for place, predict in enumerate(self.after):
            some_passes = passes if len(passes) == 1 else passes[rows]
            found = np.broadcast_to(predict(top[rows], runner_up[rows], some_passes), (len(rows), *shape[1:]))
            reached = found >= self.radius
            if place:
                low, high = self.numbers[place - 1], self.numbers[place]
                fell = np.maximum(before - found, 1e-12)
                # A whole step only where the radius is still reached at its end.
                share = np.where(reached, 1.0, np.clip((before - self.radius) / fell, 0.0, 1 - 1e-9))
                here = allowed[rows]
                allowed[rows] = np.where(here == low, low + share * (high - low), here)
            else:
                allowed[rows] = np.where(reached, 0.0, -1.0)
            some = reached.reshape(len(rows), -1).any(axis=1)
            rows, before = rows[some], found[some]
            if not len(rows):
                break
        return allowed


@dataclass(frozen=True)
class FreshVotesChances:
    """The chance with fresh votes: their number for the class varies, and with it the radius."""

    radius: float
    predict: RadiusPredictor
    """The radius at the expected number."""

    def __call__(self, top: Floats, runner_up: Floats, passes: Floats) -> Floats:
        # One standard deviation less of the class, and one more of the runner-up: what the radius loses by it is its own.
        of_class, of_rival = (np.sqrt(share * (1 - share) / passes) for share in (top, runner_up))
        middle = self.predict(top, runner_up, passes)
        lower = self._below(top - of_class, runner_up + of_rival, passes)
        deviation = np.maximum(middle - lower, 1e-9)
        return np.where(middle > 0, ndtr((middle - self.radius) / deviation), 0.0)

    def _below(self, top: Floats, runner_up: Floats, passes: Floats) -> Floats:
        top = np.maximum(top, 0.0)
        return self.predict(top, np.minimum(runner_up, 1 - top), passes)


@dataclass(frozen=True)
class ExpectedChances:
    """For methods that predict a radius only: certain where that is large enough, impossible elsewhere."""

    radius: float
    predict: RadiusPredictor

    def __call__(self, top: Floats, runner_up: Floats, passes: Floats) -> Floats:
        return np.asarray(self.predict(top, runner_up, passes) >= self.radius, dtype=np.float64)
