"""The compiled search behind `series_lower`: the largest q on a fine grid that is proven not to exceed the bound.

Letters of the mathematics: k of n cached votes are for the class, each with probability p; s of m replays keep
it, each with probability r; q = p r is the probability to be bounded.
"""

import math
from typing import NamedTuple

import numpy as np

from recert.bounds._binomial_tails import Floats, Integers, point_probability, rest_of_series, upper_tail
from recert.compiled import compiled

# What a computed log-probability may be off by: a thousand times what the tests allow against 50-digit sums.
_ROUNDING = 1e-9
_MOST_TOPS, _PLACES_OF_P = 3, 24  # of a search that proves nothing
_LOG_OF_ZERO = -690.0  # what underflows is below this, and an upper bound must not be lower than the truth


class Outcomes(NamedTuple):
    """The outcomes at least as good as the observed one: (k, s) with k >= fewest[s - first] and s >= first.

    The search takes q from the multiples of 2^-bits, and cuts p at quarters of that: all exact in floating point.
    """

    fewest: Integers
    first: int
    n: int
    m: int
    log_alpha: float
    bits: int


@compiled
def fewest_votes(of_votes: Floats, of_replays: Floats, observed: float) -> tuple[Integers, int]:
    """For s = first, ..., m the smallest k with of_votes[k] of_replays[s] >= observed, and first. Both tables rise."""
    n, m = len(of_votes) - 1, len(of_replays) - 1
    fewest = np.empty(m + 1, np.int64)
    first, k = m + 1, 0
    while first > 0 and of_votes[n] * of_replays[first - 1] >= observed:
        first -= 1
        low, high, step = k, k, 1  # k rises as s falls: gallop up from the last k, then halve
        while of_votes[high] * of_replays[first] < observed:
            low, high, step = high + 1, min(n, high + step), 2 * step
        while low < high:
            middle = (low + high) // 2
            if of_votes[middle] * of_replays[first] >= observed:
                high = middle
            else:
                low = middle + 1
        fewest[first] = k = low
    return fewest[first:], first


@compiled
def log_chance(outcomes: Outcomes, p: float, r: float) -> tuple[float, float]:
    """Upper bound on ln P_{p,r}(outcomes), above it by at most 1e-4, and the average s among them.

    Sums P(S = s) P(K >= fewest(s)) over the s and k that matter, and adds back all that it leaves out.
    """
    fewest, first, n, m, log_alpha, _ = outcomes
    # Hoeffding's and Bernstein's tails: beyond `reach` deviations there is less than 1e-5 alpha.
    reach = math.sqrt(2 * (11.5 - log_alpha))
    deviation, spread = math.sqrt(n * p * (1 - p)), math.sqrt(m * r * (1 - r))
    highest_k = int(n * p + reach * deviation + reach * reach / 3) + 1
    surely_reached = n * p - 4.5 * deviation - 7  # P(K >= k) is taken as 1 from here down
    if r >= 1.0:
        k = fewest[m - first]
        return _log_with_margin(1.0 if k <= surely_reached else upper_tail(k, n, p)), float(m)
    low = max(first + _first_at_most(fewest, highest_k) - 1, int(m * r - reach * spread - reach * reach / 3), first)
    high = max(low, min(m, int(m * r + reach * spread + reach * reach / 3) + 1))
    k = min(fewest[low - first], highest_k)
    tail, term = 1.0, 0.0
    if k > surely_reached and p < 1.0:
        tail, term = upper_tail(k, n, p), point_probability(k, n, p)
    weight, total = point_probability(low, m, r), 0.0
    if low > first:  # every s below low needs at least k votes
        total = tail * rest_of_series(weight, low * (1 - r) / ((m - low + 1.0) * r))
    moment, fall, rise = total * low, (1 - p) / p, r / (1 - r)
    for s in range(low, high + 1):
        while k > fewest[s - first] and tail < 1.0:
            term *= k * fall / (n - k + 1.0)
            k -= 1
            tail = tail + term if k > surely_reached else 1.0
        share = weight * min(tail, 1.0)
        total += share
        moment += share * s
        if s < high:
            weight *= (m - s) * rise / (s + 1.0)
    if high < m:
        total += rest_of_series(weight, (m - high) * rise / (high + 1.0))
    return _log_with_margin(total), moment / max(total, 1e-300)


@compiled
def _log_with_margin(probability: float) -> float:
    return min(0.0, math.log(probability) + _ROUNDING) if probability > 0.0 else _LOG_OF_ZERO


@compiled
def _first_at_most(falling: Integers, limit: int) -> int:
    """Index of the first entry of a non-increasing array that is at most `limit`."""
    low, high = 0, len(falling)
    while low < high:
        middle = (low + high) // 2
        if falling[middle] <= limit:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def _chord_bound(outcomes: Outcomes, q: float, u: float, v: float, at_u: float, at_v: float) -> float:
    """Upper bound on ln P over the piece u <= p <= v of the curve p r = q, from its values at the two ends.

    In the log-odds (a, b) of (p, r), ln P = G(a, b) - n ln(1 + e^a) - m ln(1 + e^b), where G is convex: the log of a
    sum of exponentials. The points with ln p + ln r >= ln q are a convex set, so the curve lies below its chord;
    P grows with r, so it is enough to bound P on the chord. There G is at most its interpolation, and a convex
    function whose second derivative is at most d is at least its own minus t (1 - t) d length^2 / 2.
    """
    length_a = math.log(v / u * ((1 - u) / (1 - v)))
    length_b = math.log(v / u * ((1 - q / v) / (1 - q / u)))
    bend = outcomes.n * length_a**2 * _largest_variance(u, v) + outcomes.m * length_b**2 * _largest_variance(
        q / v, q / u
    )
    bend *= 0.5 * (1 + 1e-6)  # more than rounding in the lengths takes away
    difference = abs(at_u - at_v)
    above_the_ends = (bend - difference) ** 2 / (4 * bend) if difference < bend else 0.0
    return max(at_u, at_v) + above_the_ends


@compiled
def _largest_variance(low: float, high: float) -> float:
    return 0.25 if low <= 0.5 <= high else max(low * (1 - low), high * (1 - high))


@compiled
def _piece_is_covered(outcomes: Outcomes, q: float, left: int, right: int, at_left: float, at_right: float) -> bool:
    """Whether P <= alpha is proven for all p between two grid points of the curve p r = q."""
    step = 2.0 ** -(outcomes.bits + 2)
    u, v = left * step, right * step
    inside = q < u and v < 1.0
    if inside and _chord_bound(outcomes, q, u, v, at_left, at_right) <= outcomes.log_alpha:
        return True
    if inside and right - left > 1:
        return False
    # P grows in p and in r: on the whole piece it is at most its value at (v, q / u).
    corner, _ = log_chance(outcomes, v, min(1.0, q / u * (1 + 1e-15)) if q < u else 1.0)
    return bool(corner <= outcomes.log_alpha)


@compiled
def _is_covered(outcomes: Outcomes, q: float) -> tuple[bool, float]:
    """Whether P <= alpha is proven on the whole curve p r = q, and the p at which P was largest, of those seen.

    Cuts [0, 1] into halves until every piece is proven, from right to left. The cuts do not depend on the outcome,
    so that a better outcome, with smaller P everywhere, is never covered less.
    """
    bits = outcomes.bits + 2
    step = 2.0**-bits
    lefts, values = np.zeros(bits + 2, np.int64), np.zeros(bits + 2)
    right = worst = 1 << bits
    at_right, _ = log_chance(outcomes, 1.0, q)
    at_worst, depth = at_right, 0
    while right * step > q and at_worst <= outcomes.log_alpha:
        left, at_left = lefts[depth], values[depth]
        if _piece_is_covered(outcomes, q, left, right, at_left, at_right):
            right, at_right = left, at_left
            depth -= 1
        elif right - left == 1:
            return False, worst * step
        else:
            depth += 1
            lefts[depth] = middle = (left + right) // 2
            if middle * step > q:
                values[depth], _ = log_chance(outcomes, middle * step, q / (middle * step))
                if values[depth] > at_worst:
                    worst, at_worst = middle, values[depth]
    return at_worst <= outcomes.log_alpha, worst * step


@compiled
def is_covered(outcomes: Outcomes, q: float) -> bool:
    """Whether q, a point of the grid, is proven not to exceed the bound."""
    return _is_covered(outcomes, q)[0]


@compiled
def _crossing(outcomes: Outcomes, p: float, q: float) -> float:
    """The q at which P(p, q / p) = alpha, by Newton's method on logarithms from the guess q; 1 if there is none."""
    at_one, _ = log_chance(outcomes, p, 1.0)
    if at_one <= outcomes.log_alpha:
        return 1.0
    low, high, q = 0.0, p, min(q, p * (1 - 1e-6))
    for _ in range(60):
        r = q / p
        value, average_s = log_chance(outcomes, p, r)
        missing = outcomes.log_alpha - value
        if abs(missing) < 1e-6:
            return q
        low, high = (q, high) if missing > 0 else (low, q)
        slope = (average_s - outcomes.m * r) / (1 - r)  # d ln P / d ln r
        q = q * math.exp(missing / slope) if slope > 0 and missing < 9 else 0.0
        if not low < q < high:
            q = (low + high) / 2
    return high


@compiled
def _lowest_crossing_near(outcomes: Outcomes, p: float, q: float) -> float:
    """The lowest crossing that a search with shrinking steps around p finds. Not below the bound, as no crossing is."""
    best = _crossing(outcomes, p, q)
    step = math.sqrt((p * (1 - p) + 1 / outcomes.n) / outcomes.n)
    smallest = step / 40
    for _ in range(30):
        left, right = max(q, p - step), min(1.0, p + step)
        at_left, at_right = _crossing(outcomes, left, best), _crossing(outcomes, right, best)
        if min(at_left, at_right) < best:
            best, p = (at_left, left) if at_left < at_right else (at_right, right)
        else:
            step /= 3
            if step < smallest:
                break
    return best


@compiled
def _first_crossing(outcomes: Outcomes, ceiling: float) -> float:
    """The lowest crossing where P is mostly large: near the smallest share of votes."""
    p = min(1.0, max(ceiling, outcomes.fewest[-1] / outcomes.n))
    return min(ceiling, _lowest_crossing_near(outcomes, p, ceiling))


@compiled
def about_largest(outcomes: Outcomes, ceiling: float) -> float:
    """What `largest_covered` tries to prove first, and mostly returns. It proves nothing, and takes a quarter of the time."""
    lowest = _first_crossing(outcomes, ceiling)
    for _ in range(_MOST_TOPS):  # P has several tops where few replays matter
        p, largest = 1.0, outcomes.log_alpha + _ROUNDING
        for i in range(_PLACES_OF_P):
            at = 1.0 - (1.0 - lowest) * (i / _PLACES_OF_P) ** 2
            value, _ = log_chance(outcomes, at, lowest / at)
            if value > largest:
                p, largest = at, value
        if p >= 1.0:
            break
        lowest = min(lowest, _lowest_crossing_near(outcomes, p, lowest))
    return int(lowest * 2.0**outcomes.bits) / 2.0**outcomes.bits


@compiled
def largest_covered(outcomes: Outcomes, floor: float, ceiling: float) -> float:
    """The largest q below `ceiling`, on the grid, that is proven not to exceed the bound; 0 if none above `floor` is.

    Where P > alpha is found, the lowest crossing near by is the next guess; every fourth guess halves what is left.
    """
    step = 2.0**-outcomes.bits
    covered, uncovered, guesses = int(floor / step), int(ceiling / step) + 1, 0
    nothing = covered
    # What is not covered costs nearly as much to find out as a proof: so first a search.
    uncovered = max(covered + 1, min(uncovered, int(_first_crossing(outcomes, ceiling) / step) + 1))
    while uncovered - covered > 1:
        guesses += 1
        guess = uncovered - 1 if guesses % 4 else (covered + uncovered) // 2
        proven, worst_p = _is_covered(outcomes, guess * step)
        if proven:
            covered = guess
        else:
            lowest = _lowest_crossing_near(outcomes, worst_p, guess * step)
            uncovered = max(covered + 1, min(guess, int(lowest / step) + 1))
    return covered * step if covered > nothing else 0.0
