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


# What is left out of the chances of one count, where that is added back as if it were certain: a share of the target.
_LEFT_OUT = 1e-4
# What may count as if it were the last count of a window, where further counts are worse: a share of all chances.
_TO_THE_LAST = 2.0**-10


class Outcomes(NamedTuple):
    """The outcomes at least as good as the observed one: k >= fewest[f - first_f, g - first_g].

    `fewest` rises with f and falls with g. Beyond the table fewer f and more g count as at least as good, more f and fewer g like
    the last that the table has. `target` is the log-probability not to be exceeded.
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
def window(
    rate: float, trials: int, first: int, target: float, more_is_better: bool, chances: Floats
) -> tuple[int, int, float]:
    """Write the point probabilities of the counts that matter to `chances`, which begins with that of `first`.

    Returns the lowest and the highest of them, as places in `chances`, and at least the chance of all better counts. The chance of all
    worse ones is added to that of the worst that is there. It is at most a thousandth, unless `chances` ends before, and
    every other count there is better: so it adds at most a thousandth to the chance of any outcomes.
    """
    last = first + len(chances) - 1
    mode = min(last, max(first, int((trials + 1) * rate)))
    low = high = mode
    below = above = 0.0
    if rate <= 0.0 or rate >= 1.0:
        at = 0 if rate <= 0.0 else trials
        low = high = min(last, max(first, at))
        chances[low - first] = 1.0 if at == low else 0.0
        below, above = 1.0 if at < low else 0.0, 1.0 if at > high else 0.0
    else:
        better = _LEFT_OUT * math.exp(target)
        odds, at_mode = rate / (1 - rate), point_probability(mode, trials, rate)
        chances[mode - first] = chance = at_mode
        limit, ratio = better if more_is_better else _TO_THE_LAST, (trials - mode) * odds / (mode + 1.0)
        while high < last and chance * ratio > limit * (1.0 - ratio):
            chance *= ratio
            high += 1
            chances[high - first] = chance
            ratio = (trials - high) * odds / (high + 1.0)
        above = rest_of_series(chance, ratio) if high < trials else 0.0
        chance, inverse = at_mode, (1 - rate) / rate
        limit, ratio = _TO_THE_LAST if more_is_better else better, mode * inverse / (trials - mode + 1.0)
        while low > first and chance * ratio > limit * (1.0 - ratio):
            chance *= ratio
            low -= 1
            chances[low - first] = chance
            ratio = low * inverse / (trials - low + 1.0)
        below = rest_of_series(chance, ratio) if low > 0 else 0.0
    if more_is_better:
        chances[low - first] += below
        return low - first, high - first, above
    chances[high - first] += above
    return low - first, high - first, below


@compiled
def counts_between(low: float, high: float, trials: int, target: float, more_is_better: bool) -> tuple[int, int]:
    """The counts that matter for any rate from low to high."""
    chances = np.empty(trials + 1)
    least = window(low, trials, 0, target, more_is_better, chances)[0]
    return least, window(high, trials, 0, target, more_is_better, chances)[1]


@compiled
def tails(n: int, p: float, smallest: int, largest: int, deviations: float) -> tuple[int, Floats]:
    """At least P(Bin(n, p) >= k) for k = first, first + 1, ...; the first also for fewer k, the last for more k.

    No k asked for is below `smallest` or above `largest`. Without room for more k than n, or than are asked for, the last is 0.
    """
    if p >= 1.0:
        return n, np.array([1.0, 0.0])
    if p <= 0.0:
        return 0, np.array([1.0, 0.0])
    spread = math.sqrt(n * p * (1 - p))
    surely = max(
        0, int(n * p - 3.3 * spread - 4)
    )  # P(K >= k) is taken as 1 from here down: less than a thousandth more
    _, last = span(p, n, deviations)
    all_asked = largest <= last
    last = max(min(last, largest), min(surely, last))
    first = min(max(surely, smallest), last)
    chances = np.empty(last - first + 2)
    term, tail, fall = point_probability(last, n, p), upper_tail(last, n, p), (1 - p) / p
    chances[last - first] = tail
    chances[last - first + 1] = tail if last < n and not all_asked else 0.0
    for k in range(last, first, -1):
        term *= k * fall / (n - k + 1.0)
        tail += term
        chances[k - 1 - first] = min(1.0, tail)
    if first > smallest:
        chances[0] = 1.0
    return first, chances


@compiled
def log_chance(outcomes: Outcomes, p: float, x: float, y: float) -> float:
    """Upper bound on ln P(outcomes); it exceeds the probability by less than .3% and about 4e-4 of the target's.

    Sums P(F = f) P(G = g) P(K >= fewest(f, g)) over what matters, and adds back all that it leaves out.
    """
    fewest, first_f, first_g, n, m1, m0, target = outcomes
    of_f, of_g = np.empty(fewest.shape[0]), np.empty(fewest.shape[1])
    f_low, f_high, left_out_f = window(x, m1, first_f, target, False, of_f)
    g_low, g_high, left_out_g = window(y, m0, first_g, target, True, of_g)
    first_k, of_k = tails(n, p, fewest[f_low, g_high], fewest[f_high, g_low], reach(target))
    last_k = first_k + len(of_k) - 1
    total = left_out_f + left_out_g + of_k[-1]
    of_g = of_g[g_low : g_high + 1]
    at_least = np.cumsum(of_g[::-1])[::-1]
    some = sure = 0  # from here on P(K >= fewest) is more than the last of the tails; is taken as the first of them
    for f in range(f_low, f_high + 1):
        row = fewest[f, g_low:]
        while some < len(of_g) and row[some] >= last_k:
            some += 1
        while sure < len(of_g) and row[sure] > first_k:
            sure += 1
        if some == len(of_g):
            break
        share = at_least[sure] * of_k[0] if sure < len(of_g) else 0.0
        for j in range(some, sure):
            share += of_g[j] * of_k[row[j] - first_k]
        total += of_f[f] * share
    return max(LOWEST, min(0.0, math.log(total) + ROUNDING)) if total > 0.0 else LOWEST
