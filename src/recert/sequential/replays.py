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
from recert.sequential.tally import HALF, Evidence
from recert.sequential.thresholds import class_alone, left_by, widest_pair
from recert.votes import SelectionCounts, Votes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
ReadVotes = Callable[[Sequence[int]], Mapping[int, Votes]]

CACHED_SHARE = 0.2
"""Of alpha, for the bound on the original's probability; the rest is for what changed."""
STAKES = 1 - np.geomspace(0.002, 0.8, 8)
"""Shares of what one has that are bet. The best is 1 - flips / slack (Kelly), so that these fit many rates of flips."""
WEIGHTS = np.array([0.5] + [0.5 / (len(STAKES) - 1)] * (len(STAKES) - 1)) * (1 - 1e-12)
"""Most inputs lose nothing: half is put on that."""
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
        self.alpha_of_changes = (1 - CACHED_SHARE) * alpha
        self._counts, self._size, self._cached_alpha = counts, size, CACHED_SHARE * alpha
        self._ask_pair = np.zeros(shape, dtype=bool)
        self._top = np.broadcast_to([class_alone(noise, r) for r in radii], shape)
        self._rival = 1 - self._top
        top = self._lower(counts[rows, self.classes], self._cached_alpha)
        self._slack = top[:, None] - self._top
        if runner_up:
            self._ask_pair = _pair_is_wider(selection, self.classes, noise, radii, self._top)
            # Each half of a pair has half of alpha. The pair lies equally far from what the cache shows of both.
            rivals = counts.copy()
            rivals[rows, self.classes] = 0
            top = self._lower(counts[rows, self.classes], self._cached_alpha / 2)
            rival = 1 - self._lower(size - rivals.max(axis=1), self._cached_alpha / 2)
            one = np.ones(len(rows))
            gap, high, low = widest_pair(noise, radii, top, np.minimum(rival, 1 - top), (one, one))
            self._top, self._rival = (
                np.where(self._ask_pair, high, self._top),
                np.where(self._ask_pair, low, self._rival),
            )
            self._slack = np.where(self._ask_pair, np.where(gap > 0, top[:, None] - high, -np.inf), self._slack)
        self._read, self._cached = read, dict[int, Votes]()
        self._noises = np.zeros(len(rows), dtype=np.int64)
        """How many noises were passed, in the order of the cache."""
        self._into, self._out_of = np.zeros_like(counts), np.zeros_like(counts)
        """Noises on which the changed model votes for a class and the original does not, and the other way round."""
        self._replayed, self._kept = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)

    def begin(self, rows: Ints) -> None:
        self._cached.update(self._read(rows.tolist()))

    def end(self, row: int) -> None:
        del self._cached[row]

    def next_noises(self, row: int, count: int) -> range | Ints:
        start = int(self._noises[row])
        end = min(start + count, self._size)
        if not self._only_the_class(row):
            return range(start, end)
        # Where the original did not vote for the class nothing can be lost: such a noise counts as one without change, unasked.
        votes = self._cached[row][start:]
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

    def evidence(self, rows: Ints) -> Evidence:
        log = self._log_evidence(rows, self._lost(rows), self._gained(rows), self._slack[rows])
        at, where = self._rivals(rows)
        if len(at):
            rival = self._log_evidence(
                rows[at], self._into[rows[at], where], self._out_of[rows[at], where], self._rival_slack(rows[at], where)
            )
            np.minimum.at(log, at, np.where(self._ask_pair[rows[at]], rival, np.inf))
        return Evidence(log - HALF * self._ask_pair[rows], self._top[rows], self._rival[rows])

    def passes_needed(self, rows: Ints, radius: Ints, lacking: Floats) -> Floats:
        lost = self._flips_expected(self._lost(rows), self._cached_share(rows, self.classes[rows]), self._noises[rows])
        growth = _growth(*lost, self._gained(rows), self._slack[rows, radius])
        at, where = self._rivals(rows)
        if len(at):
            into = self._flips_expected(
                self._into[rows[at], where], self._cached_share(rows[at], where), self._noises[rows[at]]
            )
            slack = self._rival_slack(rows[at], where)[np.arange(len(at)), radius[at]]
            rival = _growth(*into, self._out_of[rows[at], where], slack)
            np.minimum.at(growth, at, np.where(self._ask_pair[rows[at], radius[at]], rival, np.inf))
        noises = lacking / np.maximum(growth, 1e-12)
        return np.where(noises > self._size - self._noises[rows], np.inf, noises * self._passes_of_a_noise(rows))

    def soonest(self, rows: Ints, radius: Ints, lacking: Floats) -> Ints:
        # No noise without a change multiplies the evidence by more than 1 / (1 - slack).
        most = -np.log1p(-np.clip(self._slack[rows, radius], 1e-9, 1 - 1e-9))
        return np.asarray(np.ceil(np.maximum(lacking, 0.0) / most), dtype=np.int64)

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

    def _lower(self, votes: Ints, alpha: float) -> Floats:
        """Lower bounds on the original's probability of an event, by its cached votes; worked out once for each number."""
        distinct, place = np.unique(votes, return_inverse=True)
        return np.asarray(np.atleast_1d(bounds.clopper_pearson_lower(distinct, self._size, alpha))[place], dtype=float)

    def _rival_slack(self, rows: Ints, rivals: Ints) -> Floats:
        """By how much the original is known to vote less for a rival than it may: rows x radii."""
        lower = self._lower(self._size - self._counts[rows, rivals], self._cached_alpha / 2)
        return np.asarray(lower[:, None] - left_by(self._rival[rows]))

    def _rivals(self, rows: Ints) -> tuple[Ints, Ints]:
        """Which rivals of pairs must be looked at, as places in `rows` and classes: those with flips, and of the others the one with
        most cached votes, which has the least slack of them."""
        among = np.flatnonzero(self._ask_pair[rows].any(axis=1))
        if not len(among):
            return among, among
        some, here = rows[among], np.arange(len(among))
        wanted = (self._into[some] + self._out_of[some]) > 0
        quiet = np.where(wanted, -1, self._counts[some])
        quiet[here, self.classes[some]] = -1
        most = quiet.argmax(axis=1)
        wanted[here, most] |= quiet[here, most] >= 0
        wanted[here, self.classes[some]] = False
        at, where = np.nonzero(wanted)
        return among[at], where

    def _log_evidence(self, rows: Ints, lost: Ints, gained: Ints, slack: Floats) -> Floats:
        unchanged = self._noises[rows] - lost - gained
        positive = slack > 0
        evidence = log_evidence_of_change(
            unchanged[:, None],
            lost[:, None],
            gained[:, None],
            np.where(positive, np.minimum(slack, 1 - 1e-9), 0.5),
            STAKES,
            WEIGHTS,
        )
        return np.where(positive, evidence, -np.inf)

    def _cached_share(self, rows: Ints, classes: Ints) -> Floats:
        """Of the cached votes, those for a class; never none or all."""
        return np.asarray((self._counts[rows, classes] + 0.5) / (self._size + 1.0))

    def _passes_of_a_noise(self, rows: Ints) -> Floats:
        only = ~self._ask_pair[rows].any(axis=1) & (self._lost(rows) < FLIPS_BEFORE_GAINS)
        return np.where(only, self._cached_share(rows, self.classes[rows]), 1.0)

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
    """What a noise adds to the evidence in the mean, by the best of the stakes; 0 without slack."""
    more = np.where(gained > 0, gained / noises, 0.0)
    d = np.clip(slack, 1e-9, 1 - 1e-9)[:, None]
    odds = STAKES / (1 - d)
    unchanged = np.maximum(1 - lost - more, 0.0)
    each = (
        unchanged[:, None] * np.log1p(odds * d)
        + lost[:, None] * np.log1p(-STAKES)
        + more[:, None] * np.log1p(odds * (1 + d))
    )
    return np.where(slack > 0, np.maximum(each.max(axis=1), 0.0), 0.0)


def _pair_is_wider(
    selection: SelectionCounts, classes: Ints, noise: Noise, radii: Floats, alone: Floats
) -> NDArray[np.bool_]:
    """Where a pair is likely to be shown with fewer passes than the class alone: inputs x radii."""
    rows, total = np.arange(len(selection)), selection.sum(axis=1) + 1
    rivals = selection.copy()
    rivals[rows, classes] = 0
    top, rival = (selection[rows, classes] + 0.5) / total, (rivals.max(axis=1) + 0.5) / total
    one = np.ones(len(rows))
    gap, _, _ = widest_pair(noise, radii, top, np.minimum(rival, 1 - top), (one, one))
    # For the class alone only noises on which it was voted for are replayed. A pair needs ln 2 more, about a tenth.
    return np.asarray(0.9 * gap > (top[:, None] - alone) / top[:, None])
