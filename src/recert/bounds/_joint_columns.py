"""ln P at many points that share few values of p and of y: tails of K and chances of G are computed once for each.

Letters as in `_joint_chance`. Most of the time of `joint_lower` is spent here. So nothing is allocated at a point, and all
numbers lie in two arrays: every array that is handed to a compiled function is counted in and out.
"""

import math
from typing import NamedTuple

import numpy as np

from recert.bounds._binomial_tails import Floats, Integers
from recert.bounds._joint_chance import LOWEST, ROUNDING, Outcomes, reach, tails, window
from recert.compiled import compiled

PLACES = 257  # of p and of y that are kept: those of cells that were halved up to eight times
_WIDE = 16  # numbers that the compiler adds at a time
SPACE = 1 << 21  # numbers, 16 MB at most: what is not used is never touched
# In `whole`: the number of rows that are taken; the row of each place of p, or -1; for each place of y the first g of its
# chances, and how many there are; then the fewest votes of all f for the first g, for the next g, and so on.
_ROW, _FIRST_G, _LENGTH, _FEWEST = 1, 1 + PLACES, 1 + 2 * PLACES, 1 + 3 * PLACES


class Columns(NamedTuple):
    """What is kept: for places of y the chances of G; for places of p, P(K >= fewest) for every f of the first g, and so on.

    In `real`: the chances of F and sums over g, both written anew at every point; the p of each place; the y of each place; what is
    left out of G's chances for each place of y; these chances; rows of P(K >= fewest), each after the least tail of its p. Places
    move with the part of the surface that is searched: a place that has another p or y by now is filled anew.
    """

    whole: Integers
    real: Floats
    f_length: int
    g_length: int
    rows: int


@compiled
def _at_p(columns: Columns, place: int) -> int:
    return 2 * columns.f_length + _WIDE + place


@compiled
def _at_y(columns: Columns, place: int) -> int:
    return 2 * columns.f_length + _WIDE + PLACES + place


@compiled
def _left_out(columns: Columns, place: int) -> int:
    return 2 * columns.f_length + _WIDE + 2 * PLACES + place


@compiled
def _of_g(columns: Columns, place: int) -> int:
    return 2 * columns.f_length + _WIDE + 3 * PLACES + place * columns.g_length


@compiled
def _length_of_row(columns: Columns) -> int:
    return 1 + columns.f_length * columns.g_length


@compiled
def _row(columns: Columns, row: int) -> int:
    return 2 * columns.f_length + _WIDE + PLACES * (3 + columns.g_length) + row * _length_of_row(columns)


@compiled
def no_columns(outcomes: Outcomes, space: Floats) -> Columns:
    """Nothing is kept yet. Numbers will lie in `space`, which is used again and again: fresh memory takes longer than to fill it."""
    f_length, g_length = outcomes.fewest.shape
    taken = 2 * f_length + 2 * _WIDE + PLACES * (3 + g_length)
    rows = max(0, min(PLACES, (len(space) - taken) // (1 + f_length * g_length)))
    whole = np.full(_FEWEST + f_length * g_length, -1)
    whole[0] = 0
    for g in range(g_length):
        for f in range(f_length):
            whole[_FEWEST + g * f_length + f] = outcomes.fewest[f, g]
    if rows > 0:
        space[2 * f_length + _WIDE : 2 * f_length + _WIDE + 2 * PLACES] = -1.0
    return Columns(whole, space, f_length, g_length, rows)


@compiled
def has_room(columns: Columns, place_of_p: int) -> bool:
    return bool(columns.whole[_ROW + place_of_p] >= 0 or columns.whole[0] < columns.rows)


@compiled
def _fill_column_of_p(columns: Columns, outcomes: Outcomes, place: int, p: float) -> None:
    whole, real = columns.whole, columns.real
    if whole[_ROW + place] < 0:
        whole[_ROW + place] = whole[0]
        whole[0] += 1
    f_length, g_length = columns.f_length, columns.g_length
    head = _row(columns, whole[_ROW + place])
    real[_at_p(columns, place)] = p
    first_k, of_k = tails(
        outcomes.n, p, outcomes.fewest[0, g_length - 1], outcomes.fewest[f_length - 1, 0], reach(outcomes.target)
    )
    last_k = first_k + len(of_k) - 1
    # The first of the tails is about all k before; the last is at least the chance of any further k, and is added for all at once.
    real[head] = of_k[-1]
    sure = some = (
        0  # so many f have the first tail, so many more than the last: the fewest votes rise with f and fall with g
    )
    for g in range(g_length):
        here, at = head + 1 + g * f_length, _FEWEST + g * f_length
        while sure < f_length and whole[at + sure] <= first_k:
            sure += 1
        some = max(some, sure)
        while some < f_length and whole[at + some] < last_k:
            some += 1
        real[here : here + sure] = of_k[0]
        for f in range(sure, some):
            real[here + f] = of_k[whole[at + f] - first_k]
        real[here + some : here + f_length] = 0.0


@compiled
def _fill_column_of_y(columns: Columns, outcomes: Outcomes, place: int, y: float) -> None:
    start = _of_g(columns, place)
    of_g = columns.real[start : start + columns.g_length]
    low, high, left_out = window(y, outcomes.m0, outcomes.first_g, outcomes.target, True, of_g)
    columns.whole[_FIRST_G + place], columns.whole[_LENGTH + place] = low, high - low + 1
    columns.real[_left_out(columns, place)] = left_out
    columns.real[_at_y(columns, place)] = y


@compiled
def _product(columns: Columns, low: int, high: int, of_g: int, first_g: int, number: int, head: int) -> float:
    """The sum of the chances of F from low to high, times those of G, from `of_g` on, times what is reached in a row.

    Vectors are whole: sums beyond the last f, of whatever lies there, are not looked at.
    """
    real, f_length, length = columns.real, columns.f_length, high - low + 1
    wide = (length + _WIDE - 1) // _WIDE * _WIDE
    of_f, sums = real[low : high + 1], real[f_length : f_length + wide]
    base = head + 1 + first_g * f_length + low
    for i in range(wide):
        sums[i] = 0.0
    j = 0
    while j + 3 < number:  # four g at a time, by slices: in this form the compiler uses vector instructions
        a, b, c, d = real[of_g + j], real[of_g + j + 1], real[of_g + j + 2], real[of_g + j + 3]
        at = base + j * f_length
        of_a, of_b = real[at : at + wide], real[at + f_length : at + f_length + wide]
        at += 2 * f_length
        of_c, of_d = real[at : at + wide], real[at + f_length : at + f_length + wide]
        for i in range(wide):
            sums[i] += a * of_a[i] + b * of_b[i] + c * of_c[i] + d * of_d[i]
        j += 4
    while j < number:
        a, of_a = real[of_g + j], real[base + j * f_length : base + j * f_length + wide]
        for i in range(wide):
            sums[i] += a * of_a[i]
        j += 1
    total = 0.0
    for i in range(length):
        total += of_f[i] * sums[i]
    return total


@compiled
def log_chance_in_columns(
    columns: Columns, outcomes: Outcomes, place_of_p: int, place_of_y: int, p: float, x: float, y: float
) -> float:
    """The same bound on ln P as `log_chance`, to rounding, for a p and a y that have places, if there is room."""
    whole, real, f_length = columns.whole, columns.real, columns.f_length
    if real[_at_p(columns, place_of_p)] != p:
        _fill_column_of_p(columns, outcomes, place_of_p, p)
    if real[_at_y(columns, place_of_y)] != y:
        _fill_column_of_y(columns, outcomes, place_of_y, y)
    low, high, left_out = window(x, outcomes.m1, outcomes.first_f, outcomes.target, False, real[:f_length])
    first_g, number = whole[_FIRST_G + place_of_y], whole[_LENGTH + place_of_y]
    head = _row(columns, whole[_ROW + place_of_p])
    # The least of the tails is added as if all that has no more had it for certain: less than 1e-4 of the target.
    total = left_out + real[_left_out(columns, place_of_y)] + real[head]
    total += _product(columns, low, high, _of_g(columns, place_of_y) + first_g, first_g, number, head)
    return max(LOWEST, min(0.0, math.log(total) + ROUNDING)) if total > 0.0 else LOWEST
