"""The compiled search behind `joint_lower`: the largest q that is proven not to exceed the bound.

Letters as in `_joint_chance`. The probability P of the outcomes at least as good as the observed one rises in p, falls
in x and rises in y. To be proven is that it is at most the target wherever p (1 - x) + (1 - p) y <= q and (x, y) is in
the box:
- where x >= 1 - q, p may be anything, and P is at most its value at p = 1, x = 1 - q and the largest y;
- where x < 1 - q and y > q there is no such p;
- elsewhere p is at most its value on the surface, whose odds are (q - y) / (1 - q - x), and that is what is searched.
"""

import math
from typing import NamedTuple

import numpy as np

from recert.bounds._binomial_tails import Floats, Integers
from recert.bounds._joint_chance import LOWEST, Cell, Outcomes, bound_cell, log_chance, on_surface
from recert.compiled import compiled

_DEPTH = 24  # the box is halved at most this often in each direction
_SIDE = 1 << _DEPTH
_MOST_CELLS = 1 << 15  # then a looser bound is tried; a quarter where each costs much
_MOST_TRIES = 40  # a halving of what is left each time, so far more than are needed
_LARGEST_TOLERANCE = 1e-4  # what is left unsearched, twice this, is then what a bound may lose
_MOST_UNDECIDED = 8  # each has cost all its cells
_FAR = 36.0  # log-odds beyond which a probability is 1 to rounding
_COVERED, _EXCEEDED, _UNDECIDED = 0, 1, 2


class Box(NamedTuple):
    """The x and y that are searched."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float


@compiled
def _between(low: float, high: float, share: float) -> float:
    """From low at 0 to high at 1, closer together near both ends: the deviation of a binomial falls like a root."""
    if share <= 0.0 or share >= 1.0:
        return low if share <= 0.0 else high
    return low + (high - low) * math.sin(0.5 * math.pi * share) ** 2


@compiled
def _at_node(outcomes: Outcomes, q: float, x: float, y: float, key: int, keys: Integers, values: Floats) -> float:
    """ln P on the surface, computed once; a value that does not count where cells do without it."""
    if x <= 0.0 or (y <= 0.0 and outcomes.m0 > 0):
        return LOWEST
    slot = (key * 0x9E3779B1 >> 7) & (len(keys) - 1)
    while keys[slot] != key:
        if keys[slot] == 0:
            keys[slot], values[slot] = key, log_chance(outcomes, on_surface(q, x, y), x, y)
            break
        slot = (slot + 1) & (len(keys) - 1)
    return float(values[slot])


@compiled
def _is_covered(outcomes: Outcomes, q: float, box: Box) -> tuple[int, float, float]:
    """Whether P is proven to be at most the target on the surface over the box, and the x and y where it was largest.

    Cuts the box into halves, across the side that adds more to the bound, until every cell is proven.
    """
    if box.x_high >= 1.0 - q and log_chance(outcomes, 1.0, max(box.x_low, 1.0 - q), box.y_high) > outcomes.target:
        return _EXCEEDED, max(box.x_low, 1.0 - q), box.y_high
    if box.x_low >= 1.0 - q or box.y_low >= q:
        return _COVERED, box.x_low, box.y_low
    box = Box(box.x_low, min(box.x_high, 1.0 - q), box.y_low, min(box.y_high, q))
    most_cells = _MOST_CELLS if outcomes.fewest.size < 1 << 12 else _MOST_CELLS // 4
    keys, values = np.zeros(4 * most_cells, np.int64), np.empty(4 * most_cells)
    stack = np.zeros((2 * _DEPTH + 4, 4), np.int64)
    depth, stack[0, 1], stack[0, 3] = 1, _SIDE, _SIDE if outcomes.m0 > 0 else 0
    largest, at_x, at_y = LOWEST, box.x_low, box.y_low
    for _ in range(most_cells):
        if depth == 0:
            return _COVERED, at_x, at_y
        i1, i2, j1, j2 = stack[depth - 1]
        x1, x2 = _between(box.x_low, box.x_high, i1 / _SIDE), _between(box.x_low, box.x_high, i2 / _SIDE)
        y1, y2 = _between(box.y_low, box.y_high, j1 / _SIDE), _between(box.y_low, box.y_high, j2 / _SIDE)
        if x2 >= 1.0 - q or y2 >= q:
            # No chord here, but P is at most its value at the largest p, the smallest x and the largest y.
            p = on_surface(q, x2, y1)
            bound = log_chance(outcomes, p, x1, y2)
            in_x, in_y = p - on_surface(q, x1, y1), p - on_surface(q, x2, y2)
        else:
            v00 = _at_node(outcomes, q, x1, y1, (i1 << 32) + j1 + 1, keys, values)
            v01 = _at_node(outcomes, q, x1, y2, (i1 << 32) + j2 + 1, keys, values)
            v10 = _at_node(outcomes, q, x2, y1, (i2 << 32) + j1 + 1, keys, values)
            v11 = _at_node(outcomes, q, x2, y2, (i2 << 32) + j2 + 1, keys, values)
            for v, x, y in ((v00, x1, y1), (v01, x1, y2), (v10, x2, y1), (v11, x2, y2)):
                if v > largest:
                    largest, at_x, at_y = v, x, y
            if largest > outcomes.target:
                return _EXCEEDED, at_x, at_y
            bound, in_x, in_y = bound_cell(outcomes, q, Cell(x1, x2, y1, y2, v00, v01, v10, v11))
        depth = depth - 1 if bound <= outcomes.target else _halve(stack, depth, in_x >= in_y)
        if depth < 0:
            break
    return _UNDECIDED, at_x, at_y


@compiled
def _halve(stack: Integers, depth: int, across_x: bool) -> int:
    """Replace the last cell by its halves; the new depth, or -1 if it is too small."""
    i1, i2, j1, j2 = stack[depth - 1]
    i, j = (i1 + i2) // 2, (j1 + j2) // 2
    if i1 < i and (across_x or j == j1):
        stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = i, i2, j1, j2
        stack[depth - 1, 1] = i
    elif j1 < j:
        stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = i1, i2, j, j2
        stack[depth - 1, 3] = j
    else:
        return -1
    return depth + 1


@compiled
def _crossing(outcomes: Outcomes, x: float, y: float, guess: float) -> float:
    """The q at which ln P reaches the target for given x and y; the bound is not above it. 1 if there is none.

    The root of -ln P is nearly linear in the log-odds of p: secants find the crossing. It need not be: P has plateaus
    where few outcomes matter, so every third step halves, and what is returned is an end at which P was seen to exceed.
    """
    p = min(max(on_surface(guess, x, y), 1e-9), 1 - 1e-9)
    goal, low, high, a = math.sqrt(-outcomes.target), -_FAR, _FAR, math.log(p / (1 - p))
    last_a, last = a, 0.0
    for i in range(60):
        p = 1 / (1 + math.exp(-a))
        missing = math.sqrt(-log_chance(outcomes, p, x, y)) - goal
        low, high = (a, high) if missing > 0 else (low, a)
        if abs(missing) < 1e-4 * goal:
            high = a  # as good as exceeded: closer than the tolerance
            break
        slope = (last - missing) / (a - last_a) if a != last_a else 0.0
        if slope <= 0.0:
            slope = math.sqrt(outcomes.n * p * (1 - p) / 2) + 1e-3
        last_a, last = a, missing
        a += min(3.0, max(-3.0, missing / slope))
        if not low < a < high or (i % 3 == 2 and high < _FAR and low > -_FAR):
            a = (low + high) / 2
        if high - low < 1e-9 or low > _FAR - 1:
            break
    p = 1 / (1 + math.exp(-high))
    return p * (1 - x) + (1 - p) * y if high < _FAR else 1.0


@compiled
def _lowest_crossing(outcomes: Outcomes, box: Box, q: float, s: float, t: float, step: float) -> float:
    """The lowest crossing that a search with shrinking steps finds, from shares s and t of the box's sides on."""
    best = _crossing(outcomes, _between(box.x_low, box.x_high, s), _between(box.y_low, box.y_high, t), q)
    while step > 0.02:
        moved = False
        for ds, dt in ((step, 0.0), (-step, 0.0), (0.0, step), (0.0, -step)):
            new_s, new_t = min(1.0, max(0.0, s + ds)), min(1.0, max(0.0, t + dt))
            if (new_s == s and new_t == t) or (dt != 0.0 and outcomes.m0 == 0):
                continue
            x, y = _between(box.x_low, box.x_high, new_s), _between(box.y_low, box.y_high, new_t)
            found = _crossing(outcomes, x, y, min(best, q))
            if found < best:
                best, s, t, moved = found, new_s, new_t, True
                break
        if not moved:
            step /= 2
    return best


@compiled
def _share(low: float, high: float, value: float) -> float:
    """The inverse of `_between`."""
    return 2 / math.pi * math.asin(math.sqrt(min(1.0, max(0.0, (value - low) / (high - low))))) if high > low else 0.0


@compiled
def _corner(outcomes: Outcomes, box: Box) -> float:
    """1 - x for the largest x of the box at which P exceeds the target with p = 1 and the largest y."""
    low, high = box.x_low, box.x_high
    if log_chance(outcomes, 1.0, high, box.y_high) > outcomes.target:
        return 1.0 - high
    for _ in range(20):
        middle = (low + high) / 2
        if log_chance(outcomes, 1.0, middle, box.y_high) > outcomes.target:
            low = middle
        else:
            high = middle
    return 1.0 - low


@compiled
def largest_covered(outcomes: Outcomes, box: Box, guess: float, tolerance: float, step: float) -> float:
    """A multiple of `step` that is proven not to exceed the bound, as a rule by at most `tolerance`; 0 if none is."""
    lowest, start_s, start_t = _corner(outcomes, box), 0.5, 0.5
    for s in (0.2, 0.5, 0.8):
        for t in (0.2, 0.5, 0.8):
            crossing = _lowest_crossing(outcomes, box, guess, s, t, 0.0)
            if crossing < lowest:
                lowest, start_s, start_t = crossing, s, t
    lowest = min(lowest, _lowest_crossing(outcomes, box, lowest, start_s, start_t, 0.15))
    covered, uncovered, back, undecided = 0.0, lowest, tolerance, 0
    for _ in range(_MOST_TRIES):
        # Close below what is known to exceed the bound, then further down; never below the middle of what is left.
        q = math.floor(max(uncovered - back, (covered + uncovered) / 2) / step) * step
        if q <= covered or uncovered - covered <= 2 * tolerance or undecided == _MOST_UNDECIDED:
            break
        found, x, y = _is_covered(outcomes, q, box)
        if found == _COVERED:
            covered = q
            continue
        s, t = _share(box.x_low, box.x_high, x), _share(box.y_low, box.y_high, y)
        uncovered = max(covered, min(q, _lowest_crossing(outcomes, box, q, s, t, 0.1)))
        back *= 3
        if found == _UNDECIDED and uncovered == q:  # out of cells, and nothing above the target near the largest seen
            tolerance, undecided = max(tolerance, min(3 * tolerance, _LARGEST_TOLERANCE)), undecided + 1
    return covered
