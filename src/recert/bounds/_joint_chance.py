"""How likely the outcomes behind `joint_lower` are at a point.

Letters of the mathematics: k of n cached votes are for the class, each with probability p; f of m1 replays lose it,
each with probability x; g of m0 replays gain it, each with probability y. q is the value of p (1 - x) + (1 - p) y.
"""

import math
from typing import NamedTuple

import numpy as np

from recert.bounds._binomial_tails import Floats, Integers, point_probability, rest_of_series, upper_tail
from recert.compiled import compiled

# No log-probability is given below this: chords need upper bounds also where probabilities underflow.
LOWEST = -690.0
# What a computed log-probability may be off by: a thousand times what the tests allow against 50-digit sums.
ROUNDING = 1e-9


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


@compiled
def reach(target: float) -> float:
    """Deviations beyond which there is less than 1e-4 of the target (Hoeffding's and Bernstein's tails)."""
    return math.sqrt(2 * (9.2 - target))


@compiled
def span(rate: float, trials: int, deviations: float) -> tuple[int, int]:
    """The counts that matter."""
    center, around = trials * rate, deviations * math.sqrt(trials * rate * (1 - rate)) + deviations * deviations / 3
    return max(0, int(center - around)), min(trials, int(center + around) + 1)


@compiled
def window(rate: float, trials: int, first: int, length: int, deviations: float) -> tuple[int, Floats, float]:
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


@compiled
def tails(n: int, p: float, smallest: int, deviations: float) -> tuple[int, Floats]:
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
    chances = np.empty(last - first + 2)
    term, tail, fall = point_probability(last, n, p), upper_tail(last, n, p), (1 - p) / p
    chances[last - first] = tail
    chances[last - first + 1] = tail if last < n else 0.0
    for k in range(last, first, -1):
        term *= k * fall / (n - k + 1.0)
        tail += term
        chances[k - 1 - first] = min(1.0, tail)
    if first > smallest:
        chances[0] = 1.0
    return first, chances


@compiled
def log_chance(outcomes: Outcomes, p: float, x: float, y: float) -> float:
    """Upper bound on ln P(outcomes); it exceeds the probability by less than about 4e-4 of the target's.

    Sums P(F = f) P(G = g) P(K >= fewest(f, g)) over what matters, and adds back all that it leaves out.
    """
    fewest, first_f, first_g, n, m1, m0, target = outcomes
    deviations = reach(target)
    f_start, of_f, left_out_f = window(x, m1, first_f, fewest.shape[0], deviations)
    g_start, of_g, left_out_g = window(y, m0, first_g, fewest.shape[1], deviations)
    first_k, of_k = tails(n, p, fewest[f_start, g_start + len(of_g) - 1], deviations)
    last_k = first_k + len(of_k) - 1
    total = left_out_f + left_out_g + of_k[-1]
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
        share = at_least[sure] * of_k[0] if sure < len(of_g) else 0.0
        for j in range(some, sure):
            share += of_g[j] * of_k[row[j] - first_k]
        total += of_f[i] * share
    return max(LOWEST, min(0.0, math.log(total) + ROUNDING)) if total > 0.0 else LOWEST
