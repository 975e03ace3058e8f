"""Lower bound on P(f votes for the class) * P(f^p keeps it): two components in series (Buehler, 1957)."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy import special

from recert.bounds._batches import (
    Integers,
    checked_replays,
    grid_bits,
    in_threads,
    joined_tables,
    least_of_groups,
)
from recert.bounds._series_rows import Asked, Tables, find_corners, lower_to_least
from recert.bounds.arguments import Floats, checked_counts
from recert.bounds.binomial import lower_of_checked

# The shares of alpha with which the two counts enter the ordering of outcomes. Any fixed shares are valid; replays are
# few and votes are many, so most of alpha goes where it costs least.
_VOTES_SHARE, _REPLAYS_SHARE = 0.9, 0.1
# How much a flip weighs against votes in the ordering that punishes flips.
_PUNISHMENT = 4.0
# Up to this distance from either end the tables are computed entry by entry, beyond it by interpolation.
_DIRECT = 128
_NODES = chebyshev.chebpts1(20)
_FIT = np.linalg.inv(chebyshev.chebvander(_NODES, len(_NODES) - 1))


def series_lower(
    top_votes: ArrayLike,
    samples: ArrayLike,
    kept: ArrayLike,
    replayed: ArrayLike,
    alpha: ArrayLike,
    *,
    groups: ArrayLike | None = None,
) -> Any:
    """Lower bound on P(f^p votes for the class), from f's votes and a replay of some noises on which f voted for it.

    With probability 1 - alpha it is not above P(f and f^p vote for the class), over both counts jointly, provided
    that `top_votes` of `samples` and `kept` of `replayed` are independent: `replayed` is fixed beforehand. The value
    returned is proven to be at most Buehler's bound for the ordering by the product of the two Clopper-Pearson bounds,
    at errors .9 alpha and .1 alpha, and is at most 2e-6 below. No replays bound nothing: 0. Arguments broadcast.

    With `groups`, the places at which groups of arguments begin, the least bound of each group: sooner than all of them.

    >>> round(series_lower(9_000, 10_000, 900, 900, 0.002), 4)
    0.8906
    """
    k, n, s, m, a = _checked(top_votes, samples, kept, replayed, alpha)
    # Buehler's theorem: no valid bound that is nondecreasing in the statistic exceeds Buehler's, and the statistic
    # itself is one (by the union bound).
    statistic = lower_of_checked(k, n, _VOTES_SHARE * a) * lower_of_checked(s, np.maximum(m, 1.0), _REPLAYS_SHARE * a)
    return _bounds(_VOTES_SHARE, _REPLAYS_SHARE, (k, n, s, m, a, statistic, _single(k, n, s, m, a)), groups)


def few_flips_lower(
    top_votes: ArrayLike,
    samples: ArrayLike,
    kept: ArrayLike,
    replayed: ArrayLike,
    alpha: ArrayLike,
    *,
    groups: ArrayLike | None = None,
) -> Any:
    """Like `series_lower`, with an ordering of outcomes that punishes flips: larger if none is seen, soon smaller if some are.

    The ordering is CPLower(top_votes, samples, alpha) exp(-4 flips / replayed). Any ordering that is fixed beforehand and rises in
    both counts is valid. Which of the two bounds is used must be decided by other inputs, or by selection votes.

    >>> round(few_flips_lower(9_500, 10_000, 1_000, 1_000, 0.002), 4), round(series_lower(9_500, 10_000, 1_000, 1_000, 0.002), 4)
    (0.9431, 0.9421)
    >>> round(few_flips_lower(9_500, 10_000, 998, 1_000, 0.002), 4), round(series_lower(9_500, 10_000, 998, 1_000, 0.002), 4)
    (0.9358, 0.9376)
    """
    k, n, s, m, a = _checked(top_votes, samples, kept, replayed, alpha)
    return _bounds(1.0, 0.0, (k, n, s, m, a, np.zeros_like(a), _single(k, n, s, m, a)), groups)


def series_about(*counts: ArrayLike) -> Any:
    """What `series_lower` mostly is for the same arguments, sooner. Nothing is proven of it: for plans only.

    >>> round(series_about(9_000, 10_000, 900, 900, 0.002), 4)
    0.8906
    """
    k, n, s, m, a = _checked(*counts)
    return _bounds(
        _VOTES_SHARE, _REPLAYS_SHARE, (k, n, s, m, a, np.zeros_like(a), _single(k, n, s, m, a)), None, proven=False
    )


def few_flips_about(*counts: ArrayLike) -> Any:
    """Likewise for `few_flips_lower`."""
    k, n, s, m, a = _checked(*counts)
    return _bounds(1.0, 0.0, (k, n, s, m, a, np.zeros_like(a), _single(k, n, s, m, a)), None, proven=False)


def _checked(
    top_votes: ArrayLike, samples: ArrayLike, kept: ArrayLike, replayed: ArrayLike, alpha: ArrayLike
) -> list[Floats]:
    k, n, a = checked_counts(top_votes, samples, alpha)
    s, m = checked_replays(kept, replayed, alpha)
    return list(np.broadcast_arrays(k, n, s, m, a))


def _single(k: Floats, n: Floats, s: Floats, m: Floats, a: Floats) -> Floats:
    """The bound from one count alone, which is not exceeded: r = 1 or p = 1 is allowed."""
    return np.asarray(np.minimum(lower_of_checked(k, n, a), lower_of_checked(s, np.maximum(m, 1.0), a)))


def _bounds(
    of_votes: float, of_replays: float, columns: tuple[Floats, ...], groups: ArrayLike | None, *, proven: bool = True
) -> Any:
    """Bounds for the ordering with these shares of alpha; with no share for the replays, the one that punishes flips.

    The last two columns are what the bound is at least, and at most.
    """
    at_least, single = columns[-2:]
    about = np.where(at_least > 0, at_least, single)
    search = partial(_searched, of_votes, of_replays, proven)
    return least_of_groups(search, columns, groups, about=about, at_least=at_least, trials=1, alpha=4)


def _searched(
    of_votes: float, of_replays: float, proven: bool,
    rows: Floats, at_least: Floats, begins: Integers, found: Floats,
) -> None:  # fmt: skip
    """Lower what was found for each group of rows to the least of their bounds; in threads, that run compiled code alone."""
    n, m, alpha = rows[:, 1].astype(int), np.maximum(rows[:, 3], 1).astype(int), rows[:, 4]
    votes = list(zip(n.tolist(), (of_votes * alpha).tolist(), strict=True))
    replays = list(zip(m.tolist(), (of_replays * alpha).tolist(), strict=True))
    votes_tables, at_votes = joined_tables(votes, _lower_table)
    table = _lower_table if of_replays else lambda m, _: _flip_table(m)
    replays_tables, at_replays = joined_tables(replays, table)
    tables = Tables(votes_tables, replays_tables, np.stack([*at_votes, *at_replays], axis=1))
    corners = np.empty((len(rows), 2), dtype=np.int64)
    in_threads(lambda first, last: find_corners(rows, tables, corners, first, last), len(rows), at_once=64)
    # What the set of outcomes gives at r = 1, where S = m, and at p = 1, where K = n.
    ceilings = special.betaincinv(corners, np.stack([n, m], axis=1) + 1 - corners, alpha[:, None]).min(axis=1)
    bits, asked = np.array([grid_bits(each) for each in m.tolist()]), Asked(of_replays > 0, proven)
    in_threads(
        lambda first, last: lower_to_least(rows, tables, bits, ceilings, asked, at_least, begins, found, first, last),
        len(found),
        at_once=8,
    )


@lru_cache(maxsize=256)
def _flip_table(replayed: int) -> Floats:
    """exp(-4 flips / replayed) for 0, ..., replayed votes that are kept; none kept ranks below all."""
    table = np.exp(-_PUNISHMENT * np.arange(replayed, -1, -1) / replayed)
    table[0] = 0.0
    return table


@lru_cache(maxsize=512)
def _lower_table(trials: int, alpha: float) -> Floats:
    """CPLower(k, trials, alpha) for k = 0, ..., trials within 1e-11 relative: good enough to order outcomes."""
    low_half = trials // 2
    from_bottom = _by_distance(lambda d: special.betaincinv(d, trials + 1 - d, alpha), low_half)
    from_top = _by_distance(lambda d: special.betaincinv(trials + 1 - d, d, alpha), trials - low_half)
    return np.concatenate((np.zeros(1), from_bottom, from_top[::-1]))


def _by_distance(exact: Callable[[Floats], Any], length: int) -> Floats:
    """exact(1), ..., exact(length) for a function that is smooth on the scale of its argument."""
    pieces = [exact(np.arange(1.0, min(length, _DIRECT) + 1))]
    start = _DIRECT
    while start < length:
        stop = min(2 * start, length)
        center, half_width = (start + stop) / 2, (stop - start) / 2
        coefficients = _FIT @ exact(center + half_width * _NODES)
        pieces.append(chebyshev.chebval((np.arange(start + 1, stop + 1) - center) / half_width, coefficients))
        start = stop
    return np.concatenate(pieces)
