"""Many rows of counts under the series bounds in one compiled call: the outcomes at least as good as those of each, and the search.

Letters as in `_series_search`. A row is k, n, s, m, alpha, what its bound is at least, and at most. What scipy computes is handed in.
"""

import math
from typing import NamedTuple

from recert.bounds._binomial_tails import Floats, Integers
from recert.bounds._series_search import Outcomes, about_largest, fewest_votes, is_covered, largest_covered
from recert.compiled import compiled

_TIE = 1e-11  # outcomes whose statistic is this close below the observed one count as equal to it: more than the tables' error


class Tables(NamedTuple):
    """By how much votes and replays count in the ordering, for many rows, one table after the other."""

    of_votes: Floats
    of_replays: Floats
    places: Integers
    """Of each row: where its table of votes begins and ends, and where that of replays does."""


class Asked(NamedTuple):
    """What is asked of all rows."""

    statistic_is_bound: bool
    proven: bool
    """Whether bounds are proven, or only searched."""


@compiled
def is_known(row: Floats) -> bool:
    """Whether the bound needs no search."""
    return bool(row[0] == 0 or row[2] == 0 or (row[0] == row[1] and row[2] == row[3]))


@compiled
def bound_if_known(row: Floats) -> float:
    """With k = 0 or s = 0 every outcome is at least as good. P(K = n, S = m) = p^n r^m is largest at r = 1 or p = 1: there the
    bounds from one count alone are attained."""
    return 0.0 if row[0] == 0 or row[2] == 0 else float(row[6])


@compiled
def outcomes_of(row: Floats, tables: Tables, i: int, bits: int) -> tuple[Outcomes, float]:
    """Those at least as good as the observed one, and the statistic of that one."""
    at = tables.places[i]
    of_votes, of_replays = tables.of_votes[at[0] : at[1]], tables.of_replays[at[2] : at[3]]
    observed = of_votes[int(row[0])] * of_replays[int(row[2])] * (1 - _TIE)
    fewest, first = fewest_votes(of_votes, of_replays, observed)
    return Outcomes(fewest, first, len(of_votes) - 1, len(of_replays) - 1, math.log(row[4]), bits), observed


@compiled
def find_corners(rows: Floats, tables: Tables, corners: Integers, first: int, last: int) -> None:
    """Write the fewest votes with all replays kept, and the fewest replays with all votes, of some rows that are searched."""
    for i in range(first, last):
        corners[i] = 1
        if not is_known(rows[i]):
            outcomes, _ = outcomes_of(rows[i], tables, i, 0)
            corners[i, 0], corners[i, 1] = outcomes.fewest[-1], outcomes.first


@compiled
def reaches(value: float, row: Floats, outcomes: Outcomes, ceiling: float) -> bool:
    """Whether the bound is shown to be at least a value."""
    if value > row[6]:
        return False
    on_grid = math.ceil(value * 2.0**outcomes.bits) / 2.0**outcomes.bits
    return bool(on_grid <= ceiling and is_covered(outcomes, on_grid))


@compiled
def bound_of(row: Floats, outcomes: Outcomes, observed: float, ceiling: float, asked: Asked) -> float:
    if not asked.proven:
        return min(about_largest(outcomes, ceiling), float(row[6]))
    # Where the statistic is itself a bound, the search begins with it.
    found = largest_covered(outcomes, observed if asked.statistic_is_bound else 0.0, ceiling)
    return min(max(found, float(row[5])), float(row[6]))


@compiled
def lower_to_least(
    rows: Floats, tables: Tables, bits: Integers, ceilings: Floats, asked: Asked,
    at_least: Floats, begins: Integers, found: Floats, first: int, last: int,
) -> None:  # fmt: skip
    """Lower what was found for some groups of rows to the least of their bounds, in the order in which they come.

    A row is passed over whose bound is known to be `at_least` what was found, or is shown to be.
    """
    for group in range(first, last):
        for i in range(begins[group], begins[group + 1]):
            if at_least[i] >= found[group]:
                continue
            if is_known(rows[i]):
                found[group] = min(found[group], bound_if_known(rows[i]))
                continue
            outcomes, observed = outcomes_of(rows[i], tables, i, bits[i])
            if found[group] == math.inf or not reaches(found[group], rows[i], outcomes, ceilings[i]):
                found[group] = min(found[group], bound_of(rows[i], outcomes, observed, ceilings[i], asked))
