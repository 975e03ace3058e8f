"""Approximate binomial intervals, for the paper's figures. Their coverage is not guaranteed: no certificate uses them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from recert.bounds.arguments import Floats, checked_counts


def wilson_lower(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Any:
    """Wilson's score bound from below (1927)."""
    center, half_width = _wilson(*checked_counts(successes, trials, alpha))
    return np.maximum(center - half_width, 0.0)[()]


def wilson_upper(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Any:
    """Wilson's score bound from above (1927).

    >>> round(float(wilson_upper(0, 100, 0.05)), 4)
    0.0263
    """
    center, half_width = _wilson(*checked_counts(successes, trials, alpha))
    return np.minimum(center + half_width, 1.0)[()]


def agresti_coull_lower(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Any:
    """Agresti and Coull's adjusted Wald bound from below (1998)."""
    center, half_width = _agresti_coull(*checked_counts(successes, trials, alpha))
    return np.maximum(center - half_width, 0.0)[()]


def agresti_coull_upper(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Any:
    """Agresti and Coull's adjusted Wald bound from above (1998)."""
    center, half_width = _agresti_coull(*checked_counts(successes, trials, alpha))
    return np.minimum(center + half_width, 1.0)[()]


def _wilson(k: Floats, n: Floats, alpha: Floats) -> tuple[Floats, Floats]:
    z = -ndtri(alpha)
    share = k / n
    half_width = z / (n + z**2) * np.sqrt(n * share * (1 - share) + z**2 / 4)
    return (k + z**2 / 2) / (n + z**2), half_width


def _agresti_coull(k: Floats, n: Floats, alpha: Floats) -> tuple[Floats, Floats]:
    z = -ndtri(alpha)
    center = (k + z**2 / 2) / (n + z**2)
    return center, z * np.sqrt(center * (1 - center) / (n + z**2))
