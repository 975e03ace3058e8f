"""Exact one-sided bounds on a binomial proportion (Clopper and Pearson, 1934), rounded outward."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from recert.bounds.arguments import checked_counts

Floats = NDArray[np.float64]


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Any:
    """Lower bound on the proportion: with probability 1 - alpha it is not above the truth.

    Arguments broadcast; scalars give a float. The value returned is never above the exact bound and at
    most a few units in the last place below what scipy gives for it.

    >>> round(clopper_pearson_lower(99_500, 100_000, 0.001), 6)
    0.994272
    >>> clopper_pearson_lower(0, 10, 0.05)
    0.0
    """
    return _float_or_array(lower_of_checked(*checked_counts(successes, trials, alpha)))


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Any:
    """Upper bound on the proportion: with probability 1 - alpha it is not below the truth.

    >>> round(clopper_pearson_upper(0, 1_000, 0.001), 6)
    0.006884
    """
    return _float_or_array(upper_of_checked(*checked_counts(successes, trials, alpha)))


def lower_of_checked(k: Floats, n: Floats, a: Floats) -> Floats:
    """`clopper_pearson_lower` for bounds that spend a small share of their own alpha, which has been checked."""
    with np.errstate(all="ignore"):  # the corners k = 0 and k = n are replaced below
        bound: Floats = np.asarray(special.betaincinv(k, n - k + 1, a), dtype=float)
        inner = (k > 0) & (k < n)
        # P(Bin(n, q) >= k) = I_q(k, n - k + 1) must not exceed alpha at the value we return.
        bound = _step_until(bound, -1.0, inner, lambda q: special.betainc(k, n - k + 1, q), a, n)
        everything = np.nextafter(np.exp(np.log(a) / n) * (1 - _exponent_margin(a, n)), 0.0)
    return np.clip(np.where(k == 0, 0.0, np.where(k == n, everything, bound)), 0.0, 1.0)


def upper_of_checked(k: Floats, n: Floats, a: Floats) -> Floats:
    """`clopper_pearson_upper` likewise."""
    with np.errstate(all="ignore"):
        bound: Floats = np.asarray(special.betainccinv(k + 1, n - k, a), dtype=float)
        inner = (k > 0) & (k < n)
        # P(Bin(n, q) <= k) = 1 - I_q(k + 1, n - k) must not exceed alpha at the value we return.
        bound = _step_until(bound, +1.0, inner, lambda q: special.betaincc(k + 1, n - k, q), a, n)
        nothing = np.nextafter(-np.expm1(np.log(a) / n) * (1 + _exponent_margin(a, n)), 1.0)
    return np.clip(np.where(k == n, 1.0, np.where(k == 0, nothing, bound)), 0.0, 1.0)


def two_sided_p_value(first: ArrayLike, second: ArrayLike) -> Any:
    """P-value of the exact two-sided test that two counts come from a fair coin.

    >>> round(two_sided_p_value(8, 2), 6)
    0.109375
    """
    low, high = np.minimum(first, second), np.maximum(first, second)
    tail = special.betainc(np.maximum(high, 1), low + 1.0, 0.5)  # P(Bin(low + high, 1/2) >= high)
    return _float_or_array(np.where(high == low, 1.0, np.minimum(1.0, 2 * tail)))


def tail_margin(trials: Floats) -> Floats:
    """Relative error that we allow scipy's incomplete beta function at this many trials.

    Compared with 50-digit sums, its error grows about like the root of the number of trials and stays
    a factor of ten below this margin up to 10^6 trials (tests/bounds/test_binomial.py).
    """
    return np.asarray(1e-13 * (1.0 + np.sqrt(trials)))


def _exponent_margin(alpha: Floats, trials: Floats) -> Floats:
    """Relative error that we allow exp(ln(alpha) / trials): its exponent is off by a few units in its own last place."""
    return np.asarray(4e-16 * (1.0 - np.log(alpha) / trials))


def _step_until(
    bound: Floats, direction: float, active: NDArray[np.bool_], tail: Any, alpha: Floats, n: Floats
) -> Floats:
    """Step the bound outward, in doubling units in the last place, until its tail is at most alpha."""
    limit = alpha / (1.0 + tail_margin(n))
    step = direction * np.spacing(np.clip(bound, np.finfo(float).tiny, 1.0))
    while True:
        wrong = active & (bound > 0) & (bound < 1) & (tail(bound) > limit)
        if not wrong.any():
            return bound
        bound = np.where(wrong, np.clip(bound + step, 0.0, 1.0), bound)
        step = step * 2


def _float_or_array(values: NDArray[Any]) -> Any:
    return float(values) if values.ndim == 0 else values
