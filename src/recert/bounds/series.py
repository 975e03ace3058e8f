"""Lower bound on P(f votes for the class) * P(f^p keeps it): two components in series (Buehler, 1957)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy import special

from recert.bounds._batches import checked_replays, grid_bits, map_distinct, map_least
from recert.bounds._series_search import Outcomes, about_largest, fewest_votes, is_covered, largest_covered
from recert.bounds.arguments import Floats, checked_counts
from recert.bounds.binomial import lower_of_checked

# The shares of alpha with which the two counts enter the ordering of outcomes. Any fixed shares are valid; replays are
# few and votes are many, so most of alpha goes where it costs least.
_VOTES_SHARE, _REPLAYS_SHARE = 0.9, 0.1
# How much a flip weighs against votes in the ordering that punishes flips.
_PUNISHMENT = 4.0
# Outcomes whose statistic is this close below the observed one count as equal to it: more than the tables' error.
_TIE = 1e-11
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
    ordering = _Ordering(of_votes, of_replays, proven)
    if groups is not None:
        at_least, single = columns[-2:]
        about = np.where(at_least > 0, at_least, single)
        return map_least(
            ordering.bound, ordering.reaches, columns, starts=np.asarray(groups), about=about, at_least=at_least
        )
    bound = map_distinct(ordering.bound, *columns)
    return float(bound) if bound.ndim == 0 else bound


@dataclass(frozen=True)
class _Ordering:
    """How outcomes are ordered: the shares of alpha with which the two counts enter; without one for the replays, flips are punished."""

    of_votes: float
    of_replays: float
    proven: bool = True
    """Whether bounds are proven, or only searched."""

    def bound(self, *row: float) -> float:
        k, n, s, m, _, at_least, single = row
        if k == n and s == m > 0:
            return (
                single  # P(K = n, S = m) = p^n r^m is largest at r = 1 or p = 1, so here the single bounds are attained
            )
        if k == 0 or s == 0:  # then the statistic is 0, and every outcome is at least as good
            return 0.0
        outcomes, observed, ceiling = self._outcomes(*row[:5])
        if not self.proven:
            return min(float(about_largest(outcomes, ceiling)), single)
        # Where the statistic is itself a bound, the search begins with it.
        found = float(largest_covered(outcomes, observed if self.of_replays else 0.0, ceiling))
        return min(max(found, at_least), single)

    def reaches(self, value: float, *row: float) -> bool:
        """Whether the bound is shown to be at least a value."""
        k, n, s, m, _, _, single = row
        if value > single or k == 0 or s == 0:
            return False
        if k == n and s == m > 0:
            return True
        outcomes, _, ceiling = self._outcomes(*row[:5])
        on_grid = math.ceil(value * 2.0**outcomes.bits) / 2.0**outcomes.bits
        return on_grid <= ceiling and bool(is_covered(outcomes, on_grid))

    def _outcomes(self, k: float, n: float, s: float, m: float, alpha: float) -> tuple[Outcomes, float, float]:
        """Those at least as good as the observed one, the statistic of that one, and what the bound is at most."""
        of_votes = _lower_table(int(n), self.of_votes * alpha)
        of_replays = _lower_table(int(m), self.of_replays * alpha) if self.of_replays else _flip_table(int(m))
        n, m = len(of_votes) - 1, len(of_replays) - 1
        observed = of_votes[int(k)] * of_replays[int(s)] * (1 - _TIE)
        fewest, first = fewest_votes(of_votes, of_replays, observed)
        # What the set of outcomes gives at r = 1, where S = m, and at p = 1, where K = n.
        at_one = special.betaincinv([fewest[-1], first], [n + 1 - fewest[-1], m + 1 - first], alpha)
        return Outcomes(fewest, int(first), n, m, math.log(alpha), grid_bits(m)), observed, float(at_one.min())


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
