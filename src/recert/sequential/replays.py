"""Inputs decided from a cache: by how little the changed model's votes differ from the cached ones, noise by noise.

For one event ("votes for the class", or "does not vote for this rival") let A and B say whether it happens to the original and
to the changed model on a noise. The cache bounds P(A) from below; noises in the order of the cache show that P(B) - P(A) is not
far below zero; together they show P(B) above its threshold. The proof is in docs/theory.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from recert import bounds
from recert.bounds.anytime import log_evidence_of_change
from recert.noise import Noise, Stream
from recert.sampling import Drawn
from recert.sequential.beliefs import LEVELS, STAKES, WEIGHTS, Believed, levels_for
from recert.sequential.tally import HALF, Evidence
from recert.sequential.thresholds import class_alone, left_by, widest_pair
from recert.votes import SelectionCounts, Votes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
ReadVotes = Callable[[Sequence[int]], Mapping[int, Votes]]

FLIPS_BEFORE_GAINS = 2
"""After so many noises that lost the class, those on which the original did not vote for it are replayed, too: they may gain."""
HOPED_FOR = 0.3
"""Of all rates of flips that seem possible, an input goes on as long as this quantile would be low enough: one flip alone is no reason
to give up. A lower one certifies hardly more inputs, for many more passes."""
IMAGINED = 25.0
"""Noises without a flip, as likely one class as another, that count as if they had been passed before: at first none is expected."""
LEAST_FLIPS = 2e-4


class Replays:
    """A `Tally` of replays. Which question is asked is chosen by selection votes; `size` is how many votes the cache has of an input."""

    stream = Stream.ESTIMATION

    def __init__(
        self,
        selection: SelectionCounts,
        counts: Ints,
        read: ReadVotes,
        noise: Noise,
        radii: Floats,
        *,
        size: int,
        alpha: float,
        runner_up: bool,
    ) -> None:
        rows, shape = np.arange(len(selection)), (len(selection), len(radii))
        self.classes: Ints = np.asarray(selection.argmax(axis=1))
        self._noise, self._radii, self._counts, self._size = noise, radii, counts, size
        self._alone = np.broadcast_to([class_alone(noise, r) for r in radii], shape)
        self._believed = Believed.of(selection, self.classes, noise, radii, self._alone, runner_up=runner_up)
        self._ask_pair = self._believed.pair
        # Each half of a pair has half of alpha.
        self._levels = levels_for(self._believed, size, alpha / np.where(self._ask_pair, 2.0, 1.0))
        self._ends: Ints = self._levels.replays.max(axis=1)
        """Where the noises end that levels have. Those from there on bound the original's probabilities."""
        self._rest = size - self._ends
        self._rest_counts = counts.copy()
        self._top, self._rival = self._alone.copy(), 1 - self._alone
        self._slack = np.full(self._levels.errors.shape, -np.inf)
        self._rival_slacks = dict[int, dict[int, Floats]]()
        """By row and rival: bounds are worked out once."""
        self._read, self._cached = read, dict[int, Votes]()
        self._noises = np.zeros(len(rows), dtype=np.int64)
        """How many noises were passed, in the order of the cache."""
        self._into, self._out_of = np.zeros_like(counts), np.zeros_like(counts)
        """Noises on which the changed model votes for a class and the original does not, and the other way round."""
        self._replayed, self._kept = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)

    def begin(self, rows: Ints) -> None:
        self._cached.update(self._read(rows.tolist()))
        classes = self._counts.shape[1]
        for row in rows.tolist():
            # Votes for nobody are beyond the classes, and count for none of them.
            replayed = self._cached[row][: self._ends[row]]
            self._rest_counts[row] -= np.bincount(replayed, minlength=classes)[:classes]
        chosen = self.classes[rows]
        top = self._lower(rows, self._rest_counts[rows, chosen], self._counts[rows, chosen])
        self._slack[rows] = top - self._alone[rows][..., None]
        if not self._ask_pair[rows].any():
            return
        # The pair lies equally far from what the cache shows of both, at the smallest of the errors.
        others, every = self._rest_counts[rows], self._counts[rows]
        others[np.arange(len(rows)), chosen] = every[np.arange(len(rows)), chosen] = 0
        rival = 1 - self._lower(rows, self._rest[rows] - others.max(axis=1), self._size - every.max(axis=1))[..., 0]
        first, one = top[..., 0], np.ones(top.shape[:2])
        gap, high, low = widest_pair(self._noise, self._radii, first, np.minimum(rival, 1 - first), (one, one))
        asked = self._ask_pair[rows]
        self._top[rows], self._rival[rows] = (
            np.where(asked, high, self._top[rows]),
            np.where(asked, low, self._rival[rows]),
        )
        pair = np.where((gap > 0)[..., None], top - high[..., None], -np.inf)
        self._slack[rows] = np.where(asked[..., None], pair, self._slack[rows])

    def end(self, row: int) -> None:
        del self._cached[row]
        self._rival_slacks.pop(row, None)

    def next_noises(self, row: int, count: int) -> range | Ints:
        start = int(self._noises[row])
        end = min(start + count, self._next_end(row))
        if not self._only_the_class(row):
            return range(start, end)
        # Where the original did not vote for the class nothing can be lost: such a noise counts as one without change, unasked.
        votes = self._cached[row][start : self._next_end(row)]
        hits = np.flatnonzero(votes[: end - start] == self.classes[row])
        # Unanimous noises against the class would end the draw without a vote.
        return start + (hits if len(hits) else np.flatnonzero(votes == self.classes[row])[:1])

    def add(self, row: int, samples: range | Ints, drawn: Drawn) -> None:
        chosen = np.asarray(samples)
        before, after = self._cached[row][chosen], drawn.votes
        changed = before != after
        classes = self._counts.shape[1]
        # Votes for nobody are beyond the classes, and count for none of them.
        self._into[row] += np.bincount(after[changed], minlength=classes)[:classes]
        self._out_of[row] += np.bincount(before[changed], minlength=classes)[:classes]
        self._kept[row] += np.count_nonzero((before == after) & (before == self.classes[row]))
        self._replayed[row] += len(chosen)
        self._noises[row] = chosen[-1] + 1

    def _next_end(self, row: int) -> int:
        """One looks where the noises of the levels end: later ones count for the whole cache only."""
        return int(self._ends[row]) if self._noises[row] < self._ends[row] else self._size

    def evidence(self, rows: Ints) -> Evidence:
        log = self._shown(self._log_of_class(rows), rows)
        at, where = self._rivals(rows)
        if len(at):
            rival = self._shown(self._log_of_rivals(rows[at], where), rows[at])
            np.minimum.at(log, at, np.where(self._ask_pair[rows[at]], rival, np.inf))
        return Evidence(log - HALF * self._ask_pair[rows], self._top[rows], self._rival[rows])

    def passes_needed(self, rows: Ints, radius: Ints, lacking: Floats) -> Floats:
        lost = self._flips_expected(self._lost(rows), self._cached_share(rows, self.classes[rows]), self._noises[rows])
        growth = _growth(*lost, self._gained(rows), self._of(radius, self._slack[rows]))
        noises = self._noises_needed(rows, radius, lacking, self._log_of_class(rows), growth)
        at, where = self._rivals(rows)
        if len(at):
            into = self._flips_expected(
                self._into[rows[at], where], self._cached_share(rows[at], where), self._noises[rows[at]]
            )
            slack = self._of(radius[at], self._rival_slack(rows[at], where))
            growth = _growth(*into, self._out_of[rows[at], where], slack)
            log = self._log_of_rivals(rows[at], where)
            rival = self._noises_needed(rows[at], radius[at], lacking[at], log, growth)
            np.maximum.at(noises, at, np.where(self._ask_pair[rows[at], radius[at]], rival, 0.0))
        return np.asarray(noises * self.passes_of_a_noise(rows))

    def _noises_needed(self, rows: Ints, radius: Ints, lacking: Floats, log: Floats, growth: Floats) -> Floats:
        """Noises until all levels have enough, or the bound from the whole cache, at this growth of each; inf if there are not so many."""
        has = self._of(radius, log - self._levels.costs[rows])
        has = np.where(np.isfinite(has), has, 0.0)
        best = np.maximum(has[:, :-1].min(axis=1), has[:, -1])
        needed = (lacking[:, None] + best[:, None] - has) / np.maximum(growth, 1e-12)
        by_levels, by_all = needed[:, :-1].max(axis=1), needed[:, -1]
        by_levels = np.where(by_levels > self._ends[rows] - self._noises[rows], np.inf, by_levels)
        by_all = np.where(by_all > self._size - self._noises[rows], np.inf, by_all)
        return np.asarray(np.maximum(np.minimum(by_levels, by_all), 0.0))

    @staticmethod
    def _of(radius: Ints, values: Floats) -> Floats:
        """Of rows x radii x levels those of one radius for each row."""
        return np.asarray(values[np.arange(len(values)), radius])

    def soonest(self, rows: Ints, radius: Ints, lacking: Floats) -> Ints:
        # No noise without a change multiplies the evidence by more than 1 / (1 - slack).
        most = -np.log1p(-np.clip(self._of(radius, self._slack[rows]).max(axis=1), 1e-9, 1 - 1e-9))
        return np.asarray(np.ceil(np.maximum(lacking, 0.0) / most), dtype=np.int64)

    def passes_of_a_noise(self, rows: Ints) -> Floats:
        only = ~self._ask_pair[rows].any(axis=1) & (self._lost(rows) < FLIPS_BEFORE_GAINS)
        return np.where(only, self._cached_share(rows, self.classes[rows]), 1.0)

    def columns(self) -> dict[str, Any]:
        rows = np.arange(len(self.classes))
        # `samples` and `top_votes` are those of the cache: the claim rests on them as well.
        return {
            "top_votes": self._counts[rows, self.classes], "samples": self._size, "replayed": self._replayed, "kept": self._kept,
            "lost": self._lost(rows), "gained": self._gained(rows),
        }  # fmt: skip

    def _only_the_class(self, row: int) -> bool:
        # Evidence without the other noises is never more than with them, so that this may depend on anything.
        return not self._ask_pair[row].any() and int(self._out_of[row, self.classes[row]]) < FLIPS_BEFORE_GAINS

    def _lost(self, rows: Ints) -> Ints:
        return self._out_of[rows, self.classes[rows]]

    def _gained(self, rows: Ints) -> Ints:
        return self._into[rows, self.classes[rows]]

    def _lower(self, rows: Ints, rest: Ints, every: Ints) -> Floats:
        """Lower bounds on the original's probability of an event: for each level by the votes after those that are replayed, and at last by
        every vote. Worked out once for each number."""
        errors, whole = self._levels.errors[rows], np.arange(LEVELS + 1) == LEVELS
        votes = np.where(whole, every[:, None, None], rest[:, None, None])
        trials = np.where(whole, self._size, self._rest[rows][:, None, None])
        asked = np.stack(np.broadcast_arrays(votes, trials, errors), axis=-1)
        distinct, place = np.unique(asked.reshape(-1, 3), axis=0, return_inverse=True)
        k, n, error = distinct.T
        lower = np.asarray(bounds.clopper_pearson_lower(k.astype(np.int64), n.astype(np.int64), error), dtype=float)
        return np.asarray(lower[place.ravel()].reshape(asked.shape[:-1]))

    def _rival_slack(self, rows: Ints, rivals: Ints) -> Floats:
        """By how much the original is known to vote less for a rival than it may: rows x radii x levels."""
        known = [self._rival_slacks.setdefault(row, {}) for row in rows.tolist()]
        new = np.array([rival not in slacks for slacks, rival in zip(known, rivals.tolist(), strict=True)], dtype=bool)
        if new.any():
            at, where = rows[new], rivals[new]
            rest, every = self._rest[at] - self._rest_counts[at, where], self._size - self._counts[at, where]
            slack = self._lower(at, rest, every) - left_by(self._rival[at])[..., None]
            for row, rival, each in zip(at.tolist(), where.tolist(), slack, strict=True):
                self._rival_slacks[row][rival] = each
        return np.stack([slacks[rival] for slacks, rival in zip(known, rivals.tolist(), strict=True)])

    def _rivals(self, rows: Ints) -> tuple[Ints, Ints]:
        """Which rivals of pairs must be looked at, as places in `rows` and classes: those with flips, and of the others the one with
        most cached votes, which has the least slack of them."""
        among = np.flatnonzero(self._ask_pair[rows].any(axis=1))
        if not len(among):
            return among, among
        some, here = rows[among], np.arange(len(among))
        wanted = (self._into[some] + self._out_of[some]) > 0
        quiet = np.where(wanted, -1, self._rest_counts[some])
        quiet[here, self.classes[some]] = -1
        most = quiet.argmax(axis=1)
        wanted[here, most] |= quiet[here, most] >= 0
        wanted[here, self.classes[some]] = False
        at, where = np.nonzero(wanted)
        return among[at], where

    def _log_of_class(self, rows: Ints) -> Floats:
        stakes = self._believed.stakes(rows, self.classes[rows])
        return self._log_evidence(rows, self._lost(rows), self._gained(rows), self._slack[rows], stakes)

    def _log_of_rivals(self, rows: Ints, rivals: Ints) -> Floats:
        stakes, slack = self._believed.stakes(rows, rivals), self._rival_slack(rows, rivals)
        return self._log_evidence(rows, self._into[rows, rivals], self._out_of[rows, rivals], slack, stakes)

    def _log_evidence(self, rows: Ints, lost: Ints, gained: Ints, slack: Floats, stakes: Floats) -> Floats:
        """Rows x radii x levels."""
        z, f, g = ((count)[:, None, None] for count in (self._noises[rows] - lost - gained, lost, gained))
        positive = slack > 0
        d = np.where(positive, np.minimum(slack, 1 - 1e-9), 0.5)
        evidence = log_evidence_of_change(z, f, g, d, stakes[:, :, None], WEIGHTS)
        return np.where(positive, evidence, -np.inf)

    def _shown(self, log: Floats, rows: Ints) -> Floats:
        """Every level must have its evidence, from its own noises; or the bound from the whole cache."""
        has = log - self._levels.costs[rows]
        by_levels = np.where((self._noises[rows] <= self._ends[rows])[:, None], has[..., :-1].min(axis=-1), -np.inf)
        return np.asarray(np.maximum(by_levels, has[..., -1]))

    def _cached_share(self, rows: Ints, classes: Ints) -> Floats:
        """Of the cached votes, those for a class; never none or all."""
        return np.asarray((self._counts[rows, classes] + 0.5) / (self._size + 1.0))

    def _flips_expected(self, flips: Ints, share: Floats, noises: Ints) -> tuple[Floats, Floats]:
        """Flips per noise that may be hoped for, by those of this input and, where it had few noises, of all inputs; and how many noises
        this rests on."""
        imagined = 1 / (self._flip_rate() * share * (1 - share) + LEAST_FLIPS)
        return np.asarray(gammaincinv(1.0 + flips, HOPED_FOR) / (imagined + noises)), imagined + noises

    def _flip_rate(self) -> float:
        """Noises of all inputs that lost the class, as a multiple of share x (1 - share): flips are more frequent where f wavers."""
        passed = np.flatnonzero(self._noises)
        share = self._cached_share(passed, self.classes[passed])
        return float(self._lost(passed).sum() / (self._noises[passed] @ (share * (1 - share)) + IMAGINED))


def _growth(lost: Floats, noises: Floats, gained: Ints, slack: Floats) -> Floats:
    """What a noise adds to the evidence in the mean, by the best of some stakes; 0 without slack. Rows x levels."""
    more = np.where(gained > 0, gained / noises, 0.0)[:, None, None]
    lost, d = lost[:, None, None], np.clip(slack, 1e-9, 1 - 1e-9)[..., None]
    odds = STAKES / (1 - d)
    unchanged = np.maximum(1 - lost - more, 0.0)
    each = unchanged * np.log1p(odds * d) + lost * np.log1p(-STAKES) + more * np.log1p(odds * (1 + d))
    return np.where(slack > 0, np.maximum(each.max(axis=-1), 0.0), 0.0)
