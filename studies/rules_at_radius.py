"""Is the radius at least so large? Rules of others, which decide it by fresh votes, written here from what they publish.

Each takes which votes are for the class (inputs x votes, in the order in which they were drawn) and the probability that gives the radius
by itself, and says of which inputs the radius is shown, and how many of these votes it took.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from recert.bounds import clopper_pearson_lower, clopper_pearson_upper

KINDS = ("one-sided", "two-sided")
CHOOSING, COHEN_CHOOSING = 50, 100
"""Votes that choose the class where there is no cache: for decisions one by one, and as Cohen et al. have it."""
BETA = 1e-4
"""Horvath et al.'s, for ending early."""

Hits = NDArray[np.bool_]


class Decisions(NamedTuple):
    """Of every input: whether the radius is shown, and how many votes that took."""

    shown: NDArray[np.bool_]
    votes: NDArray[np.int64]


def cohen(hits: Hits, threshold: float, alpha: float) -> Decisions:
    """Cohen et al. 2019: a Clopper-Pearson bound from all votes.

    >>> cohen(np.ones((1, 20), dtype=bool), 0.7, 0.01).shown.tolist()
    [True]
    """
    count = hits.shape[1]
    shown = np.asarray(clopper_pearson_lower(hits.sum(axis=1), count, alpha)) >= threshold
    return Decisions(shown, np.full(len(hits), count))


def voracek(hits: Hits, threshold: float, alpha: float) -> Decisions:
    """Voracek 2024, by betting: votes are predicted as Krichevsky and Trofimov do, (K + 1/2) / (n + 1), and one stops when that is 1 / (2 alpha)
    times as likely as the threshold, in either direction.

    The proof gives 1 / alpha; the published code has 1 / (2 alpha), which takes fewer votes, and so it is here.
    """
    n = np.arange(1, hits.shape[1] + 1)
    k = hits.cumsum(axis=1)
    predicted = betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5)
    evidence = predicted - k * np.log(threshold) - (n - k) * np.log1p(-threshold)
    enough = evidence >= -np.log(2 * alpha)
    decided, first = enough.any(axis=1), enough.argmax(axis=1)
    above = k[np.arange(len(hits)), first] > threshold * n[first]
    return Decisions(decided & above, np.where(decided, first + 1, hits.shape[1]))


def horvath(hits: Hits, threshold: float, alpha: float, *, stages: Sequence[int], beta: float) -> Decisions:
    """Horvath et al. 2022: in each stage so many new votes, a Clopper-Pearson bound with its share of alpha, and an end where the upper one, with its
    share of beta, is below the threshold."""
    shown, going_on = np.zeros(len(hits), dtype=bool), np.ones(len(hits), dtype=bool)
    votes, start = np.zeros(len(hits), dtype=np.int64), 0
    for count in stages:
        k = hits[:, start : start + count].sum(axis=1)
        start += count
        votes[going_on] += count
        lower = np.asarray(clopper_pearson_lower(k, count, alpha / len(stages)))
        upper = np.asarray(clopper_pearson_upper(k, count, beta / max(1, len(stages) - 1)))
        shown |= going_on & (lower >= threshold)
        going_on &= (lower < threshold) & (upper >= threshold)
    return Decisions(shown, votes)
