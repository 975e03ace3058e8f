"""Bounds on vote probabilities to certified radii (Cohen et al., 2019, Theorem 1). Pure; every radius is rounded down."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

# Relative error that we allow scipy's normal quantile (measured against 50 digits: below 1e-15) and two roundings.
MARGIN = 1e-14


def one_sided_radius(top_lower: ArrayLike, sigma: float) -> Any:
    """l2 radius sigma * Phi^-1(top_lower); 0 where top_lower is not above 1/2.

    >>> round(one_sided_radius(0.99, 0.5), 4)
    1.1632
    >>> one_sided_radius(0.5, 0.5)
    0.0
    """
    p = np.asarray(top_lower, dtype=float)
    certified = p > 0.5
    z = ndtri(np.where(certified, p, 0.5)) * (1 - MARGIN)
    return _number(np.where(certified, sigma * z, 0.0))


def two_sided_radius(top_lower: ArrayLike, runner_up_upper: ArrayLike, sigma: float) -> Any:
    """l2 radius sigma/2 * (Phi^-1(top_lower) - Phi^-1(runner_up_upper)); 0 where the first is not above the second.

    >>> round(two_sided_radius(0.4, 0.3, 1.0), 4)
    0.1355
    """
    p, q = np.broadcast_arrays(np.asarray(top_lower, dtype=float), np.asarray(runner_up_upper, dtype=float))
    certified = p > q
    top, rival = ndtri(np.where(certified, p, 0.5)), ndtri(np.where(certified, q, 0.5))
    gap = (top - np.abs(top) * MARGIN) - (rival + np.abs(rival) * MARGIN)
    return _number(np.where(certified, np.maximum(sigma / 2 * gap * (1 - MARGIN), 0.0), 0.0))


def _number(values: NDArray[np.float64]) -> Any:
    return float(values) if values.ndim == 0 else values
