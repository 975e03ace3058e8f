"""What the search behind `joint_lower` looks at: rates in a box, those of them that give one value, and P there.

Letters as in `_joint_chance`. The rates (p, x, y) with p (1 - x) + (1 - p) y = q are a surface, in two parts: with x free the p follows, with p
free the x. A point of a part is given by its shares of the sides, in 1 / SIDE.
"""

import math
from typing import NamedTuple

from recert.bounds._joint_cells import p_on_surface, x_on_surface
from recert.bounds._joint_chance import LOWEST, Outcomes, log_chance
from recert.bounds._joint_columns import PLACES, Columns, has_room, log_chance_in_columns
from recert.compiled import compiled

DEPTH = 24  # a rectangle is halved at most this often in each direction
SIDE = 1 << DEPTH
X_IS_FREE, P_IS_FREE = 0, 1
LAST = PLACES - 1
APART = SIDE // LAST  # of places whose columns are kept
_BETWEEN_PLACES = APART - 1
_EARLIER = 0.25


class Box(NamedTuple):
    """The rates that are searched."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    p_low: float
    p_high: float
    x_far: float
    """Up to which x, beyond the box, the table of outcomes is long enough: cells at the edge of the box reach over it."""


class Part(NamedTuple):
    """A part of the surface: from low to high of x, with the p that follows, or of p, with the x >= x_from that follows; and of y."""

    free: int
    low: float
    high: float
    y_low: float
    y_high: float
    x_from: float


@compiled
def between(free: int, low: float, high: float, share: float) -> float:
    """From low at 0 to high at 1, by about as many deviations of a binomial each time: these go with the root of a rate, or of its rest.

    Where p follows, it falls to 0 as y rises to q: there places are closer together near both ends.
    """
    if share <= 0.0 or share >= 1.0:
        return low if share <= 0.0 else high
    if free == X_IS_FREE:
        return low + (high - low) * math.sin(0.5 * math.pi * share) ** 2
    if low + high > 1.0:
        root = math.sqrt(1.0 - low)
        return 1.0 - (root + share * (math.sqrt(1.0 - high) - root)) ** 2
    root = math.sqrt(low)
    return (root + share * (math.sqrt(high) - root)) ** 2


@compiled
def parts_of_surface(outcomes: Outcomes, q: float, box: Box) -> tuple[Part, Part]:
    """Where x is free, and where p is. A part is empty whose low is not below its high.

    A step along the surface moves p by as many more of its deviations than x as F is less certain than K: they are even where
    x / m1 = (1 - p) / (p n). There both parts meet. x follows a little earlier, since values at equal p cost less.
    """
    x_high, y_high = min(box.x_high, 1.0 - q), min(box.y_high, q)
    even = outcomes.m1 * (1.0 - q) / (q * outcomes.n)
    middle = min(max(even * _EARLIER, box.x_low), x_high)
    if x_high <= box.x_low or (y_high <= box.y_low and outcomes.m0 > 0):
        middle, x_high, y_high = box.x_low, box.x_low, box.y_low
    return (
        Part(X_IS_FREE, box.x_low, middle, box.y_low, y_high, box.x_low),
        Part(P_IS_FREE, box.p_low, box.p_high if middle < x_high else box.p_low, box.y_low, y_high, middle),
    )


@compiled
def point(q: float, part: Part, s: float, t: float) -> tuple[float, float, float]:
    """p, x and y on the surface, at shares of the sides of a part."""
    free, y = between(part.free, part.low, part.high, s), between(part.free, part.y_low, part.y_high, t)
    if part.free == X_IS_FREE:
        return p_on_surface(q, free, y), free, y
    return free, x_on_surface(q, free, y), y


@compiled
def is_inside(box: Box, part: Part, p: float, x: float) -> bool:
    return box.p_low <= p <= box.p_high and part.x_from <= x <= box.x_high


@compiled
def value_at(outcomes: Outcomes, columns: Columns, q: float, box: Box, part: Part, i: int, j: int) -> float:
    """At least ln P at a corner of a cell; a value that does not count where cells do without it."""
    p, x, y = point(q, part, i / SIDE, j / SIDE)
    if x <= 0.0 or p >= 1.0 or (y <= 0.0 and outcomes.m0 > 0):
        return LOWEST
    x = min(x, box.x_far)  # P falls as x rises
    if part.free == P_IS_FREE and (i | j) & _BETWEEN_PLACES == 0 and has_room(columns, i // APART):
        return log_chance_in_columns(columns, outcomes, i // APART, j // APART, p, x, y)
    return log_chance(outcomes, p, x, y)
