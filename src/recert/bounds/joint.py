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

import math
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from recert.bounds._batches import checked_replays, grid_bits, map_distinct, map_least
from recert.bounds._binomial_tails import Integers, share_below
from recert.bounds._joint_chance import Outcomes, counts_between, reach, span
from recert.bounds._joint_columns import SPACE
from recert.bounds._joint_search import about_largest, is_covered, largest_covered
from recert.bounds._joint_surface import Box
from recert.bounds.arguments import Floats, checked_counts
from recert.bounds.series import _lower_table
from recert.compiled import compiled

_BOX_SHARE = 0.02  # of alpha
_DIRECT = 512  # tables up to this length are computed entry by entry
_TIE = 1e-11  # outcomes whose statistic is this close below the observed one count as equal: more than rounding
_BEYOND = 2.0  # deviations of the losses by which the table of outcomes reaches beyond the box
# How far below the bound to search: whichever is less. In units of the half-width, finer costs more cells.
_TOLERANCE, _RELATIVE_TOLERANCE = 9e-5, 0.015


_of_thread = threading.local()


class Ordering(NamedTuple):
    """Half-widths of p for k = 0..n, of x for the f that rank, and of y for g, both as far as is asked. Below first_k none ranks."""

    of_votes: Floats
    of_lost: Floats
    of_gained: Floats
    first_k: int
    m1: int
    m0: int


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
    return _bounds(_search, (top_votes, samples, lost, replayed_top, gained, replayed_other, alpha), groups)


def joint_about(*arguments: ArrayLike, groups: ArrayLike | None = None) -> Any:
    """What `joint_lower` mostly is for the same arguments, for a quarter of the time. Nothing is proven of it: for comparisons only.

    >>> round(joint_about(80_000, 100_000, 25, 4_000, 25, 1_000, 0.002), 4)
    0.7944
    """
    return _bounds(_search_about, arguments, groups)


def _bounds(search: Callable[..., float], arguments: Sequence[ArrayLike], groups: ArrayLike | None) -> Any:
    top_votes, samples, lost, replayed_top, gained, replayed_other, alpha = arguments
    k, n, a = checked_counts(top_votes, samples, alpha)
    f, m1 = checked_replays(lost, replayed_top, alpha)
    g, m0 = checked_replays(gained, replayed_other, alpha)
    columns = list(np.broadcast_arrays(k, n, f, m1, g, m0, a))
    if groups is not None:
        return map_least(
            search,
            _reaches,
            columns,
            starts=np.asarray(groups),
            about=_about(*columns),
            at_least=_least_in_box(*columns),
        )
    bound = map_distinct(search, *columns)
    return float(bound) if bound.ndim == 0 else bound


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
    cost = -np.log(alpha * (_BOX_SHARE / 6))
    away, lost, gained = (n - k) / n, f / np.maximum(m1, 1.0), g / np.maximum(m0, 1.0)
    p_low, x_high = 1 - _share_above(away, cost / n), _share_above(lost, cost / np.maximum(m1, 1.0))
    y_low = np.maximum(0.0, gained - np.sqrt(2 * gained * cost / np.maximum(m0, 1.0)))
    least = np.minimum(p_low * (1 - x_high) + (1 - p_low) * y_low, 1 - x_high)  # linear in p, which is at most 1
    return np.where(m1 > 0, np.maximum(least - 2e-6, 0.0), 0.0)


def _share_above(share: Floats, cost: Floats) -> Floats:
    return np.asarray(np.minimum(1.0, share + cost + np.sqrt(cost * cost + 2 * share * cost)))


def _sides(count: int, trials: int, error: float) -> tuple[float, float]:
    """Clopper-Pearson bounds of one share; without trials it is 0: the worst is that nothing is gained."""
    if trials == 0:
        return 0.0, 0.0
    return share_below(count, trials, error), 1.0 - share_below(trials - count, trials, error)


class _Task(NamedTuple):
    """What is searched for one input."""

    outcomes: Outcomes
    box: Box
    observed: float
    tolerance: float
    step: float


def _task(*row: float) -> _Task | None:
    """None if the outcome does not rank."""
    k, n, f, m1, g, m0 = (int(count) for count in row[:6])
    alpha = float(row[6])
    if m1 == 0:
        return None
    level = min(alpha, 0.4)  # above, half-widths would not be positive
    of_votes, first_k = _widths_of_votes(n, level)
    target = math.log(alpha * (1 - _BOX_SHARE))
    error = alpha * _BOX_SHARE / 6
    (x_low, x_high), (y_low, y_high), (p_low, p_high) = _sides(f, m1, error), _sides(g, m0, error), _sides(k, n, error)
    x_near, x_far = max(0.0, x_low - _beyond(x_low, m1)), min(1 - 1e-6, x_high + _beyond(x_high, m1))
    box = Box(x_low, x_high, y_low, y_high, p_low, p_high, x_far)
    f_from, f_to = counts_between(x_near, x_far, m1, target, more_is_better=False)
    g_from, g_to = counts_between(box.y_low, box.y_high, m0, target, more_is_better=True)
    of_lost = _widths_of_lost(m1, level, _power_above(max(f, f_to)))
    of_gained = _widths_of_gained(m0, level, _power_above(max(g, g_to)))
    if k < first_k or f >= len(of_lost):
        return None
    ordering = Ordering(of_votes, of_lost, of_gained, first_k, m1, m0)
    observed = statistic(ordering, k, f, g)
    # Counts of votes that are hardly ever reached need not be told apart: fewer of them than are needed give no smaller P.
    _, most = span(min(1.0, p_high + _beyond(p_high, n)), n, reach(target))
    fewest = fewest_votes(ordering, observed - _TIE, f_from, f_to, g_from, g_to, most)
    half_width = k / n * (1 - f / m1) + (1 - k / n) * g / max(m0, 1) - observed
    tolerance = max(1e-6, min(_TOLERANCE, _RELATIVE_TOLERANCE * half_width))
    return _Task(Outcomes(fewest, f_from, g_from, n, m1, m0, target), box, observed, tolerance, 2.0 ** -grid_bits(m1))


def _beyond(share: float, trials: int) -> float:
    return _BEYOND * math.sqrt((share * (1 - share) + 1 / trials) / trials)


def _search(*row: float) -> float:
    """The bound for one input; 0 where its outcome does not rank."""
    task = _task(*row)
    return 0.0 if task is None else float(largest_covered(*task, _space()))


def _search_about(*row: float) -> float:
    task = _task(*row)
    return 0.0 if task is None else float(about_largest(*task, _space()))


def _space() -> Floats:
    """Memory of this thread for the search."""
    if not hasattr(_of_thread, "space"):
        _of_thread.space = np.empty(SPACE)
    return np.asarray(_of_thread.space)


def _reaches(value: float, *row: float) -> bool:
    """Whether the bound for one input is shown to be at least a value."""
    task = _task(*row)
    return task is not None and bool(is_covered(task.outcomes, task.box, value, _space()))


@lru_cache(maxsize=16)
def _widths_of_votes(n: int, level: float) -> tuple[Floats, int]:
    half_widths = np.maximum(0.0, np.arange(n + 1) / n - _lower_table(n, level))
    widths = np.ascontiguousarray(np.maximum.accumulate(half_widths[::-1])[::-1])
    return widths, int(np.argmax(np.arange(n + 1) / n >= widths))


@lru_cache(maxsize=4096)
def _widths_of_lost(m1: int, level: float, length: int) -> Floats:
    """For f = 0, 1, ... as far as they rank, up to `length` of them."""
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
