"""Lower bound on P(f^p votes for the class) from losses and gains, with one error for all counts (Buehler, 1957)."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recert.bounds._batches import checked_replays, grid_bits, map_distinct
from recert.bounds._joint_chance import Ordering, Outcomes, fewest_votes, reach, span, statistic
from recert.bounds._joint_search import Box, largest_covered
from recert.bounds.arguments import Floats, checked_counts
from recert.bounds.binomial import clopper_pearson_lower, clopper_pearson_upper
from recert.bounds.series import _lower_table

_BOX_SHARE = 0.02  # of alpha, for the rates of losses and gains to lie in the box that is searched
_TIE = 1e-11  # outcomes whose statistic is this close below the observed one count as equal: more than rounding
_TOLERANCE = 5e-5


def joint_lower(
    top_votes: ArrayLike,
    samples: ArrayLike,
    lost: ArrayLike,
    replayed_top: ArrayLike,
    gained: ArrayLike,
    replayed_other: ArrayLike,
    alpha: ArrayLike,
) -> Any:
    """Lower bound on P(f^p votes for the class) from f's votes and replays of both kinds of noise.

    >>> round(joint_lower(80_000, 100_000, 25, 4_000, 25, 1_000, 0.002), 4)
    0.7945
    """
    k, n, a = checked_counts(top_votes, samples, alpha)
    lost_, m1 = checked_replays(lost, replayed_top, alpha)
    gained_, m0 = checked_replays(gained, replayed_other, alpha)
    k, n, f, m1, g, m0, a = np.broadcast_arrays(k, n, lost_, m1, gained_, m0, a)
    columns = [k, n, f, m1, g, m0, a]
    for count, trials in ((f, m1), (g, m0)):
        some, error = np.maximum(trials, 1.0), a * (_BOX_SHARE / 4)
        columns.append(np.where(trials > 0, clopper_pearson_lower(count, some, error), 0.0))
        columns.append(np.where(trials > 0, clopper_pearson_upper(count, some, error), 0.0))
    bound = map_distinct(_search, *columns)
    return float(bound) if bound.ndim == 0 else bound


def _search(k: float, n: float, f: float, m1: float, g: float, m0: float, alpha: float, *edges: float) -> float:
    """The bound for one input; 0 where its outcome does not rank."""
    if m1 == 0:
        return 0.0
    ordering = _ordering(int(n), int(m1), int(m0), alpha)
    k, f, g = int(k), int(f), int(g)
    if k < ordering.first_k or f >= len(ordering.of_lost):
        return 0.0
    box, target = Box(*map(float, edges)), math.log(alpha * (1 - _BOX_SHARE))
    deviations = reach(target)
    f_from, f_to = span(box.x_low, int(m1), deviations)[0], span(box.x_high, int(m1), deviations)[1]
    g_from, g_to = span(box.y_low, int(m0), deviations)[0], span(box.y_high, int(m0), deviations)[1]
    observed = statistic(ordering, k, f, g)
    fewest = fewest_votes(ordering, observed - _TIE, f_from, f_to, g_from, g_to)
    outcomes = Outcomes(fewest, f_from, g_from, int(n), int(m1), int(m0), target)
    half_width = k / n * (1 - f / m1) + (1 - k / n) * (g / max(m0, 1)) - observed
    tolerance = max(1e-6, min(_TOLERANCE, 0.015 * half_width))
    return float(largest_covered(outcomes, box, observed, tolerance, 2.0 ** -grid_bits(m1)))


@lru_cache(maxsize=64)
def _ordering(n: int, m1: int, m0: int, alpha: float) -> Ordering:
    level = min(alpha, 0.4)  # so that half-widths are positive
    shares = np.arange(n + 1) / n
    of_votes = np.maximum.accumulate(_half_widths(n, level)[::-1])[::-1]
    of_lost = np.maximum.accumulate(_half_widths(m1, level)[::-1])
    ranking = np.arange(m1 + 1) / m1 + of_lost <= 0.5
    gained = np.maximum.accumulate(_lower_table(m0, level)) if m0 > 0 else np.zeros(1)
    of_gained = np.maximum(0.0, np.minimum(np.arange(m0 + 1) / max(m0, 1), 0.5) - gained)
    return Ordering(of_votes, of_lost[ranking], of_gained, int(np.argmax(shares >= of_votes)), m1)


def _half_widths(trials: int, level: float) -> Floats:
    """Of the one-sided Clopper-Pearson bounds: from below for the count, from above for the rest."""
    return np.maximum(0.0, np.arange(trials + 1) / trials - _lower_table(trials, level))
