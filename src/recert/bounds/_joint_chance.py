"""The ordering of outcomes behind `joint_lower`, and the chance of the outcomes at least as good as the observed one.

Letters of the mathematics: k of n cached votes are for the class, each with probability p; f of m1 replays lose it,
each with probability x; g of m0 replays gain it, each with probability y.

The ordering is the lower limit by the method of variance estimates recovery (Zou and Donner, 2008):
    T = p (1 - x) + (1 - p) y - sqrt((1 - x - y)^2 w_p^2 + p^2 w_x^2 + (1 - p)^2 w_y^2)
at the observed shares, with one-sided Clopper-Pearson half-widths w. Any ordering that is fixed beforehand is valid.
This one is made to rise in k, fall in f and rise in g, as a norm changes by at most the changes of its parts:
- w_p never rises with k and w_x never falls with f (running maxima);
- outcomes with k / n < w_p, or with x + w_x > 1/2, rank below all others, and y is cut at 1/2: so w_x <= 1 - x - y.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from recert.bounds._binomial_tails import Floats, Integers, point_probability, rest_of_series, upper_tail

# What a computed log-probability may be off by: a thousand times what the tests allow against 50-digit sums.
_ROUNDING = 1e-9
LOG_OF_ZERO = -1e9


class Ordering(NamedTuple):
    """Half-widths of p for k = 0..n, of x for the f that rank, and of y for g = 0..m0; fewer than first_k rank last."""

    of_votes: Floats
    of_lost: Floats
    of_gained: Floats
    first_k: int
    m1: int


class Outcomes(NamedTuple):
    """The outcomes at least as good as the observed one: k >= fewest[f - first_f, g - first_g].

    What lies outside of the table counts as at least as good. `target` is the log-probability not to be exceeded.
    """

    fewest: Integers
    first_f: int
    first_g: int
    n: int
    m1: int
    m0: int
    target: float


@numba.njit(cache=True, nogil=True)
def statistic(ordering: Ordering, k: int, f: int, g: int) -> float:
    """T of an outcome that ranks."""
    n, m0 = len(ordering.of_votes) - 1, len(ordering.of_gained) - 1
    p, x = k / n, f / ordering.m1
    y = min(g / m0, 0.5) if m0 > 0 else 0.0
    slope = 1.0 - x - y
    by_votes, by_lost = slope * ordering.of_votes[k], p * ordering.of_lost[f]
    by_gained = (1.0 - p) * ordering.of_gained[g]
    return y + p * slope - math.sqrt(by_votes * by_votes + by_lost * by_lost + by_gained * by_gained)


@numba.njit(cache=True, nogil=True)
def fewest_votes(ordering: Ordering, observed: float, f_from: int, f_to: int, g_from: int, g_to: int) -> Integers:
    """The smallest k with T >= observed for each f and g of a table; n + 1 where there is none."""
    n = len(ordering.of_votes) - 1
    fewest = np.full((f_to - f_from + 1, g_to - g_from + 1), n + 1)
    start = ordering.first_k
    for f in range(f_from, min(f_to, len(ordering.of_lost) - 1) + 1):
        k, last_step = start, 1
        for g in range(g_to, g_from - 1, -1):  # k rises as f rises and as g falls: gallop up from the last k
            k = max(k, fewest[f - f_from - 1, g - g_from] if f > f_from else k)
            low, high, step = k, k, max(1, last_step)
            while high <= n and statistic(ordering, high, f, g) < observed:
                low, high, step = high + 1, min(high + step, n) if high < n else n + 1, 2 * step
            while low < high:
                middle = (low + high) // 2
                if statistic(ordering, middle, f, g) >= observed:
                    high = middle
                else:
                    low = middle + 1
            last_step, k = low - k, low
            fewest[f - f_from, g - g_from] = k
            if g == g_to:
                start = k
            if k > n:
                break
    return fewest


@numba.njit(cache=True, nogil=True)
def reach(target: float) -> float:
    """Deviations beyond which there is less than 1e-4 of the target (Hoeffding's and Bernstein's tails)."""
    return math.sqrt(2 * (9.2 - target))


@numba.njit(cache=True, nogil=True)
def span(rate: float, trials: int, deviations: float) -> tuple[int, int]:
    """The counts that matter."""
    center, around = trials * rate, deviations * math.sqrt(trials * rate * (1 - rate)) + deviations * deviations / 3
    return max(0, int(center - around)), min(trials, int(center + around) + 1)


@numba.njit(cache=True, nogil=True)
def _window(rate: float, trials: int, first: int, length: int, deviations: float) -> tuple[int, Floats, float]:
    """Where the counts that matter start in a table, their point probabilities, and at least what is left out."""
    last = first + length - 1
    if rate <= 0.0 or rate >= 1.0:
        at = 0 if rate <= 0.0 else trials
        return (at - first, np.ones(1), 0.0) if first <= at <= last else (0, np.zeros(1), 1.0)
    low, high = span(rate, trials, deviations)
    low = min(max(low, first), last)
    high = max(low, min(high, last))
    odds = rate / (1 - rate)
    chances = np.empty(high - low + 1)
    mode = min(high, max(low, int((trials + 1) * rate)))
    chances[mode - low] = point_probability(mode, trials, rate)
    for j in range(mode, high):
        chances[j + 1 - low] = chances[j - low] * ((trials - j) * odds / (j + 1.0))
    for j in range(mode, low, -1):
        chances[j - 1 - low] = chances[j - low] * (j / ((trials - j + 1.0) * odds))
    left_out = 0.0
    if low > 0:
        left_out += rest_of_series(chances[0], low / ((trials - low + 1.0) * odds))
    if high < trials:
        left_out += rest_of_series(chances[high - low], (trials - high) * odds / (high + 1.0))
    return low - first, chances, left_out


@numba.njit(cache=True, nogil=True)
def _tails(n: int, p: float, smallest: int, deviations: float) -> tuple[int, Floats]:
    """At least P(Bin(n, p) >= k) for k = first, first + 1, ...; the first also for fewer k, the last for more k.

    No k asked for is below `smallest`. Without room for more k than n, the last is 0.
    """
    if p >= 1.0:
        return n, np.array([1.0, 0.0])
    if p <= 0.0:
        return 0, np.array([1.0, 0.0])
    spread = math.sqrt(n * p * (1 - p))
    _, last = span(p, n, deviations)
    surely = int(n * p - 4.5 * spread - 7)  # P(K >= k) is taken as 1 from here down
    first = min(max(surely, smallest, 0), last)
    tails = np.empty(last - first + 2)
    term, tail, fall = point_probability(last, n, p), upper_tail(last, n, p), (1 - p) / p
    tails[last - first] = tail
    tails[last - first + 1] = tail if last < n else 0.0
    for k in range(last, first, -1):
        term *= k * fall / (n - k + 1.0)
        tail += term
        tails[k - 1 - first] = min(1.0, tail)
    if first > smallest:
        tails[0] = 1.0
    return first, tails


@numba.njit(cache=True, nogil=True)
def log_chance(outcomes: Outcomes, p: float, x: float, y: float) -> float:
    """Upper bound on ln P(outcomes); it exceeds the probability by less than about 4e-4 of the target's.

    Sums P(F = f) P(G = g) P(K >= fewest(f, g)) over what matters, and adds back all that it leaves out.
    """
    fewest, first_f, first_g, n, m1, m0, target = outcomes
    deviations = reach(target)
    f_start, of_f, left_out_f = _window(x, m1, first_f, fewest.shape[0], deviations)
    g_start, of_g, left_out_g = _window(y, m0, first_g, fewest.shape[1], deviations)
    first_k, tails = _tails(n, p, fewest[f_start, g_start + len(of_g) - 1], deviations)
    last_k = first_k + len(tails) - 1
    total = left_out_f + left_out_g + tails[-1]
    at_least = np.cumsum(of_g[::-1])[::-1]
    some = sure = 0  # from here on P(K >= fewest) is more than the last of the tails; is taken as the first of them
    for i in range(len(of_f)):
        row = fewest[f_start + i, g_start:]
        while some < len(of_g) and row[some] >= last_k:
            some += 1
        while sure < len(of_g) and row[sure] > first_k:
            sure += 1
        if some == len(of_g):
            break
        share = at_least[sure] * tails[0] if sure < len(of_g) else 0.0
        for j in range(some, sure):
            share += of_g[j] * tails[row[j] - first_k]
        total += of_f[i] * share
    return min(0.0, math.log(total) + _ROUNDING) if total > 0.0 else LOG_OF_ZERO
