"""How likely the outcomes behind `joint_lower` are: at a point, and at most over a cell.

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
_ROUNDING = 1e-9
_MORE = 1 + 1e-6  # more than rounding takes away from a width


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


class Cell(NamedTuple):
    """A part of the box; at its corners ln P on the surface is 00 (low x, low y), 01 (low x, high y), 10 and 11."""

    x1: float
    x2: float
    y1: float
    y2: float
    v00: float
    v01: float
    v10: float
    v11: float


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


@compiled
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


@compiled
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
    return max(LOWEST, min(0.0, math.log(total) + _ROUNDING)) if total > 0.0 else LOWEST


@compiled
def on_surface(q: float, x: float, y: float) -> float:
    """The largest p with p (1 - x) + (1 - p) y <= q, if y <= q."""
    above, below = max(0.0, q - y), 1.0 - q - x
    return above / (above + below) if below > 0.0 else 1.0


@compiled
def _largest_variance(low: float, high: float) -> float:
    return 0.25 if low <= 0.5 <= high else max(low * (1 - low), high * (1 - high))


@compiled
def _log_odds_apart(low: float, high: float) -> float:
    return math.log(high / low * ((1 - low) / (1 - high))) if 0.0 < low < high else 0.0


@compiled
def _sub_gaussian(low: float, high: float) -> float:
    """The largest s2(p) over low <= p <= high: ln E exp(t (X - p)) <= s2(p) t^2 / 2 for all t, X being 1 with probability p.

    s2(p) = (1 - 2p) / (2 ln((1 - p) / p)) (Kearns and Saul, 1998). It rises up to 1/4 at p = 1/2 and then falls.
    """
    if low <= 0.5 <= high:
        return 0.25
    p = high if high < 0.5 else low
    apart = 1.0 - 2.0 * p
    if abs(apart) < 1e-5:
        return 0.25
    return apart / (2.0 * math.log((1.0 - p) / p)) if 0.0 < p < 1.0 else 0.0


@compiled
def lifted(value: float, lift: float, curvature: float) -> float:
    """At least ln P(E) at log-odds a + lift of p, if ln P(E) is `value` at log-odds a; E is about K ~ Bin(n, p) and other counts.

    `curvature` is n s2, with s2 as by `_sub_gaussian` for the p at a + lift; or n p (1 - p) for the p at a, if that p is at
    least 1/2. Hoelder's inequality: for all r > 1, P'(E) <= P(E)^(1 - 1/r) E[(dP'/dP)^r]^(1/r), and with A(a) = ln(1 + e^a)
        ln E[(dP'/dP)^r] = n (A(a + r lift) + (r - 1) A(a) - r A(a + lift)) <= curvature lift^2 r (r - 1) / 2.
    The last step with b = a + lift: the middle is n ((A(b + (r - 1) lift) - A(b)) + (r - 1) (A(b - lift) - A(b))), and
    A(b + t) - A(b) <= t p' + s2 t^2 / 2 for all t; the terms in p' cancel. Where p >= 1/2, A'' falls from a on, so that
    p (1 - p) bounds it on all of [a, a + r lift]; this is the second difference of A there. The best r gives the root below.
    """
    root = max(0.0, math.sqrt(-value) - lift * math.sqrt(0.5 * curvature))
    return -root * root


@compiled
def _moved(p: float, lift: float) -> float:
    """The probability whose log-odds are larger by `lift`."""
    return p / (p + (1.0 - p) * math.exp(-lift)) if p > 0.0 else 0.0


@compiled
def _peak(at_left: float, at_right: float, rise: float) -> float:
    """The largest value between two ends of linear interpolation plus 4 t (1 - t) rise."""
    difference = abs(at_left - at_right)
    above = (4 * rise - difference) ** 2 / (16 * rise) if difference < 4 * rise else 0.0
    return max(at_left, at_right) + above


@compiled
def bound_cell(outcomes: Outcomes, q: float, cell: Cell) -> tuple[float, float, float]:
    """Upper bound on ln P on the surface over a cell, and about what the widths in x and in y add to it.

    With log-odds (a, b, c) of (p, x, y), ln P = C(a, b, c) - n A(a) - m1 A(b) - m0 A(c), A(a) = ln(1 + e^a), with C
    convex: the log of a sum of exponentials. On the surface a = ln(q - y) - ln(1 - q - x). Its second term is convex
    in b, so below its chord; its first is concave in c, above its chord by at most `lift`. So each point of the
    surface lies, up to lift, below the mean of the four corners with weights that are products, and P rises in a. So
    ln P is bounded at that mean, a larger by lift: C is at most its mean over the corners that are lifted as well, and A
    at least its own less the largest A'' / 2 times the variance. What lifting a corner adds, `lifted` bounds.
    From x = 0 there is no chord, but ln P rises by at most m1 ln(1 / (1 - x2)) from x2: the densities' ratio does.
    From y = 0 neither, but P is at most its value at y2 with the larger p of y = 0.
    """
    x1, x2, y1, y2, v00, v01, v10, v11 = cell
    apart, across_y = _log_odds_apart(y1, y2), math.log((q - y1) / (q - y2))
    from_zero = y1 <= 0.0 < y2
    lift = across_y if from_zero else y2 * q / (q - y2) ** 2 * apart**2 / 8
    low_p, high_p = on_surface(q, x1, y2), on_surface(q, x2, y1)
    of_p = outcomes.n * _largest_variance(low_p, _moved(high_p, lift * _MORE)) * _MORE
    of_lift = low_p * (1 - low_p) if low_p >= 0.5 else _sub_gaussian(low_p, _moved(high_p, lift * _MORE))
    of_lift *= outcomes.n * _MORE
    if x1 <= 0.0:
        v00, v01, in_x = v10, v11, outcomes.m1 * -math.log1p(-x2)
    else:
        across_x = math.log((1 - q - x1) / (1 - q - x2))
        in_x = outcomes.m1 * _largest_variance(x1, x2) * _log_odds_apart(x1, x2) ** 2 / 8 + of_p * across_x**2 / 8
    if from_zero:
        v00, v10, in_y = v01, v11, 0.0
    else:
        in_y = outcomes.m0 * _largest_variance(y1, y2) * apart**2 / 8 + of_p * across_y**2 / 8
    in_x, in_y, lift = in_x * _MORE, in_y * _MORE, lift * _MORE
    top = max(max(v00, v01), max(v10, v11))
    v00, v01 = lifted(v00, lift, of_lift), lifted(v01, lift, of_lift)
    v10, v11 = lifted(v10, lift, of_lift), lifted(v11, lift, of_lift)
    along_x = _peak(max(v00, v01), max(v10, v11), in_x) + in_y
    along_y = _peak(max(v00, v10), max(v01, v11), in_y) + in_x
    return min(along_x, along_y), in_x, in_y + lifted(top, lift, of_lift) - top
