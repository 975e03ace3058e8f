"""How likely the outcomes behind `joint_lower` are at most, over a cell of a surface of equal value.

Letters as in `_joint_chance`. On the surface p (1 - x) + (1 - p) y = q two of the rates are free, and the third follows. Cells
are rectangles of the two that are free. The fewer deviations the third one moves, the larger cells can be: it should be
the rate whose count is the least certain.
"""

import math
from typing import NamedTuple

from recert.bounds._joint_chance import Outcomes
from recert.compiled import compiled

_MORE = 1 + 1e-6  # more than rounding takes away from a width


class Cell(NamedTuple):
    """A rectangle of a free rate (x or p) and of y; at its corners ln P on the surface is v00 (both low), v01 (y high), v10, v11."""

    low: float
    high: float
    y1: float
    y2: float
    v00: float
    v01: float
    v10: float
    v11: float


@compiled
def p_on_surface(q: float, x: float, y: float) -> float:
    """The largest p with p (1 - x) + (1 - p) y <= q, if y <= q."""
    above, below = max(0.0, q - y), 1.0 - q - x
    return above / (above + below) if below > 0.0 else 1.0


@compiled
def x_on_surface(q: float, p: float, y: float) -> float:
    """The x with p (1 - x) + (1 - p) y = q; it may be below 0, where the surface ends."""
    return (p - q + (1.0 - p) * y) / p


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
def _most_in_cell(
    cell: Cell, across: float, across_y: float, lift: float, of_lift: float
) -> tuple[float, float, float]:
    """Upper bound on ln P over a cell whose corners are lifted, and about what each direction adds to it.

    `across` and `across_y` are what chords lose in the middle of the cell, in each of both directions.
    """
    across, across_y, lift = across * _MORE, across_y * _MORE, lift * _MORE
    top = max(max(cell.v00, cell.v01), max(cell.v10, cell.v11))
    v00, v01 = lifted(cell.v00, lift, of_lift), lifted(cell.v01, lift, of_lift)
    v10, v11 = lifted(cell.v10, lift, of_lift), lifted(cell.v11, lift, of_lift)
    along = _peak(max(v00, v01), max(v10, v11), across) + across_y
    along_y = _peak(max(v00, v10), max(v01, v11), across_y) + across
    return min(along, along_y), across, across_y + lifted(top, lift, of_lift) - top


@compiled
def _of_following(trials: int, low: float, high: float, lift: float) -> tuple[float, float]:
    """The largest variance of the count whose rate follows, and the curvature for `lifted`; the rate is from low to high, and lifted."""
    higher = _moved(high, lift * _MORE)
    of_lift = low * (1 - low) if low >= 0.5 else _sub_gaussian(low, higher)
    return trials * _largest_variance(low, higher) * _MORE, trials * of_lift * _MORE


@compiled
def bound_cell_where_p_follows(outcomes: Outcomes, q: float, cell: Cell) -> tuple[float, float, float]:
    """Upper bound on ln P on the surface over a cell of x and y, and about what the widths in x and in y add to it.

    With log-odds (a, b, c) of (p, x, y), ln P = C(a, b, c) - n A(a) - m1 A(b) - m0 A(c), A(a) = ln(1 + e^a), with C
    convex: the log of a sum of exponentials. On the surface a = ln(q - y) - ln(1 - q - x). Its second term is convex
    in b, so below its chord; its first is concave in c, above its chord by at most `lift`. So each point of the
    surface lies, up to lift, below the mean of the four corners with weights that are products, and P rises in a. So
    ln P is bounded at that mean, a larger by lift: C is at most its mean over the corners that are lifted as well, and A
    at least its own less the largest A'' / 2 times the variance. What lifting a corner adds, `lifted` bounds.
    From x = 0 there is no chord, but ln P rises by at most m1 ln(1 / (1 - x2)) from x2: the densities' ratio does.
    From y = 0 neither, but P is at most its value at y2 with the larger p of y = 0.
    """
    x1, x2, y1, y2 = cell.low, cell.high, cell.y1, cell.y2
    apart_y, move_y = _log_odds_apart(y1, y2), math.log((q - y1) / (q - y2))
    from_zero = y1 <= 0.0 < y2
    lift = move_y if from_zero else y2 * q / (q - y2) ** 2 * apart_y**2 / 8
    of_p, of_lift = _of_following(outcomes.n, p_on_surface(q, x1, y2), p_on_surface(q, x2, y1), lift)
    if x1 <= 0.0:
        cell = Cell(x1, x2, y1, y2, cell.v10, cell.v11, cell.v10, cell.v11)
        across_x = outcomes.m1 * -math.log1p(-x2)
    else:
        move_x = math.log((1 - q - x1) / (1 - q - x2))
        across_x = outcomes.m1 * _largest_variance(x1, x2) * _log_odds_apart(x1, x2) ** 2 / 8 + of_p * move_x**2 / 8
    if from_zero:
        cell = Cell(x1, x2, y1, y2, cell.v01, cell.v01, cell.v11, cell.v11)
        across_y = 0.0
    else:
        across_y = outcomes.m0 * _largest_variance(y1, y2) * apart_y**2 / 8 + of_p * move_y**2 / 8
    return _most_in_cell(cell, across_x, across_y, lift, of_lift)


@compiled
def _rise_over_chord(q: float, p: float, y1: float, y2: float) -> float:
    """How far the log-odds of 1 - x on the surface may lie above their chord in those of y, from y1 > 0 to y2, for a given p.

    An eighth of the squared distance times the largest negative second derivative, which is
        y (1 - y) (1 - p) (q (p - q) (1 - 2 y) + (1 - p) (1 - 2 q) y^2) / (p^3 (1 - x)^2 x^2).
    """
    by_votes, by_square = q * (p - q), (1.0 - p) * (1.0 - 2.0 * q)
    bend = max(by_votes * (1.0 - 2.0 * y1), by_votes * (1.0 - 2.0 * y2)) + max(by_square * y1 * y1, by_square * y2 * y2)
    if bend <= 0.0:
        return 0.0
    of_x = p * x_on_surface(q, p, y1) * (1.0 - x_on_surface(q, p, y2))  # x rises with y
    return _largest_variance(y1, y2) * (1.0 - p) * bend / (p * of_x * of_x) * _log_odds_apart(y1, y2) ** 2 / 8


@compiled
def _kept_log_odds(q: float, p: float, y: float) -> float:
    x = x_on_surface(q, p, y)
    return math.log((1.0 - x) / x)


@compiled
def bound_cell_where_x_follows(outcomes: Outcomes, q: float, cell: Cell) -> tuple[float, float, float]:
    """Upper bound on ln P on the surface over a cell of p and y, and about what the widths in p and in y add to it.

    As where p follows, with the log-odds b of 1 - x in the place of a: P rises in b, and on the surface
        b = ln(q e^a + q - y) - ln((1 - q) e^a - (q - y)).
    Both terms are convex in a for y < q, so b lies below its chord; in c it lies above its chord by at most `lift`. It is not
    the sum of a function of a and one of c, so that its moves along two opposite sides differ: the larger counts.
    Up to p = 1 there is no chord, but ln P rises by at most n ln(1 / p1) from p1, and x rises with p.
    From y = 0 neither, but P is at most its value at y2 with the smaller x of y = 0. x must be above 0 on all of the cell.
    """
    p1, p2, y1, y2 = cell.low, cell.high, cell.y1, cell.y2
    to_one, from_zero = p2 >= 1.0, y1 <= 0.0 < y2
    if to_one:
        p2 = p1
    low_y = y2 if from_zero else y1
    b00, b01, b10, b11 = (
        _kept_log_odds(q, p1, low_y), _kept_log_odds(q, p1, y2), _kept_log_odds(q, p2, low_y), _kept_log_odds(q, p2, y2)
    )  # fmt: skip
    if from_zero:
        lift = max(_kept_log_odds(q, p1, 0.0) - b01, _kept_log_odds(q, p2, 0.0) - b11)
    else:
        lift = max(_rise_over_chord(q, p1, y1, y2), _rise_over_chord(q, p2, y1, y2))
    of_x, of_lift = _of_following(outcomes.m1, 1.0 - x_on_surface(q, p2, y2), 1.0 - x_on_surface(q, p1, low_y), lift)
    if to_one:
        cell = Cell(p1, p2, y1, y2, cell.v00, cell.v01, cell.v00, cell.v01)
        across_p = outcomes.n * -math.log(p1)
    else:
        move_p = max(abs(b10 - b00), abs(b11 - b01))
        across_p = outcomes.n * _largest_variance(p1, p2) * _log_odds_apart(p1, p2) ** 2 / 8 + of_x * move_p**2 / 8
    if from_zero:
        cell = Cell(p1, p2, y1, y2, cell.v01, cell.v01, cell.v11, cell.v11)
        across_y = 0.0
    else:
        move_y = max(abs(b01 - b00), abs(b11 - b10))
        across_y = outcomes.m0 * _largest_variance(y1, y2) * _log_odds_apart(y1, y2) ** 2 / 8 + of_x * move_y**2 / 8
    return _most_in_cell(cell, across_p, across_y, lift, of_lift)
