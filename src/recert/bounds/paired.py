"""Lower bounds from replays that count what f^p loses and what it gains: Fisher's combination of exact p-values."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from recert.bounds._batches import checked_replays, grid_bits, map_distinct
from recert.bounds._paired_search import Region, Votes, largest_loss
from recert.bounds.arguments import checked_counts
from recert.bounds.binomial import upper_of_checked

_ROOM = 1e-12


def paired_lower(
    top_votes: ArrayLike,
    samples: ArrayLike,
    lost: ArrayLike,
    replayed_top: ArrayLike,
    gained: ArrayLike,
    replayed_other: ArrayLike,
    alpha: ArrayLike,
) -> Any:
    """Lower bound on P(f^p votes for the class) from f's votes and replays of both kinds of noise.

    Of `replayed_top` noises on which f voted for the class f^p lost `lost`; of `replayed_other` on which f did not
    f^p gained `gained`. With probability 1 - alpha the bound is not above P(f^p votes for the class). Both numbers of
    replays may depend on `top_votes`, not on which other class was voted for. The minimum over Fisher's region is
    bracketed, and the lower end is returned, at most 2e-6 below it. Arguments broadcast.

    >>> round(paired_lower(80_000, 100_000, 25, 4_000, 25, 1_000, 0.002), 5)
    0.7936
    """
    return _bound((top_votes, samples), (lost, replayed_top), (gained, replayed_other), alpha, terms=3)


def paired_losses_lower(
    top_votes: ArrayLike, samples: ArrayLike, lost: ArrayLike, replayed_top: ArrayLike, alpha: ArrayLike
) -> Any:
    """Lower bound on P(f and f^p vote for the class): `paired_lower` for when gains are not counted.

    With probability 1 - alpha it is not above that probability, so not above P(f^p votes for the class) either.
    Whether gains are counted must be decided before the estimation votes are seen.

    >>> round(paired_losses_lower(80_000, 100_000, 25, 4_000, 0.002), 5)
    0.78959
    """
    return _bound((top_votes, samples), (lost, replayed_top), (0, 0), alpha, terms=2)


def _bound(
    votes: tuple[ArrayLike, ArrayLike],
    losses: tuple[ArrayLike, ArrayLike],
    gains: tuple[ArrayLike, ArrayLike],
    alpha: ArrayLike,
    *,
    terms: int,
) -> Any:
    k, n, a = checked_counts(*votes, alpha)
    lost, m1 = checked_replays(*losses, alpha)
    gained, m0 = checked_replays(*gains, alpha)
    k, n, lost, m1, gained, m0, a = np.broadcast_arrays(k, n, lost, m1, gained, m0, a)
    # Minus the log of an exact p-value is at most a standard exponential variable, and their sum at most a Gamma one.
    # No replays of the other kind leave a term of 0, which a Gamma variable of the same number of terms covers.
    budget = special.gammainccinv(terms, a) * (1 + 1e-12)
    columns = [budget]
    for against, trials in ((n - k, n), (lost, m1), (m0 - gained, m0)):
        # Where one term alone exceeds the budget; without trials no probability is excluded.
        most = upper_of_checked(np.minimum(against, trials), np.maximum(trials, 1.0), np.exp(-budget) * (1 - 1e-9))
        # Room below 1 keeps the costs finite, and gives away what it takes.
        most = np.where(against == trials, 1.0, np.minimum(most, 1 - _ROOM))
        columns += [against, trials, most]
    bound = map_distinct(_search, *columns)
    return float(bound) if bound.ndim == 0 else bound


def _search(budget: float, *of_votes: float) -> float:
    x, y, z = (Votes(int(of_votes[i]), int(of_votes[i + 1]), float(of_votes[i + 2])) for i in (0, 3, 6))
    if y.j == y.m:  # nothing was kept, or nothing replayed: everything may be lost
        return 0.0
    steps = 2.0 ** grid_bits(y.m)
    try:
        loss = float(largest_loss(Region(float(budget), x, y, z), 0.25 / steps)) + 4 * _ROOM
    except ZeroDivisionError:  # a tail below the smallest double, as with a single vote at alpha = 1e-12: claim nothing
        return 0.0
    return max(0.0, math.floor((1.0 - loss) * steps) / steps)
