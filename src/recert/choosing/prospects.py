"""What the race believes: how far a candidate will fall short, from the selection votes alone. It chooses; it claims nothing."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recert.noise import Noise
from recert.planning import Objective
from recert.planning.tables import fresh_votes_table

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# None of these numbers enters a claim: what is believed here decides which candidates are certified, and with how many passes.
DRAWS = 200
"""Enough that chances of 5% and 99%, at which the race ends, are distinguished from others: they are 10 and 198 draws."""
_PRIOR = 0.5
"""Jeffreys' prior for shares of votes."""
_STRENGTH, _STRENGTH_OF_GAINS = 10.0, 2.0
"""How many replays of an input weigh as much as what the candidate's other inputs say. Gains differ more between inputs."""
_NEGLIGIBLE, _WORTH_A_TRY = 0.005, 0.05
"""Parts of the largest score: below the first an input cannot count for the original, above the second it may count for the
candidate alone. The second is larger because votes of the candidate's own cost more than replays."""
_FLIPS_PER_VARIANCE, _FEWEST_FLIPS, _LOW_QUANTILE = 0.8, 0.05, 0.1
"""A row flips about as often as its votes vary if, in nine draws of ten, it flips in more than these parts of p (1 - p), the
variance of a vote, and of all replays. With fewer flips than the second, or a vote that hardly varies, replays are as good as votes."""


@dataclass(frozen=True)
class Scoring:
    """How a probability becomes a score: the radius that `samples` votes would certify, and what it counts."""

    objective: Objective
    samples: int
    alpha: float
    noise: Noise
    sides: int

    def scores(self, top: Floats, runner_up: Floats) -> Floats:
        predict = fresh_votes_table(self.alpha / self.sides, self.noise, self.samples).radius(self.sides)
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
    """Draws of the share of votes that an input's label has under the original, given its selection votes; and under a
    candidate, given its flips.

    `rows` are the inputs whose label is a class of the network, `classes` these labels. `right` are those of them (by their place
    in `rows`) that have a chance to count for the original; on the others a candidate can gain. Repeated inputs count as often.
    """

    def __init__(self, selection: Ints, labels: Ints, scoring: Scoring, repeats: Ints) -> None:
        self.inputs = int(repeats.sum())
        self.rows: Ints = np.flatnonzero((labels >= 0) & (labels < selection.shape[1]))
        self.classes: Ints = labels[self.rows]
        self._repeats = repeats[self.rows, None]
        self._scoring = scoring
        votes, every_row = selection[self.rows], np.arange(len(self.rows))
        rivals = votes.copy()
        rivals[every_row, self.classes] = -1
        top, second, total = votes[every_row, self.classes], rivals.max(axis=1), votes.sum(axis=1)
        # Draws from the posterior of (label, runner-up, all others): a Dirichlet vector is a vector of gammas over their sum.
        shapes = np.stack([top, second, total - top - second], axis=1)[:, None, :] + _PRIOR
        gammas = np.random.default_rng(0).standard_gamma(shapes, size=(len(every_row), DRAWS, 3))
        shares = gammas / gammas.sum(axis=2, keepdims=True)
        self._top, self._runner_up = shares[..., 0], np.minimum(shares[..., 1], 1 - shares[..., 0])
        self._scores = scoring.scores(self._top, self._runner_up)
        self._share = (top + _PRIOR) / (total + 2 * _PRIOR)
        # An input whose label is not the original's class has no certificate to transfer, however few votes it is behind.
        likely = self._scores.mean(axis=1) > _NEGLIGIBLE * max(float(self._scores.max(initial=0.0)), 1e-9)
        self.right: Ints = np.flatnonzero(likely & (votes.argmax(axis=1) == self.classes))

    def shares_of_candidate(self, tally: Tally) -> tuple[Floats, Floats]:
        """Draws of the label's and the runner-up's share of a candidate's votes: rows x draws."""
        lose, gain = self._changes(tally)
        top = self._top * (1 - lose) + (1 - self._top) * gain
        # The votes that are not for the label are split among the other classes in the same proportions as the original's.
        runner_up = self._runner_up * (1 - top) / np.maximum(1 - self._top, 1e-12)
        return top, np.minimum(runner_up, 1 - top)

    def _changes(self, tally: Tally) -> tuple[Floats, Floats]:
        """Draws of the chances that a vote for the label is lost, and that another becomes one."""
        gained_rate = _relative_rate(tally.gained, tally.of_others, self._share)
        lose = _posterior(tally.lost, tally.of_class, self.flips(tally) * (1 - self._share), _STRENGTH, seed=1)
        gain = _posterior(tally.gained, tally.of_others, gained_rate * self._share, _STRENGTH_OF_GAINS, seed=2)
        return lose, gain

    def flips(self, tally: Tally) -> float:
        """Losses per replay, relative to the share of votes that the class does not have: see `Circumstances`."""
        return _relative_rate(tally.lost, tally.of_class, 1 - self._share)

    def scores(self, tally: Tally) -> Floats:
        """Draws of what a candidate scores: rows x draws."""
        return self._scoring.scores(*self.shares_of_candidate(tally))

    def shortfalls(self, tally: Tally) -> Floats:
        """By how much a candidate's scores lie below the original's: rows x draws. Gains are negative."""
        # Draw by draw: both scores come from the same draw of the original's shares, and only what the flips change is left.
        return np.asarray((self._scores - self.scores(tally)) * self._repeats)

    def by_own_votes(self, tally: Tally) -> Ints:
        """Rows on which a candidate's own votes say more than its flips."""
        return np.union1d(self._gained(tally), self._as_variable_as_votes(tally))

    def _gained(self, tally: Tally) -> Ints:
        """Rows that may well count for the candidate though not for the original."""
        scores = self.scores(tally)
        likely = scores.mean(axis=1) > _WORTH_A_TRY * max(float(scores.max(initial=0.0)), 1e-9)
        return np.setdiff1d(np.flatnonzero(likely), self.right)

    def _as_variable_as_votes(self, tally: Tally) -> Ints:
        """Rows that very probably flip about as often as a vote varies: there, m votes tell more than m replays."""
        lose, gain = self._changes(tally)
        flips = np.quantile(self._top * lose + (1 - self._top) * gain, _LOW_QUANTILE, axis=1)
        top = self.shares_of_candidate(tally)[0].mean(axis=1)
        return np.intersect1d(
            np.flatnonzero(flips > np.maximum(_FLIPS_PER_VARIANCE * top * (1 - top), _FEWEST_FLIPS)), self.right
        )


def _relative_rate(flips: Ints, replays: Ints, chance: Floats) -> float:
    """Flips per replay over all inputs, relative to the share of votes that were against the outcome.

    Half a flip is added, so that a candidate without any flip so far is not taken for one that never flips.
    """
    at_risk = float((replays * chance).sum())
    return float(flips.sum() + 0.5) / at_risk if at_risk else 0.0


def _posterior(flips: Ints, replays: Ints, expected: Floats, strength: float, *, seed: int) -> Floats:
    """Draws of the chance of a flip on every input: its own replays, and what the other inputs made one expect."""
    # A beta distribution needs both parameters above 0.
    prior = strength * np.clip(expected, 1e-6, 0.9)
    a, b = prior + flips, strength - prior + replays - flips
    return np.random.default_rng(seed).beta(a[:, None], b[:, None], size=(len(flips), DRAWS))
