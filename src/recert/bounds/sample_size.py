"""How many samples a claim needs."""

import math
from enum import StrEnum

from recert.bounds import approximate, binomial
from recert.bounds.arguments import check_alpha


class Interval(StrEnum):
    """Ways to bound a binomial proportion. Only Clopper-Pearson may back a certificate."""

    CLOPPER_PEARSON = "clopper-pearson"
    WILSON = "wilson"
    AGRESTI_COULL = "agresti-coull"


_BOUNDS = {
    Interval.CLOPPER_PEARSON: (binomial.clopper_pearson_lower, binomial.clopper_pearson_upper),
    Interval.WILSON: (approximate.wilson_lower, approximate.wilson_upper),
    Interval.AGRESTI_COULL: (approximate.agresti_coull_lower, approximate.agresti_coull_upper),
}


def smallest_samples_to_certify(alpha: float, *, sides: int = 1) -> int:
    """Fewest samples with which a unanimous vote certifies anything at all: alpha^(1/n) > 1/2.

    With fewer, every input abstains whatever the model says.

    >>> smallest_samples_to_certify(0.001)
    10
    """
    check_alpha(alpha)
    n = max(1, math.ceil(-math.log2(alpha / sides)))
    while binomial.clopper_pearson_lower(n, n, alpha / sides) <= 0.5:
        n += 1
    return n


def samples_for_width(
    probability: float, width: float, alpha: float, interval: Interval | str = Interval.CLOPPER_PEARSON
) -> int:
    """Samples after which the lower and the upper bound, each with error alpha, are at most `width` apart.

    Counted at the expected number of successes. This is the paper's figure of samples against p: it peaks
    at p = 1/2 and is smallest near 0 and 1.

    >>> round(samples_for_width(0.05, 0.005, 0.01), -2), round(samples_for_width(0.5, 0.005, 0.01), -2)
    (41500, 216900)
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"expected a probability in [0, 1], got {probability}")
    if not 0 < width < 1:
        raise ValueError(f"expected a width in (0, 1), got {width}")
    check_alpha(alpha)
    lower, upper = _BOUNDS[Interval(interval)]

    def wide(n: int) -> bool:
        k = round(probability * n)
        return bool(upper(k, n, alpha) - lower(k, n, alpha) > width)

    high = 1
    while wide(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high
