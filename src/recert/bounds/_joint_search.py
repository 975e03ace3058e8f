"""The compiled search behind `joint_lower`: the largest q that is proven not to exceed the bound.

Letters as in `_joint_chance`. The probability P of the outcomes at least as good as the observed one rises in p, falls
in x and rises in y. To be proven is that it is at most the target wherever p (1 - x) + (1 - p) y <= q and (p, x, y) is in
the box:
- where x >= 1 - q, the largest p is the worst, and what is searched is y;
- where x < 1 - q and y > q there is no such p;
- elsewhere p is at most its value on the surface, and that is what is searched: over x and y with the p that follows, where
  the cached votes are less certain than the losses; over p and y with the x that follows, where they are more certain.
"""

import math
from typing import NamedTuple

import numpy as np

from recert.bounds._binomial_tails import Floats, Integers
from recert.bounds._joint_cells import (
    Cell,
    bound_cell_where_p_follows,
    bound_cell_where_x_follows,
    p_on_surface,
    x_on_surface,
)
from recert.bounds._joint_chance import LOWEST, Outcomes, log_chance
from recert.bounds._joint_columns import PLACES, Columns, no_columns
from recert.bounds._joint_surface import (
    APART,
    DEPTH,
    LAST,
    SIDE,
    X_IS_FREE,
    Box,
    Part,
    between,
    is_inside,
    parts_of_surface,
    point,
    value_at,
)
from recert.compiled import compiled

_MOST_CELLS = 1 << 14  # then a looser bound is tried; a quarter where each costs much
_NODES = 1 << 13  # places for values at corners; what finds none is computed anew
_MOST_TRIES = 40
_LARGEST_TOLERANCE = 1e-4  # what is left unsearched, twice this, is then what a bound may lose
_MOST_UNDECIDED = 8  # each has cost all its cells
_COVERED, _EXCEEDED, _UNDECIDED = 0, 1, 2
_SMALLEST_STEP = 2.0**-9
_SMALLEST_X = 1e-9  # that follows, whose log-odds are known: rounding moves x by some 1e-16


class Place(NamedTuple):
    """A point of a part, in 1 / (PLACES - 1) of its sides, and ln P."""

    i: int
    j: int
    value: float


@compiled
def _slot(keys: Integers, i: int, j: int) -> int:
    """Where the value at a corner is kept, or may be; -1 if there is no place for it."""
    key = (i << 32) + j + 1
    # Most places are multiples of APART: what is above it goes into the low digits.
    slot = (i // APART * 0x9E37 + j // APART * 0x79B1 + i + j) & (len(keys) - 1)
    for _ in range(16):
        if keys[slot] == key or keys[slot] == 0:
            return slot
        slot = (slot + 1) & (len(keys) - 1)
    return -1


@compiled
def _without_corners(
    outcomes: Outcomes, q: float, box: Box, part: Part, low: float, high: float, y1: float, y2: float
) -> float:
    """Upper bound on ln P over a cell by P's value at the largest p, the smallest x and the largest y; 1 where chords do better."""
    if part.free == X_IS_FREE:
        p_least, p_most = p_on_surface(q, low, y2), p_on_surface(q, high, y1)
        if p_most < box.p_low:
            return LOWEST
        if p_least >= box.p_high or p_most >= 1.0 or y2 >= q:
            return log_chance(outcomes, min(p_most, box.p_high), low, y2)
        return 1.0
    x_least, x_most = x_on_surface(q, low, y1), x_on_surface(q, high, y2)
    if x_most < part.x_from or x_least > box.x_high:
        return LOWEST
    return log_chance(outcomes, high, max(x_least, part.x_from), y2) if x_least <= _SMALLEST_X else 1.0


class Cells(NamedTuple):
    """Cells that are still to be proven: i and j of their sides, the rates there, and ln P at their corners, nan where not known yet."""

    places: Integers
    sides: Floats
    at_corners: Floats


@compiled
def no_cells(part: Part, side_of_y: int) -> Cells:
    """The whole part is one cell, and there is room for all its halves of halves."""
    stack = Cells(
        np.zeros((2 * DEPTH + 4, 4), np.int64), np.empty((2 * DEPTH + 4, 4)), np.full((2 * DEPTH + 4, 4), np.nan)
    )
    stack.places[0, 1], stack.places[0, 3] = SIDE, side_of_y
    stack.sides[0, 0], stack.sides[0, 1], stack.sides[0, 2] = part.low, part.high, part.y_low
    stack.sides[0, 3] = part.y_high if side_of_y > 0 else part.y_low
    return stack


@compiled
def _halve(stack: Cells, depth: int, part: Part, across: bool) -> int:
    """Replace the last cell by its halves; the new depth, or -1 if it is too small. Both halves keep two of the corners."""
    places, sides, at_corners = stack
    i1, i2, j1, j2 = places[depth - 1]
    i, j = (i1 + i2) // 2, (j1 + j2) // 2
    for k in range(4):
        places[depth, k], sides[depth, k] = places[depth - 1, k], sides[depth - 1, k]
        at_corners[depth, k] = at_corners[depth - 1, k]
    if i1 < i and (across or j == j1):
        places[depth, 0] = places[depth - 1, 1] = i
        sides[depth, 0] = sides[depth - 1, 1] = between(part.free, part.low, part.high, i / SIDE)
        at_corners[depth, 0] = at_corners[depth, 1] = at_corners[depth - 1, 2] = at_corners[depth - 1, 3] = math.nan
    elif j1 < j:
        places[depth, 2] = places[depth - 1, 3] = j
        sides[depth, 2] = sides[depth - 1, 3] = between(part.free, part.y_low, part.y_high, j / SIDE)
        at_corners[depth, 0] = at_corners[depth, 2] = at_corners[depth - 1, 1] = at_corners[depth - 1, 3] = math.nan
    else:
        return -1
    return depth + 1


@compiled
def _cover(outcomes: Outcomes, columns: Columns, q: float, box: Box, part: Part) -> tuple[int, Place]:
    """Whether P is proven to be at most the target on a part of the surface, and near which place it was largest, of those seen.

    Cuts the part into halves, across the side that adds more to the bound, until every cell is proven.
    """
    if part.low >= part.high:
        return _COVERED, Place(0, 0, LOWEST)
    most_cells = _MOST_CELLS if outcomes.fewest.size < 1 << 12 else _MOST_CELLS // 4
    keys, values = np.zeros(_NODES, np.int64), np.empty(_NODES)
    stack = no_cells(part, SIDE if outcomes.m0 > 0 else 0)
    depth, largest, at_i, at_j = 1, LOWEST, 0, 0
    for _ in range(most_cells):
        if depth == 0:
            return _COVERED, Place(at_i // APART, at_j // APART, largest)
        low, high, y1, y2 = stack.sides[depth - 1]
        bound, across, across_y = _without_corners(outcomes, q, box, part, low, high, y1, y2), high - low, y2 - y1
        if bound > 0.0:
            for corner in range(4):
                if not math.isnan(stack.at_corners[depth - 1, corner]):
                    continue
                i, j = stack.places[depth - 1, corner // 2], stack.places[depth - 1, 2 + corner % 2]
                slot = _slot(keys, i, j)
                if slot >= 0 and keys[slot] != 0:
                    stack.at_corners[depth - 1, corner] = values[slot]
                    continue
                value = value_at(outcomes, columns, q, box, part, i, j)
                stack.at_corners[depth - 1, corner] = value
                if slot >= 0:
                    keys[slot], values[slot] = (i << 32) + j + 1, value
                if value > largest:
                    p, x, _y = point(q, part, i / SIDE, j / SIDE)
                    if is_inside(box, part, p, x):
                        largest, at_i, at_j = value, i, j
            if largest > outcomes.target:
                return _EXCEEDED, Place(at_i // APART, at_j // APART, largest)
            v00, v01, v10, v11 = stack.at_corners[depth - 1]
            cell = Cell(low, high, y1, y2, v00, v01, v10, v11)
            if part.free == X_IS_FREE:
                bound, across, across_y = bound_cell_where_p_follows(outcomes, q, cell)
            else:
                bound, across, across_y = bound_cell_where_x_follows(outcomes, q, cell)
        depth = depth - 1 if bound <= outcomes.target else _halve(stack, depth, part, across >= across_y)
        if depth < 0:
            break
    return _UNDECIDED, Place(at_i // APART, at_j // APART, largest)


@compiled
def _value_of(p: float, x: float, y: float) -> float:
    return p * (1.0 - x) + (1.0 - p) * y


@compiled
def _exceeds_at_the_end(outcomes: Outcomes, q: float, box: Box) -> bool:
    """Whether P may be more than the target where x >= 1 - q. There a larger p only lowers the value, if y >= q, or keeps it below q.

    So p is the largest, and with it P is at most its value at the largest y <= q, and x = 1 - q. Where y > q, x is at least the
    one that follows, which rises with y: from each y on, so far up as the x of that y will do.
    """
    x, y = max(box.x_low, 1.0 - q), max(box.y_low, q)
    if x > box.x_high:
        return False
    if box.y_low <= q and log_chance(outcomes, box.p_high, x, min(box.y_high, q)) > outcomes.target:
        return True
    step = box.y_high - y
    smallest = step * _SMALLEST_STEP
    while y < box.y_high:
        x, up = max(box.x_low, x_on_surface(q, box.p_high, y)), min(y + step, box.y_high)
        if x > box.x_high:
            break
        if log_chance(outcomes, box.p_high, x, up) <= outcomes.target:
            y = up
        elif step <= smallest:
            return True
        else:
            step /= 2
    return False


@compiled
def _exceeds_below(outcomes: Outcomes, q: float, box: Box) -> bool:
    """Whether P may be more than the target where no surface shows it: where x >= 1 - q, or all of the box is below q."""
    if _value_of(box.p_high, box.x_low, box.y_high) <= q:
        return log_chance(outcomes, box.p_high, box.x_low, box.y_high) > outcomes.target
    return _exceeds_at_the_end(outcomes, q, box)


@compiled
def _inside(outcomes: Outcomes, columns: Columns, q: float, box: Box, part: Part, i: int, j: int) -> float:
    """ln P at a place of the grid that is kept; LOWEST outside of the box."""
    p, x, _ = point(q, part, i / LAST, j / LAST)
    return value_at(outcomes, columns, q, box, part, i * APART, j * APART) if is_inside(box, part, p, x) else LOWEST


@compiled
def _climb(outcomes: Outcomes, columns: Columns, q: float, box: Box, part: Part, place: Place, step: int) -> Place:
    """The largest ln P that a search with shrinking steps finds from a place on."""
    i, j, largest = place.i, place.j, place.value
    while step > 2:
        moved = False
        for di, dj in ((step, 0), (-step, 0), (0, step), (0, -step)):
            new_i, new_j = min(LAST, max(0, i + di)), min(LAST, max(0, j + dj))
            if (new_i == i and new_j == j) or (dj != 0 and outcomes.m0 == 0):
                continue
            value = _inside(outcomes, columns, q, box, part, new_i, new_j)
            if value > largest:
                largest, i, j, moved = value, new_i, new_j, True
                break
        if not moved:
            step //= 2
    return Place(i, j, largest)


@compiled
def _highest(outcomes: Outcomes, columns: Columns, q: float, box: Box, part: Part) -> Place:
    """Where ln P is largest on a part, as far as a coarse grid shows."""
    best = Place(LAST // 2, LAST // 2, LOWEST)
    if part.low < part.high:
        for i in range(0, PLACES, LAST // 8):
            for j in range(0, PLACES if outcomes.m0 > 0 else 1, LAST // 8):
                value = _inside(outcomes, columns, q, box, part, i, j)
                if value > best.value:
                    best = Place(i, j, value)
    return best


@compiled
def _crossing(
    outcomes: Outcomes, columns: Columns, q: float, box: Box, number: int, place: Place, tolerance: float
) -> float:
    """The least q at which ln P was seen above the target near a place, about where it crosses it; 1 if it was not seen.

    The root of -ln P is nearly linear in q, so secants find the crossing. They need not: P has plateaus where few outcomes
    matter.
    """
    goal, step, seen = math.sqrt(-outcomes.target), tolerance, 1.0
    for _ in range(8):
        part = parts_of_surface(outcomes, q, box)[number]
        place = Place(place.i, place.j, _inside(outcomes, columns, q, box, part, place.i, place.j))
        if place.value <= LOWEST:  # x that follows has left the box
            place = _highest(outcomes, columns, q, box, part)
        place = _climb(outcomes, columns, q, box, part, place, LAST // 16)
        if place.value <= LOWEST:
            break
        if place.value > outcomes.target:
            seen = min(seen, q)
        root = math.sqrt(-place.value)
        p, x, y = point(q, part, place.i / LAST, place.j / LAST)
        # A little lower in value: by p where it follows, else by x, which may be just beyond the box.
        p, x = (p - step / (1.0 - x - y), x) if part.free == X_IS_FREE else (p, x + step / p)
        slope = (math.sqrt(-log_chance(outcomes, p, x, y)) - root) / step
        if slope <= 0.0:
            break
        move = (root - goal) / slope
        q = min(1.0 - 1e-9, max(1e-9, q + min(0.02, max(-0.02, move))))
        if abs(move) < tolerance / 4:
            q += tolerance / 4
            part = parts_of_surface(outcomes, q, box)[number]
            if _inside(outcomes, columns, q, box, part, place.i, place.j) > outcomes.target:
                seen = min(seen, q)
            break
    return seen


@compiled
def _end(outcomes: Outcomes, box: Box) -> float:
    """About the least q at which P may exceed the target where x >= 1 - q, from above."""
    low, high = 1.0 - box.x_high, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        if _exceeds_at_the_end(outcomes, middle, box):
            high = middle
        else:
            low = middle
    return high


@compiled
def _is_covered(outcomes: Outcomes, columns: Columns, q: float, box: Box) -> tuple[int, int, Place]:
    """Whether the whole surface is covered; if not, the part that is not, and the place where P was largest."""
    parts = parts_of_surface(outcomes, q, box)
    if _exceeds_below(outcomes, q, box):
        return _EXCEEDED, 0, Place(0, 0, LOWEST)
    for number in range(2):
        verdict, place = _cover(outcomes, columns, q, box, parts[number])
        if verdict != _COVERED:
            return verdict, number, place
    return _COVERED, 0, Place(0, 0, LOWEST)


@compiled
def is_covered(outcomes: Outcomes, box: Box, q: float, space: Floats) -> bool:
    """Whether q is proven not to exceed the bound. What lies in `space` is overwritten."""
    return _is_covered(outcomes, no_columns(outcomes, space), q, box)[0] == _COVERED


@compiled
def _lowest_seen(outcomes: Outcomes, columns: Columns, box: Box, guess: float, tolerance: float) -> float:
    """About the least q that exceeds the bound, as far as a search from a guess shows."""
    lowest, least = 1.0, _value_of(box.p_low, box.x_high, box.y_low)
    most = _value_of(box.p_high, box.x_low, box.y_high)
    for sixteenth in range(17):
        guess = max(guess, 1e-9, least + (most - least) * sixteenth / 16)
        parts = parts_of_surface(outcomes, guess, box)
        of_x, of_p = (
            _highest(outcomes, columns, guess, box, parts[0]),
            _highest(outcomes, columns, guess, box, parts[1]),
        )
        number, place = (0, of_x) if of_x.value >= of_p.value else (1, of_p)
        if place.value > LOWEST:  # the surface of this value passes through the box
            lowest = min(lowest, _crossing(outcomes, columns, guess, box, number, place, tolerance))
            break
    if box.x_high >= 1.0 - lowest:
        lowest = min(lowest, _end(outcomes, box))
    return lowest


@compiled
def about_largest(outcomes: Outcomes, box: Box, guess: float, tolerance: float, step: float, space: Floats) -> float:
    """What `largest_covered` tries to prove first, and mostly returns. It proves nothing, and takes a quarter of the time."""
    lowest = _lowest_seen(outcomes, no_columns(outcomes, space), box, guess, tolerance)
    return math.floor(max(lowest - tolerance, lowest / 2) / step) * step


@compiled
def largest_covered(outcomes: Outcomes, box: Box, guess: float, tolerance: float, step: float, space: Floats) -> float:
    """A multiple of `step` that is proven not to exceed the bound, as a rule by at most `tolerance`; 0 if none is."""
    columns = no_columns(outcomes, space)
    lowest = _lowest_seen(outcomes, columns, box, guess, tolerance)
    covered, uncovered, back, undecided = 0.0, lowest, tolerance, 0
    for _ in range(_MOST_TRIES):
        # Close below what is known to exceed the bound, then further down; never below the middle of what is left.
        q = math.floor(max(uncovered - back, (covered + uncovered) / 2) / step) * step
        if q <= covered or uncovered - covered <= 2 * tolerance or undecided == _MOST_UNDECIDED:
            break
        verdict, number, place = _is_covered(outcomes, columns, q, box)
        if verdict == _COVERED:
            covered = q
            continue
        crossing = q
        if place.value > LOWEST:
            crossing = min(q, _crossing(outcomes, columns, q, box, number, place, tolerance))
        uncovered = max(covered, crossing)
        back *= 3
        if verdict == _UNDECIDED and uncovered == q:  # out of cells, and nothing above the target near the largest seen
            tolerance, undecided = max(tolerance, min(3 * tolerance, _LARGEST_TOLERANCE)), undecided + 1
    return covered
