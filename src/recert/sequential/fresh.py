"""Inputs decided by votes of the model itself: how often the class is voted for, and how often its rivals are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from recert.bounds.anytime import log_evidence_above, log_evidence_of_share, reached
from recert.noise import Noise, Stream
from recert.noise.keys import LARGEST_SAMPLE
from recert.sampling import Drawn
from recert.sequential.tally import HALF, Evidence
from recert.sequential.thresholds import class_alone, left_by, widest_pair
from recert.votes import SelectionCounts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DISTANCES = 0.03 * 1.5 ** np.arange(13)
"""Of the shares that are bet on from the threshold, in normal quantiles: some of them fit from some 20 votes to a million."""
BELIEVED = 0.7
"""Of the whole stake, what is put where the selection votes say that the share is. The rest is for where they are wrong."""
HOPED_FOR = 0.97
"""Of all shares that the votes so far allow, an input goes on as long as this quantile would be enough. A larger one certifies hardly
more inputs, for many more votes."""
TINY = 1e-12
WIDER = 1.15
"""A pair is asked for where it is so much wider than the distance of the class alone: its halves have half of alpha each."""


class FreshVotes:
    """A `Tally` of estimation votes. Which question is asked, and what is bet, is chosen by selection votes."""

    stream = Stream.ESTIMATION

    def __init__(self, selection: SelectionCounts, noise: Noise, radii: Floats, *, runner_up: bool) -> None:
        self._noise, self._radii = noise, radii
        self.classes: Ints = np.asarray(selection.argmax(axis=1))
        self._selected, self._of = np.asarray(selection, dtype=np.int64), selection.sum(axis=1)
        self._counts, self._drawn = np.zeros_like(self._selected), np.zeros(len(selection), dtype=np.int64)
        self._alone = np.broadcast_to([class_alone(noise, r) for r in radii], (len(selection), len(radii)))
        self._ask_pair = np.zeros(self._alone.shape, dtype=bool)
        if runner_up:
            top, rival, unit = self._shares(np.arange(len(selection)), self._selected, self._of)
            gap, _, _ = widest_pair(noise, radii, top, rival, unit)
            self._ask_pair = gap > WIDER * (top[:, None] - self._alone) / unit[0][:, None]

    def begin(self, rows: Ints) -> None:
        """Nothing is needed before drawing."""

    def end(self, row: int) -> None:
        """Nothing is kept for drawing."""

    def next_noises(self, row: int, count: int) -> range:
        start = int(self._drawn[row])
        return range(start, min(start + count, LARGEST_SAMPLE))

    def add(self, row: int, samples: range | Ints, drawn: Drawn) -> None:
        self._counts[row] += drawn.counts
        self._drawn[row] += len(samples)

    def evidence(self, rows: Ints) -> Evidence:
        n, (top, rival) = self._drawn[rows], self._leading(rows, self._counts[rows])
        alone = self._alone[rows]
        shares, weights = _bets(alone, self._selected_top(rows), self._of[rows])
        log = np.asarray(log_evidence_above(top[:, None], n[:, None], alone, shares, weights))
        if not self._ask_pair[rows].any():
            return Evidence(log, alone, 1 - alone)
        # Two halves, and of all pairs that give the radius the widest by the votes so far: each half has half of alpha, see theory.
        high, low = self._pair(rows, self._counts[rows], n)[1:]
        above = _of_share(top, n, high, self._selected_top(rows), self._of[rows])
        # The same bets against all rivals: the one with most votes is the least shown, so that the others need no look.
        _, selected_rival = self._leading(rows, self._selected[rows])
        below = _of_share(n - rival, n, left_by(low), self._of[rows] - selected_rival, self._of[rows])
        pair, asked = np.minimum(above, below) - HALF, self._ask_pair[rows]
        return Evidence(np.where(asked, pair, log), np.where(asked, high, alone), np.where(asked, low, 1 - alone))

    def passes_needed(self, rows: Ints, radius: Ints, lacking: Floats) -> Floats:
        # Selection votes count here, too: nothing is claimed.
        counts, n = self._counts[rows] + self._selected[rows], self._drawn[rows] + self._of[rows]
        top, _ = self._leading(rows, counts)
        here = np.arange(len(rows))
        hoped = np.asarray(betaincinv(top + 1.0, n - top + 1.0, HOPED_FOR), dtype=float)
        needed = lacking / _growth(hoped, self._alone[rows, radius])
        if not self._ask_pair[rows].any():
            return np.asarray(needed)
        # Errors of the two shares are added up, and the pair may move with them. Evidence grows by half the square of the gap.
        gap = self._pair(rows, counts, n)[0][here, radius] + ndtri(HOPED_FOR) / np.sqrt(2.0 * n)
        pair = lacking / np.maximum(np.where(gap > 0, gap, 0.0) ** 2 / 2, TINY)
        return np.where(self._ask_pair[rows, radius], pair, needed)

    def soonest(self, rows: Ints, radius: Ints, lacking: Floats) -> Ints:
        # No vote multiplies the evidence by more than one over the threshold. A pair moves with the votes: there it is no more than a guess.
        return np.asarray(np.ceil(np.maximum(lacking, 0.0) / -np.log(self._alone[rows, radius])), dtype=np.int64)

    def passes_of_a_noise(self, rows: Ints) -> Floats:
        return np.ones(len(rows))

    def columns(self) -> dict[str, Any]:
        rows = np.arange(len(self._counts))
        return {"top_votes": self._counts[rows, self.classes], "samples": self._drawn.copy()}

    def _selected_top(self, rows: Ints) -> Ints:
        return self._selected[rows, self.classes[rows]]

    def _leading(self, rows: Ints, counts: Ints) -> tuple[Ints, Ints]:
        """Votes for the class, and for the rival that has most."""
        here, others = np.arange(len(rows)), counts.copy()
        others[here, self.classes[rows]] = -1
        return counts[here, self.classes[rows]], np.maximum(others.max(axis=1), 0)

    def _shares(self, rows: Ints, counts: Ints, n: Ints) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
        """Shares of the class and of the leading rival, never 0 or 1, and how far one vote leaves them uncertain."""
        top, rival = ((votes + 0.5) / (n + 1) for votes in self._leading(rows, counts))
        rival = np.minimum(rival, 1 - top)
        return top, rival, (np.sqrt(top * (1 - top)), np.sqrt(rival * (1 - rival)))

    def _pair(self, rows: Ints, counts: Ints, n: Ints) -> tuple[Floats, Floats, Floats]:
        return widest_pair(self._noise, self._radii, *self._shares(rows, counts, n))


def smallest_samples(threshold: float, alpha: float, selection_samples: int) -> int:
    """How many votes it takes at least, if all are for the class, those that choose as well."""
    unanimous = np.array([selection_samples])
    shares, weights = _bets(np.array([[threshold]]), unanimous, unanimous)

    def enough(count: int) -> bool:
        return bool(reached(log_evidence_above(count, count, threshold, shares[0, 0], weights[0, 0]), alpha))

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _growth(share: Floats, threshold: Floats) -> Floats:
    """What a vote adds to the evidence in the mean: the relative entropy to the threshold. Hardly anything below it."""
    hoped = np.clip(share, threshold, 1 - TINY)
    entropy = hoped * np.log(hoped / threshold) + (1 - hoped) * np.log((1 - hoped) / (1 - threshold))
    return np.maximum(entropy, TINY)


def _of_share(successes: Ints, trials: Ints, threshold: Floats, selected: Ints, of: Ints) -> Floats:
    """Evidence that a share is above a threshold that is chosen by these votes: rows x radii."""
    # A prior belief as from the selection votes, halved, since they may be few: (1 + k) of (2 + n).
    a, b = 1.0 + selected / 2, 1.0 + (of - selected) / 2
    return np.asarray(log_evidence_of_share(successes[:, None], trials[:, None], threshold, a[:, None], b[:, None]))


def _bets(threshold: Floats, selected: Any, of: Any) -> tuple[Floats, Floats]:
    """Shares above a threshold to bet on, and the weights of these bets: rows x radii x bets."""
    shares = ndtr(ndtri(threshold)[..., None] + DISTANCES)
    shares = np.clip(shares, np.nextafter(threshold, 2.0)[..., None], 1.0)
    k, rest = np.asarray(selected, dtype=float)[:, None, None], np.asarray(of - selected, dtype=float)[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = k * np.log(shares) + np.where(rest > 0, rest * np.log1p(-shares), 0.0)
    top = fit.max(axis=-1, keepdims=True)
    believed = np.exp(fit - np.where(np.isfinite(top), top, 0.0))
    total = believed.sum(axis=-1, keepdims=True)
    flat = np.full(shares.shape, 1 / shares.shape[-1])
    weights = np.where(total > 0, BELIEVED * believed / np.where(total > 0, total, 1.0) + (1 - BELIEVED) * flat, flat)
    # Weights must not come to more than 1, after rounding as well.
    return shares, weights * (1 - 1e-12)
