"""Binomial point probabilities and tails for compiled loops, accurate to about 1e-12 relative.

Point probabilities follow Loader, "Fast and accurate computation of binomial probabilities" (2000): no large
logarithms are subtracted from each other, so nothing cancels at a million trials.
"""

import math

import numpy as np
from numpy.typing import NDArray

from recert.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# ln(n!) minus Stirling's formula for n = 0..15; from 16 on the series below is exact to rounding.
_SMALL_STIRLING_ERRORS = np.array(
    [0.0] + [math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi) for n in range(1, 16)]
)


@compiled
def _stirling_error(n: int) -> float:
    if n < 16:
        return float(_SMALL_STIRLING_ERRORS[n])
    inverse_square = 1.0 / (float(n) * n)
    series = 1 / 1260 - (1 / 1680 - inverse_square / 1188) * inverse_square
    return (1 / 12 - (1 / 360 - series * inverse_square) * inverse_square) / n


@compiled
def _deviance(x: float, mean: float) -> float:
    """x ln(x / mean) + mean - x without cancellation."""
    difference = x - mean
    if abs(difference) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - difference
    v = difference / (x + mean)
    total, power = difference * v, 2.0 * x * v
    for j in range(1, 1000):
        power *= v * v
        larger = total + power / (2 * j + 1)
        if larger == total:
            break
        total = larger
    return total


@compiled
def point_probability(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) = k) for 0 <= k <= n and 0 < p < 1."""
    if k == 0:
        return math.exp(n * math.log1p(-p))
    if k == n:
        return math.exp(n * math.log(p))
    exponent = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    exponent -= _deviance(float(k), n * p) + _deviance(float(n - k), n * (1.0 - p))
    return math.exp(exponent) * math.sqrt(n / (2 * math.pi * k * float(n - k)))


@compiled
def rest_of_series(term: float, ratio: float) -> float:
    """At least the sum of what follows `term` when each term is at most `ratio` times the one before; at most 1."""
    return min(1.0, term * ratio / (1.0 - ratio)) if ratio < 1.0 else 1.0


@compiled
def upper_tail(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) >= k), never below it beyond rounding: the sum stops early and adds back what it left out."""
    if k <= 0 or p >= 1.0:
        return 1.0
    if p <= 0.0:
        return 0.0
    term = point_probability(k, n, p)
    total, odds = term, p / (1.0 - p)
    for j in range(k, n):
        ratio = (n - j) * odds / (j + 1.0)
        term *= ratio
        total += term
        if term * ratio <= 1e-13 * total * (1.0 - ratio):  # the ratios fall with j, so the rest is below 1e-13 of it
            total += rest_of_series(term, ratio)
            break
    return min(1.0, total)


@compiled
def share_below(k: int, n: int, error: float) -> float:
    """Clopper-Pearson's lower bound on a share, for errors below 1/4: at most the exact one, and less than 1e-4 of the way to k / n below.

    For many single counts in compiled code; `clopper_pearson_lower` is sharper, and takes arrays.
    """
    if k <= 0:
        return 0.0
    limit = error * (1.0 - 1e-9)  # more than what `upper_tail` may be off by
    share, cost = k / n, -math.log(error) / n
    low = max(0.0, share - math.sqrt(2.0 * share * cost))  # Chernoff's bound, with KL(a, b) >= (a - b)^2 / (2 a)
    high, goal = share, math.sqrt(-math.log(limit))
    # The root of -ln of the tail is nearly linear in the share: false position, halved where an end stays.
    at_low = math.sqrt(-math.log(max(upper_tail(k, n, low), 1e-300))) - goal
    at_high = math.sqrt(-math.log(upper_tail(k, n, min(high, 1.0 - 1e-16)))) - goal
    width, side = high - low, 0
    for _ in range(60):
        if high - low <= 1e-6 * width or at_low <= 0.0:
            break
        at = (low * at_high - high * at_low) / (at_high - at_low)
        at = min(max(at, low + 1e-7 * width), high - 1e-7 * width)
        value = math.sqrt(-math.log(max(upper_tail(k, n, at), 1e-300))) - goal
        if value >= 0.0:
            low, at_low = at, value
            at_high, side = (at_high / 2, 1) if side == 1 else (at_high, 1)
        else:
            high, at_high = at, value
            at_low, side = (at_low / 2, -1) if side == -1 else (at_low, -1)
    return low
