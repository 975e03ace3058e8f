"""Many rows of counts under the joint bound in one compiled call: the box and the tables of each, and the search.

Letters as in `joint`. A row is k, n, f, m1, g, m0 and alpha, all as floating-point numbers. What scipy computes is handed in.
"""

import math
from typing import NamedTuple

import numpy as np

from recert.bounds._binomial_tails import Floats, Integers, share_below
from recert.bounds._joint_chance import Outcomes, counts_between, reach, span
from recert.bounds._joint_search import about_largest, is_covered, largest_covered
from recert.bounds._joint_surface import Box
from recert.compiled import compiled

BOX_SHARE = 0.02  # of alpha
HIGHEST_LEVEL = 0.4  # of half-widths: above, they would not be positive
_TIE = 1e-11  # outcomes whose statistic is this close below the observed one count as equal: more than rounding
_BEYOND = 2.0  # deviations of the losses by which the table of outcomes reaches beyond the box
# Numbers that are found for each row: the sides of the box, then the first and last f, and the first and last g, that matter in it.
SIDES, FIRST_COUNT = 11, 7


class Ordering(NamedTuple):
    """Half-widths of p for k = 0..n, of x for the f that rank, and of y for g, both as far as is asked. Below first_k none ranks."""

    of_votes: Floats
    of_lost: Floats
    of_gained: Floats
    first_k: int
    m1: int
    m0: int


class Tables(NamedTuple):
    """Half-widths for many rows, one table after the other."""

    of_votes: Floats
    of_lost: Floats
    of_gained: Floats
    places: Integers
    """Of each row: where its half-widths of p begin and end, first_k, where those of x begin and end, and those of y."""


class Tolerances(NamedTuple):
    """How far below the bound to search: whichever is less. The second is in units of the half-width."""

    most: float
    relative: float


class Task(NamedTuple):
    """What is searched for one row."""

    outcomes: Outcomes
    box: Box
    observed: float
    tolerance: float


@compiled
def sides(count: int, trials: int, error: float) -> tuple[float, float]:
    """Clopper-Pearson bounds of one share; without trials it is 0: the worst is that nothing is gained."""
    if trials == 0:
        return 0.0, 0.0
    return share_below(count, trials, error), 1.0 - share_below(trials - count, trials, error)


@compiled
def beyond(share: float, trials: int) -> float:
    return _BEYOND * math.sqrt((share * (1 - share) + 1 / trials) / trials)


@compiled
def _target(alpha: float) -> float:
    return math.log(alpha * (1 - BOX_SHARE))


@compiled
def box_of(row: Floats) -> Box:
    k, n, f, m1, g, m0 = int(row[0]), int(row[1]), int(row[2]), int(row[3]), int(row[4]), int(row[5])
    error = row[6] * BOX_SHARE / 6
    x_low, x_high = sides(f, m1, error)
    y_low, y_high = sides(g, m0, error)
    p_low, p_high = sides(k, n, error)
    return Box(x_low, x_high, y_low, y_high, p_low, p_high, min(1 - 1e-6, x_high + beyond(x_high, m1)))


@compiled
def counts_in(box: Box, m1: int, m0: int, alpha: float) -> tuple[int, int, int, int]:
    """The first and last f, and the first and last g, that matter in a box."""
    target = _target(alpha)
    x_near = max(0.0, box.x_low - beyond(box.x_low, m1))
    f_from, f_to = counts_between(x_near, box.x_far, m1, target, False)
    g_from, g_to = counts_between(box.y_low, box.y_high, m0, target, True)
    return f_from, f_to, g_from, g_to


@compiled
def find_boxes(rows: Floats, boxes: Floats, first: int, last: int) -> None:
    """Write the sides of the boxes of some rows, and the counts that matter in them, to `boxes`; 0 for rows without replays."""
    for i in range(first, last):
        boxes[i] = 0.0
        if rows[i, 3] == 0.0:
            continue
        box = box_of(rows[i])
        counts = counts_in(box, int(rows[i, 3]), int(rows[i, 5]), rows[i, 6])
        for j in range(FIRST_COUNT):
            boxes[i, j] = box[j]
        for j in range(SIDES - FIRST_COUNT):
            boxes[i, FIRST_COUNT + j] = counts[j]


@compiled
def ordering_of(row: Floats, tables: Tables, i: int) -> Ordering:
    at = tables.places[i]
    return Ordering(
        tables.of_votes[at[0] : at[1]], tables.of_lost[at[3] : at[4]], tables.of_gained[at[5] : at[6]],
        at[2], int(row[3]), int(row[5]),
    )  # fmt: skip


@compiled
def ranks(ordering: Ordering, row: Floats) -> bool:
    return bool(row[0] >= ordering.first_k and row[2] < len(ordering.of_lost))


@compiled
def task_of(row: Floats, sides_of_box: Floats, ordering: Ordering, tolerances: Tolerances) -> Task:
    """What is searched for a row that ranks."""
    k, n, f, m1, g, m0 = int(row[0]), int(row[1]), int(row[2]), int(row[3]), int(row[4]), int(row[5])
    box = Box(
        sides_of_box[0], sides_of_box[1], sides_of_box[2], sides_of_box[3], sides_of_box[4], sides_of_box[5], sides_of_box[6]
    )  # fmt: skip
    f_from, f_to = int(sides_of_box[7]), int(sides_of_box[8])
    g_from, g_to = int(sides_of_box[9]), int(sides_of_box[10])
    target, observed = _target(row[6]), statistic(ordering, k, f, g)
    # Counts of votes that are hardly ever reached need not be told apart: fewer of them than are needed give no smaller P.
    _, most = span(min(1.0, box.p_high + beyond(box.p_high, n)), n, reach(target))
    fewest = fewest_votes(ordering, observed - _TIE, f_from, f_to, g_from, g_to, most)
    half_width = k / n * (1 - f / m1) + (1 - k / n) * g / max(m0, 1) - observed
    tolerance = max(1e-6, min(tolerances.most, tolerances.relative * half_width))
    return Task(Outcomes(fewest, f_from, g_from, n, m1, m0, target), box, observed, tolerance)


@compiled
def lower_to_least(
    rows: Floats, boxes: Floats, tables: Tables, steps: Floats, tolerances: Tolerances,
    at_least: Floats, begins: Integers, found: Floats, first: int, last: int, proven: bool, space: Floats,
) -> None:  # fmt: skip
    """Lower what was found for some groups of rows to the least of their bounds, in the order in which they come.

    A row is passed over whose bound is known to be `at_least` what was found, or is shown to be; one that does not rank has 0.
    """
    for group in range(first, last):
        for i in range(begins[group], begins[group + 1]):
            if at_least[i] >= found[group]:
                continue
            ordering = ordering_of(rows[i], tables, i)
            if not ranks(ordering, rows[i]):
                found[group] = min(found[group], 0.0)
                continue
            task = task_of(rows[i], boxes[i], ordering, tolerances)
            if found[group] < math.inf and is_covered(task.outcomes, task.box, found[group], space):
                continue
            outcomes, box, observed, tolerance = task
            if proven:
                bound = largest_covered(outcomes, box, observed, tolerance, steps[i], space)
            else:
                bound = about_largest(outcomes, box, observed, tolerance, steps[i], space)
            found[group] = min(found[group], bound)


@compiled
def statistic(ordering: Ordering, k: int, f: int, g: int) -> float:
    """T of an outcome that ranks."""
    n, m0 = len(ordering.of_votes) - 1, ordering.m0
    y = min(g / m0, 0.5) if m0 > 0 else 0.0
    return _statistic(k / n, ordering.of_votes[k], f / ordering.m1, ordering.of_lost[f], y, ordering.of_gained[g])


@compiled
def _statistic(p: float, of_p: float, x: float, of_x: float, y: float, of_y: float) -> float:
    """T of three shares and their half-widths."""
    slope = 1.0 - x - y
    by_votes, by_lost, by_gained = (slope + of_y) * of_p, p * of_x, (1.0 - p) * of_y
    return y + p * slope - math.sqrt(by_votes * by_votes + by_lost * by_lost + by_gained * by_gained)


@compiled
def fewest_votes(
    ordering: Ordering, observed: float, f_from: int, f_to: int, g_from: int, g_to: int, most: int
) -> Integers:
    """The smallest k with T >= observed for each f and g of a table; where there is none up to `most`, the one after these."""
    of_votes, of_lost, of_gained, first_k, m1, m0 = ordering
    n, last_g = len(of_votes) - 1, g_to - g_from
    beyond = min(n, most) + 1
    fewest = np.full((f_to - f_from + 1, last_g + 1), beyond)
    for i in range(min(f_to, len(of_lost) - 1) - f_from + 1):
        k, x, of_x = first_k, (i + f_from) / m1, of_lost[i + f_from]
        for j in range(last_g, -1, -1):
            # k rises as f rises and as g falls: from the last k on, and about as much more as with one f less, or for the last g.
            low = max(k, fewest[i - 1, j]) if i > 0 else k
            if low >= beyond:
                break
            if i > 0:
                more = fewest[i - 1, j] - fewest[i - 1, j + 1] if j < last_g else 0
            else:
                more = k - fewest[i, j + 2] if j < last_g - 1 else 0
            g = j + g_from
            y, of_y = min(g / m0, 0.5) if m0 > 0 else 0.0, of_gained[g]
            high, step = max(low, min(n, k + more)), 1
            while high <= n and _statistic(high / n, of_votes[high], x, of_x, y, of_y) < observed:
                low, high, step = high + 1, min(high + step, n) if high < n else n + 1, 2 * step
            if step == 1 and high > low:  # the guess is enough: down from it
                while high > low and _statistic((high - step) / n, of_votes[high - step], x, of_x, y, of_y) >= observed:
                    high, step = high - step, min(2 * step, high - step - low)
                low = high - step + 1 if high > low else low
            while low < high:
                middle = (low + high) // 2
                if _statistic(middle / n, of_votes[middle], x, of_x, y, of_y) >= observed:
                    high = middle
                else:
                    low = middle + 1
            k = low
            fewest[i, j] = min(k, beyond)
    return fewest
