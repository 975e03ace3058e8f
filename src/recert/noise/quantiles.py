"""Radii by the quantile function of the noise of one element. Every radius is rounded down.

The step is the same for Gaussian noise in the l2 norm (Cohen et al., 2019, Theorem 1) and, in the l1 norm, for every noise of
independent elements with a symmetric log-concave density, as uniform and Laplace noise: docs/theory.md has the proof.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Relative error that we allow a quantile (scipy's normal one, measured against 50 digits, is below 1e-15) and two roundings.
MARGIN = 1e-14


class QuantileRadius:
    """What families share whose certificates follow from `quantile`; a family has the other members of `Noise` itself."""

    @property
    def scale(self) -> float:
        """The scale of the noise that is really drawn."""
        raise NotImplementedError

    @property
    def slack(self) -> float:
        """How far the chance of any vote may be from its chance under the exact noise, because of how the noise is drawn."""
        return 0.0

    def quantile(self, probability: Floats) -> Floats:
        """The quantile function of the noise of one element at scale 1: increasing, 0 at 1/2, opposite for opposite tails."""
        raise NotImplementedError

    def radius(self, top_lower: ArrayLike, runner_up_upper: ArrayLike | None = None) -> Any:
        """The radius scale/2 * (quantile(top_lower) - quantile(runner_up_upper)); 0 where the first is not above the second.

        Where the runner-up has all that the class leaves, that is scale * quantile(top_lower).
        """
        p = np.asarray(top_lower, dtype=float)
        if runner_up_upper is None:
            return _number(self._from_class(self._surely_at_least(p)))
        p, q = np.broadcast_arrays(p, np.asarray(runner_up_upper, dtype=float))
        below = self._surely_at_least(p)
        # Of two equal formulas the one with a single quantile loses less to rounding.
        return _number(np.where(q == 1 - p, self._from_class(below), self._from_both(below, self._surely_at_most(q))))

    def _surely_at_least(self, p: Floats) -> Floats:
        return np.maximum(p - self.slack, 0.0) if self.slack else p

    def _surely_at_most(self, q: Floats) -> Floats:
        return np.minimum(q + self.slack, 1.0) if self.slack else q

    def _from_class(self, p: Floats) -> Floats:
        certified = p > 0.5
        z = self.quantile(np.where(certified, p, 0.5)) * (1 - MARGIN)
        return np.where(certified, self.scale * z, 0.0)

    def _from_both(self, p: Floats, q: Floats) -> Floats:
        certified = p > q
        top, rival = self.quantile(np.where(certified, p, 0.5)), self.quantile(np.where(certified, q, 0.5))
        with np.errstate(invalid="ignore"):
            gap = (top - np.abs(top) * MARGIN) - (rival + np.abs(rival) * MARGIN)
        # A class that is certain, or a rival that never comes: no end, where the noise has none.
        gap = np.where(np.isinf(top) | np.isinf(rival), np.inf, gap)
        return np.where(certified, np.maximum(self.scale / 2 * gap * (1 - MARGIN), 0.0), 0.0)

    def plan_scale(self, probability: Floats) -> Floats:
        """The quantile function: radii are straight lines on it."""
        return self.quantile(probability)

    def planned_radius(self, top: Floats, not_runner_up: Floats) -> Floats:
        """Half of the scale times the sum of both, if that is positive."""
        return np.asarray(self.scale / 2 * np.maximum(top + not_runner_up, 0.0))


def checked_scale(value: Any, name: str) -> float | int:
    """A scale that float32 holds, its square too, as a number of Python; else a ValueError."""
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    if wrong or not 1e-30 <= value <= 1e30:
        raise ValueError(
            f"expected a finite noise scale {name} > 0, from 1e-30 to 1e30, got {value!r}; usual values are 0.25, 0.5, 1.0"
        )
    # numpy's float64 is a float that writes itself in another way
    return value if type(value) in (int, float) else float(value)


def _number(values: Floats) -> Any:
    return float(values) if values.ndim == 0 else values
