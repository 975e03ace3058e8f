"""ln P at many points that share few values of p and of y: tails of K and chances of G are computed once for each.

Letters as in `_joint_chance`. Most of the time of `joint_lower` is spent here, so nothing is allocated at a point.
"""

import math
from typing import NamedTuple

import numpy as np

from recert.bounds._binomial_tails import Floats, Integers, point_probability, rest_of_series
from recert.bounds._joint_chance import LOWEST, ROUNDING, Outcomes, reach, span, tails, window
from recert.compiled import compiled

PLACES = 257  # of p and of y that are kept: those of cells that were halved up to eight times
_LARGEST = 1 << 15  # entries of a table; with more every point is computed by itself


class Columns(NamedTuple):
    """What is kept: for places of p, P(K >= fewest) for every g and f of the table; for places of y, the chances of G.

    Places move with the part of the surface that is searched. So the p and the y that a place was filled for are kept as
    well, and a place that has another one by now is filled anew.
    """

    p: Floats
    reached: Floats
    y: Floats
    first_g: Integers
    lengths: Integers
    left_out: Floats
    of_g: Floats
    ratios: Floats
    """(m1 - f) / (f + 1), the ratio of the chances of f + 1 and of f but for the odds, for every f of the table."""
    of_f: Floats
    sums: Floats
    """These two are written anew at every point."""


@compiled
def no_columns(outcomes: Outcomes) -> Columns:
    """Room for PLACES values of each, of which only those that are used take memory; none where tables are large."""
    f_length, g_length = outcomes.fewest.shape
    room = PLACES if f_length * g_length <= _LARGEST else 0
    f = outcomes.first_f + np.arange(f_length)
    return Columns(
        np.full(room, -1.0), np.empty((room, g_length * f_length)),
        np.full(room, -1.0), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room), np.empty((room, g_length)),
        (outcomes.m1 - f) / (f + 1.0), np.empty(f_length), np.empty(f_length),
    )  # fmt: skip


@compiled
def _fill_column_of_p(columns: Columns, outcomes: Outcomes, place: int, p: float) -> None:
    columns.p[place] = p
    fewest = outcomes.fewest
    f_length, g_length = fewest.shape
    first_k, of_k = tails(outcomes.n, p, fewest[0, g_length - 1], reach(outcomes.target))
    last, reached = len(of_k) - 1, columns.reached[place]
    for f in range(f_length):
        for g in range(g_length):
            # The last of the tails is at least the chance of any further k; the first is about all k before.
            reached[g * f_length + f] = of_k[min(max(fewest[f, g] - first_k, 0), last)]


@compiled
def _fill_column_of_y(columns: Columns, outcomes: Outcomes, place: int, y: float) -> None:
    columns.y[place] = y
    start, of_g, left_out = window(y, outcomes.m0, outcomes.first_g, outcomes.fewest.shape[1], reach(outcomes.target))
    columns.first_g[place], columns.lengths[place], columns.left_out[place] = start, len(of_g), left_out
    columns.of_g[place, : len(of_g)] = of_g


@compiled
def _fill_chances_of_f(
    of_f: Floats, ratios: Floats, m1: int, first: int, deviations: float, x: float
) -> tuple[int, int, float]:
    """`window` of F for 0 < x < 1, written to of_f: where it starts in the table, its length, and what is left out."""
    last = first + len(of_f) - 1
    low, high = span(x, m1, deviations)
    low = min(max(low, first), last)
    high = max(low, min(high, last))
    odds, mode = x / (1 - x), min(high, max(low, int((m1 + 1) * x)))
    at_mode, inverse = point_probability(mode, m1, x), (1 - x) / x
    of_f[mode - low] = chance = at_mode
    for f in range(mode, high):
        chance *= ratios[f - first] * odds
        of_f[f + 1 - low] = chance
    chance = at_mode
    for f in range(mode, low, -1):
        chance *= inverse / ratios[f - 1 - first]
        of_f[f - 1 - low] = chance
    left_out = 0.0
    if low > 0:
        left_out += rest_of_series(of_f[0], low / ((m1 - low + 1.0) * odds))
    if high < m1:
        left_out += rest_of_series(of_f[high - low], (m1 - high) * odds / (high + 1.0))
    return low - first, high - low + 1, left_out


@compiled
def _product(
    of_f: Floats, of_g: Floats, reached: Floats, sums: Floats, base: int, f_length: int, length: int, number: int
) -> float:
    """The sum of of_f times of_g times what is reached, over a part of the table that begins at `base`."""
    for i in range(length):
        sums[i] = 0.0
    j = 0
    while j + 3 < number:  # four g at a time, by slices: in this form the compiler uses vector instructions
        a, b, c, d = of_g[j], of_g[j + 1], of_g[j + 2], of_g[j + 3]
        at = base + j * f_length
        of_a, of_b = reached[at : at + length], reached[at + f_length : at + f_length + length]
        at += 2 * f_length
        of_c, of_d = reached[at : at + length], reached[at + f_length : at + f_length + length]
        for i in range(length):
            sums[i] += a * of_a[i] + b * of_b[i] + c * of_c[i] + d * of_d[i]
        j += 4
    while j < number:
        a, of_a = of_g[j], reached[base + j * f_length : base + j * f_length + length]
        for i in range(length):
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
    """The same bound on ln P as `log_chance`, to rounding, for 0 < x < 1 and a p and a y that have places."""
    if columns.p[place_of_p] != p:
        _fill_column_of_p(columns, outcomes, place_of_p, p)
    if columns.y[place_of_y] != y:
        _fill_column_of_y(columns, outcomes, place_of_y, y)
    start, length, left_out = _fill_chances_of_f(
        columns.of_f, columns.ratios, outcomes.m1, outcomes.first_f, reach(outcomes.target), x
    )
    f_length = len(columns.of_f)
    total = left_out + columns.left_out[place_of_y]
    total += _product(
        columns.of_f, columns.of_g[place_of_y], columns.reached[place_of_p], columns.sums,
        columns.first_g[place_of_y] * f_length + start, f_length, length, columns.lengths[place_of_y],
    )  # fmt: skip
    return max(LOWEST, min(0.0, math.log(total) + ROUNDING)) if total > 0.0 else LOWEST
