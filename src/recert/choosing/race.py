"""The race: replays of a candidate on selection noise, round by round, until it is clearly good, clearly hopeless, or out of noise."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache
from recert.caching import CachingSource
from recert.choosing.prospects import Prospects, Tally
from recert.noise import Stream
from recert.sampling import ProgressCallback, Work, collect

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# None of these numbers enters a claim: the race only decides which candidates are certified, and in which order.
FIRST_ROUND = 10
"""Replays of every input in the first round; each further round doubles the replays of inputs that are in doubt."""
HOPELESS, CLEAR = 0.05, 0.99
"""A candidate is dropped at the first chance or below, and races no further at the second. Dropping a good candidate loses a
winner for good; sending a bad one to the final costs passes and half of the error that is left. So both are far from 1/2."""
REPLAYS_BEFORE_DROPPING = 80
"""No candidate is dropped before inputs in doubt had so many replays: with few, what is not known about an input counts against it."""
SHARE_OF_VARIANCE = 0.99
"""Further rounds replay the fewest inputs that hold so much of the remaining variance; on the others a replay would tell little."""
ROUNDING = 1e-9
"""A mean over inputs is rounded: a shortfall that equals the tolerance must not exceed it by its last digits."""


@dataclass
class RacingCandidate:
    """One candidate in the race, and its votes so far. They are on selection noise, from which nothing is claimed."""

    name: str
    source: CachingSource
    cache: Cache
    positions: Ints
    """Where the inputs of the cache are in the source."""
    prospects: Prospects
    tolerance: float
    progress: ProgressCallback | None = None
    tally: Tally = field(init=False)
    shortfalls: Floats = field(init=False)
    _finished: bool = False

    def __post_init__(self) -> None:
        self.tally = Tally.empty(len(self.prospects.rows))
        self.shortfalls = self.prospects.shortfalls(self.tally)

    @property
    def shortfall(self) -> Floats:
        """Draws of how far the score falls below the original's."""
        return np.asarray(self.shortfalls.sum(axis=0) / self.prospects.inputs)

    @property
    def chance(self) -> float:
        """How probable the race thinks it is that the candidate is within the tolerance."""
        return float(np.mean(self.shortfall <= self.tolerance + ROUNDING))

    @property
    def decided(self) -> bool:
        may_drop = bool(self.tally.replayed.max(initial=0) >= REPLAYS_BEFORE_DROPPING)
        return self._finished or self.chance >= CLEAR or (may_drop and self.chance <= HOPELESS)

    @property
    def passes(self) -> int:
        return int(self.tally.replayed.sum())

    def race(self) -> None:
        """Rounds until it is decided."""
        while not self.decided:
            self.race_round()

    def race_round(self) -> None:
        """Replay all inputs the first time, then those that are in doubt."""
        done = self.tally.replayed
        first = not done.any()
        goal = min(FIRST_ROUND if first else 2 * int(done.max()), self.cache.manifest.selection_samples)
        behind = np.flatnonzero(done < goal)
        chosen = behind if first else self._most_in_doubt(behind)
        if not len(chosen):  # all selection noises are used up, or nothing is in doubt
            self._finished = True
            return
        inputs = self.prospects.rows[chosen]
        works = [
            Work(int(self.positions[row]), Stream.SELECTION, range(int(done[i]), goal))
            for i, row in zip(chosen, inputs, strict=True)
        ]
        drawn = collect(self.source, works, "racing", self.progress)
        for i, row, work, votes in zip(chosen, inputs, works, drawn, strict=True):
            before = self.cache.votes(self.cache.digests[row], Stream.SELECTION)[np.asarray(work.samples)]
            self._count(int(i), before == self.prospects.classes[i], votes.votes == self.prospects.classes[i])
        self.shortfalls = self.prospects.shortfalls(self.tally)

    def _count(self, i: int, before: NDArray[np.bool_], after: NDArray[np.bool_]) -> None:
        self.tally.of_class[i] += np.count_nonzero(before)
        self.tally.lost[i] += np.count_nonzero(before & ~after)
        self.tally.of_others[i] += np.count_nonzero(~before)
        self.tally.gained[i] += np.count_nonzero(~before & after)

    def _most_in_doubt(self, rows: Ints) -> Ints:
        """Of some inputs those whose score is most in doubt: the fewest that hold nearly all of the variance."""
        variance = self.shortfalls[rows].var(axis=1)
        order = np.argsort(-variance, kind="stable")
        total = np.cumsum(variance[order])
        if not len(total) or total[-1] <= 0:
            return rows[:0]
        return np.sort(rows[order[: 1 + int(np.searchsorted(total, SHARE_OF_VARIANCE * total[-1]))]])
