"""What the race believes: how far a candidate will fall short, from the selection votes alone. It chooses; it claims nothing."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recert.planning import Objective
from recert.planning.prediction import scratch_table

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DRAWS = 200
_PRIOR = 0.5
_STRENGTH = 10.0
"""How many replays of an input weigh as much as what the candidate's other inputs say."""
_NEGLIGIBLE = 0.005


@dataclass(frozen=True)
class Yardstick:
    """How a probability becomes a score: the radius that `samples` votes would certify, and what it counts."""

    objective: Objective
    samples: int
    alpha: float
    sigma: float
    two_sided: bool

    def scores(self, top: Floats, runner_up: Floats) -> Floats:
        table = scratch_table(self.alpha / (2 if self.two_sided else 1), self.samples)
        predict = table.two_sided_radius(self.sigma) if self.two_sided else table.radius(self.sigma)
        return self.objective.value(predict(top, runner_up, np.array(float(self.samples))))


@dataclass(frozen=True)
class Tally:
    """Replays of a candidate on selection noise, by input: where the original voted for the class, and where it did not."""

    of_class: Ints
    lost: Ints
    of_others: Ints
    gained: Ints

    @classmethod
    def empty(cls, rows: int) -> Self:
        return cls(*(np.zeros(rows, dtype=np.int64) for _ in range(4)))

    @property
    def replayed(self) -> Ints:
        return self.of_class + self.of_others


class Prospects:
    """Draws of every input's vote under the original, given its selection votes; and under a candidate, given its flips.

    `rows` are the inputs that have a chance to count, whatever their label; `right` are those of them (by their place in
    `rows`) that the original's class is right on: only these can score.
    """

    def __init__(self, selection: Ints, labels: Ints, yardstick: Yardstick) -> None:
        everyone = np.arange(len(selection))
        classes = np.asarray(selection.argmax(axis=1))
        rivals = selection.copy()
        rivals[everyone, classes] = -1
        top, second, total = selection[everyone, classes], rivals.max(axis=1), selection.sum(axis=1)
        shapes = np.stack([top, second, total - top - second], axis=1)[:, None, :] + _PRIOR
        gammas = np.random.default_rng(0).standard_gamma(shapes, size=(len(everyone), DRAWS, 3))
        shares = gammas / gammas.sum(axis=2, keepdims=True)
        scores = yardstick.scores(shares[..., 0], np.minimum(shares[..., 1], 1 - shares[..., 0]))
        hopeful = scores.mean(axis=1) > _NEGLIGIBLE * max(float(scores.max(initial=0.0)), 1e-9)
        self.inputs = len(selection)
        self.rows: Ints = np.flatnonzero(hopeful)
        self.classes: Ints = classes[hopeful]
        self.right: Ints = np.flatnonzero(self.classes == labels[hopeful])
        self._yardstick = yardstick
        self._top, self._runner_up = shares[hopeful, :, 0], shares[hopeful, :, 1]
        self._scores = scores[hopeful]
        self._share = (top[hopeful] + _PRIOR) / (total[hopeful] + 2 * _PRIOR)

    def under(self, tally: Tally) -> tuple[Floats, Floats]:
        """Draws of the class's and the runner-up's share of a candidate's votes: rows x draws."""
        gained_rate = _pooled(tally.gained, tally.of_others, self._share)
        lose = _posterior(tally.lost, tally.of_class, self.flips(tally) * (1 - self._share), seed=1)
        gain = _posterior(tally.gained, tally.of_others, gained_rate * self._share, seed=2)
        top = self._top * (1 - lose) + (1 - self._top) * gain
        # What the class leaves is shared among the others as it was.
        runner_up = self._runner_up * (1 - top) / np.maximum(1 - self._top, 1e-12)
        return top, np.minimum(runner_up, 1 - top)

    def flips(self, tally: Tally) -> float:
        """Losses per replay, relative to the share of votes that the class does not have: see `Circumstances`."""
        return _pooled(tally.lost, tally.of_class, 1 - self._share)

    def shortfalls(self, tally: Tally) -> Floats:
        """By how much a candidate's scores lie below the original's: right rows x draws."""
        top, runner_up = (draws[self.right] for draws in self.under(tally))
        return np.asarray(self._scores[self.right] - self._yardstick.scores(top, runner_up))


def _pooled(flips: Ints, replays: Ints, chance: Floats) -> float:
    """Flips per replay over all inputs, relative to the share of votes that stood against the outcome."""
    at_risk = float((replays * chance).sum())
    return float(flips.sum() + 0.5) / at_risk if at_risk else 0.0


def _posterior(flips: Ints, replays: Ints, expected: Floats, *, seed: int) -> Floats:
    """Draws of the chance of a flip on every input: its own replays, and what the other inputs made one expect."""
    prior = _STRENGTH * np.clip(expected, 1e-6, 0.9)
    a, b = prior + flips, _STRENGTH - prior + replays - flips
    return np.random.default_rng(seed).beta(a[:, None], b[:, None], size=(len(flips), DRAWS))
