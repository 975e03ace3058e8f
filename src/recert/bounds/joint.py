"""Lower bound on P(f^p votes for the class) from its losses and gains, with one error for all counts together.

Letters of the mathematics: k of n cached votes are for the class, each with probability p; f of m1 replays lose it,
each with probability x; g of m0 replays gain it, each with probability y; p (1 - x) + (1 - p) y is to be bounded.

Buehler's bound (1957) with the nuisance limited as by Berger and Boos (1994): fix an ordering T of the outcomes. The
bound is the largest L such that P(T >= T observed) <= .98 alpha for all (p, x, y) in a box with
p (1 - x) + (1 - p) y < L. The box is six one-sided Clopper-Pearson bounds at .02 / 6 alpha each. If the bound is above
the truth, either the box has missed (p, x, y), with probability .02 alpha, or T is in its own upper .98 alpha tail.

T is the lower limit by the method of variance estimates recovery (Zou and Donner, 2008) at the observed shares,
    T = p (1 - x) + (1 - p) y - sqrt((1 - x - y + w_y)^2 w_p^2 + p^2 w_x^2 + (1 - p)^2 w_y^2),
with one-sided Clopper-Pearson half-widths w. Any ordering that is fixed beforehand is valid. This one is made to rise
in k, fall in f and rise in g, which the search relies on; a norm changes by at most the changes of its parts:
- w_p never rises with k and w_x never falls with f (running maxima), and y is cut at 1/2;
- outcomes with p < w_p or with x + w_x > 1/2 rank below all others, and their bound is 0. So w_x <= 1 - x - y.
"""

import threading
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from recert.bounds._batches import Integers, checked_replays, grid_bits, in_threads, joined_tables, least_of_groups
from recert.bounds._joint_columns import SPACE
from recert.bounds._joint_rows import (
    BOX_SHARE,
    FIRST_COUNT,
    HIGHEST_LEVEL,
    SIDES,
    Tables,
    Tolerances,
    find_boxes,
    lower_to_least,
)
from recert.bounds.arguments import Floats, checked_counts
from recert.bounds.series import _lower_table

_DIRECT = 512  # tables up to this length are computed entry by entry
# How far below the bound to search: whichever is less. In units of the half-width, finer costs more cells.
_TOLERANCE, _RELATIVE_TOLERANCE = 9e-5, 0.015

_of_thread = threading.local()


def joint_lower(
    top_votes: ArrayLike,
    samples: ArrayLike,
    lost: ArrayLike,
    replayed_top: ArrayLike,
    gained: ArrayLike,
    replayed_other: ArrayLike,
    alpha: ArrayLike,
    *,
    groups: ArrayLike | None = None,
) -> Any:
    """Lower bound on P(f^p votes for the class) from f's votes and replays of both kinds of noise.

    Of `replayed_top` noises on which f voted for the class f^p lost `lost`; of `replayed_other` on which f did not
    f^p gained `gained`. With probability 1 - alpha the bound is not above P(f^p votes for the class), provided that
    the three counts are independent: both numbers of replays are fixed beforehand, and where f's votes do not suffice
    for them no claim is made. (Those of `paired_lower` may depend on the votes, for a mostly smaller bound.) Without
    replays where f did not vote for the class only losses count. 0 where votes are few or half may be lost.
    The value is proven to be at most the bound of this module, and is at most 2e-4 below it, or 4% of its distance from the
    observed value where that is less. Arguments broadcast.

    With `groups`, the places at which groups of arguments begin, the least bound of each group: far sooner than all of them.

    >>> round(joint_lower(80_000, 100_000, 25, 4_000, 25, 1_000, 0.002), 4)
    0.7944
    """
    return _bounds(True, (top_votes, samples, lost, replayed_top, gained, replayed_other, alpha), groups)


def joint_about(*arguments: ArrayLike, groups: ArrayLike | None = None) -> Any:
    """What `joint_lower` mostly is for the same arguments, for a quarter of the time. Nothing is proven of it: for comparisons only.

    >>> round(joint_about(80_000, 100_000, 25, 4_000, 25, 1_000, 0.002), 4)
    0.7944
    """
    return _bounds(False, arguments, groups)


def _bounds(proven: bool, arguments: Sequence[ArrayLike], groups: ArrayLike | None) -> Any:
    top_votes, samples, lost, replayed_top, gained, replayed_other, alpha = arguments
    k, n, a = checked_counts(top_votes, samples, alpha)
    f, m1 = checked_replays(lost, replayed_top, alpha)
    g, m0 = checked_replays(gained, replayed_other, alpha)
    columns = np.broadcast_arrays(k, n, f, m1, g, m0, a)
    return least_of_groups(
        partial(_searched, proven),
        columns,
        groups,
        about=_about(*columns),
        at_least=_least_in_box(*columns),
        trials=1,
        alpha=6,
    )


def _about(*columns: Floats) -> Floats:
    """Near the statistic, and so near the bound; where it is not, only time is lost."""
    k, n, f, m1, g, m0, alpha = columns[:7]
    p, x, y = k / n, f / np.maximum(m1, 1), g / np.maximum(m0, 1)
    deviation = np.sqrt(
        ((1 - x - y) ** 2 * p * (1 - p) / n)
        + p**2 * (f + 2) / np.maximum(m1, 1) ** 2
        + (1 - p) ** 2 * (g + 2) / np.maximum(m0, 1) ** 2
    )
    return np.asarray(p * (1 - x) + (1 - p) * y - np.sqrt(-2 * np.log(alpha)) * deviation)


def _least_in_box(*columns: Floats) -> Floats:
    """No bound is below this: the least p (1 - x) + (1 - p) y in a box that is somewhat larger than the one of the search.

    A share u of m trials has its Clopper-Pearson bounds at error e above u - sqrt(2 u c) and below u + c + sqrt(c^2 + 2 u c) with
    c = -ln(e) / m (Chernoff's bound, and KL(a, b) >= (a - b)^2 / (2 max(a, b))). Used where a look at the digits is not needed.
    """
    k, n, f, m1, g, m0, alpha = columns
    cost = -np.log(alpha * (BOX_SHARE / 6))
    away, lost, gained = (n - k) / n, f / np.maximum(m1, 1.0), g / np.maximum(m0, 1.0)
    p_low, x_high = 1 - _share_above(away, cost / n), _share_above(lost, cost / np.maximum(m1, 1.0))
    y_low = np.maximum(0.0, gained - np.sqrt(2 * gained * cost / np.maximum(m0, 1.0)))
    least = np.minimum(p_low * (1 - x_high) + (1 - p_low) * y_low, 1 - x_high)  # linear in p, which is at most 1
    return np.where(m1 > 0, np.maximum(least - 2e-6, 0.0), 0.0)


def _share_above(share: Floats, cost: Floats) -> Floats:
    return np.asarray(np.minimum(1.0, share + cost + np.sqrt(cost * cost + 2 * share * cost)))


def _searched(proven: bool, rows: Floats, at_least: Floats, begins: Integers, found: Floats) -> None:
    """Lower what was found for each group of rows to the least of their bounds.

    Tables that scipy computes are looked up first, of all rows together. So a thread runs compiled code alone, for some groups at
    a time, and holds the lock of the interpreter only where it begins and ends.
    """
    boxes = np.empty((len(rows), SIDES))
    in_threads(lambda first, last: find_boxes(rows, boxes, first, last), len(rows), at_once=64)
    tables, steps = _tables(rows, boxes), 2.0 ** -np.array([grid_bits(m1) for m1 in rows[:, 3].tolist()])
    tolerances = Tolerances(_TOLERANCE, _RELATIVE_TOLERANCE)
    in_threads(
        lambda first, last: lower_to_least(
            rows, boxes, tables, steps, tolerances, at_least, begins, found, first, last, proven, _space()
        ),
        len(found),
        at_once=4,  # a millisecond or two of work
    )


def _space() -> Floats:
    """Memory of this thread for the search."""
    if not hasattr(_of_thread, "space"):
        _of_thread.space = np.empty(SPACE)
    return np.asarray(_of_thread.space)


def _tables(rows: Floats, boxes: Floats) -> Tables:
    """Half-widths for the rows, as far as they may be asked for."""
    _, n, f, m1, g, m0, alpha = rows.T.tolist()
    _, f_to, _, g_to = boxes[:, FIRST_COUNT:].T.tolist()
    level = [min(each, HIGHEST_LEVEL) for each in alpha]
    votes = list(zip(map(int, n), level, strict=True))
    lost = [(int(m), a, _power_above(int(max(count)))) for m, a, *count in zip(m1, level, f, f_to, strict=True)]
    gained = [(int(m), a, _power_above(int(max(count)))) for m, a, *count in zip(m0, level, g, g_to, strict=True)]
    of_votes, at_votes = joined_tables(votes, lambda n, level: _widths_of_votes(n, level)[0])
    of_lost, at_lost = joined_tables(lost, _widths_of_lost)
    of_gained, at_gained = joined_tables(gained, _widths_of_gained)
    first_k = np.array([_widths_of_votes(*key)[1] for key in votes], dtype=np.int64)
    return Tables(of_votes, of_lost, of_gained, np.stack([*at_votes, first_k, *at_lost, *at_gained], axis=1))


@lru_cache(maxsize=16)
def _widths_of_votes(n: int, level: float) -> tuple[Floats, int]:
    half_widths = np.maximum(0.0, np.arange(n + 1) / n - _lower_table(n, level))
    widths = np.ascontiguousarray(np.maximum.accumulate(half_widths[::-1])[::-1])
    return widths, int(np.argmax(np.arange(n + 1) / n >= widths))


@lru_cache(maxsize=4096)
def _widths_of_lost(m1: int, level: float, length: int) -> Floats:
    """For f = 0, 1, ... as far as they rank, up to `length` of them; without replays none does."""
    if m1 == 0:
        return np.zeros(0)
    kept = m1 - np.arange(min(length, m1 + 1))
    if length <= _DIRECT:
        lower = np.where(kept > 0, special.betaincinv(np.maximum(kept, 1.0), m1 - kept + 1.0, level), 0.0)
    else:
        lower = _lower_table(m1, level)[kept]
    # The upper half-width of a count is the lower one of the rest.
    widths: Floats = np.maximum.accumulate(np.maximum(0.0, kept / m1 - lower))
    return widths[1 - kept / m1 + widths <= 0.5]


@lru_cache(maxsize=4096)
def _widths_of_gained(m0: int, level: float, length: int) -> Floats:
    """For g = 0, 1, ..., at least `length` of them, as far as there are so many."""
    if m0 == 0:
        return np.zeros(1)
    g = np.arange(min(length, m0 + 1))
    if length <= _DIRECT:
        lower = np.where(g > 0, special.betaincinv(np.maximum(g, 1.0), m0 - g + 1.0, level), 0.0)
    else:
        lower = _lower_table(m0, level)[g]
    widths: Floats = np.maximum(0.0, np.minimum(g / m0, 0.5) - np.maximum.accumulate(lower))
    return widths


def _power_above(count: int) -> int:
    """Tables of few lengths serve many counts."""
    return 1 << max(5, count.bit_length())
