"""Gaussian noise, and radii in the l2 norm (Cohen et al., 2019, Theorem 1). Every radius is rounded down."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from recert.noise.family import Kernels

Floats = NDArray[np.float64]

# Relative error that we allow scipy's normal quantile (measured against 50 digits: below 1e-15) and two roundings.
MARGIN = 1e-14


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise of standard deviation `sigma`, in units of the input as the model is given it.

    For images in [0, 1] sigma is in pixel units, and the model must normalise inside. Certificates are in the l2 norm.

    >>> Gaussian(0.5).spec
    'gaussian:0.5'
    """

    sigma: float

    norm = "l2"
    kernels = Kernels(
        "recert.noise.on_cpu:perturb", "recert.noise.on_torch:perturb", "recert.noise.on_cuda:perturb_into"
    )

    def __post_init__(self) -> None:
        wrong = isinstance(self.sigma, bool) or not isinstance(self.sigma, int | float)
        if wrong or not 1e-30 <= self.sigma <= 1e30:  # float32 holds it, squares too
            raise ValueError(
                f"expected a finite noise scale sigma > 0, from 1e-30 to 1e30, got {self.sigma!r}; usual values are 0.25, 0.5, 1.0"
            )

        if type(self.sigma) not in (int, float):  # numpy's float64 is a float that writes itself in another way
            object.__setattr__(self, "sigma", float(self.sigma))

    @classmethod
    def parse(cls, text: str) -> "Gaussian":
        """From what stands after the colon of a spec."""
        return cls(float(text))

    @property
    def spec(self) -> str:
        """`gaussian:SIGMA`, with sigma as it was given."""
        return f"gaussian:{self.sigma!r}"

    @property
    def scale(self) -> float:
        """The standard deviation of the noise that is really drawn: sigma as a float32, which radii are computed with too.

        >>> Gaussian(0.5).scale, Gaussian(0.12).scale < 0.12
        (0.5, True)
        """
        return float(np.float32(self.sigma))

    def radius(self, top_lower: ArrayLike, runner_up_upper: ArrayLike | None = None) -> Any:
        """l2 radius sigma/2 * (Phi^-1(top_lower) - Phi^-1(runner_up_upper)); 0 where the first is not above the second.

        Where the runner-up has all that the class leaves, that is sigma * Phi^-1(top_lower), as in Algorithm 1.

        >>> round(Gaussian(0.5).radius(0.99), 4), Gaussian(0.5).radius(0.5), round(Gaussian(1.0).radius(0.4, 0.3), 4)
        (1.1632, 0.0, 0.1355)
        """
        p = np.asarray(top_lower, dtype=float)
        if runner_up_upper is None:
            return _number(self._from_class(p))
        p, q = np.broadcast_arrays(p, np.asarray(runner_up_upper, dtype=float))
        # Of two equal formulas the one with a single quantile loses less to rounding.
        return _number(np.where(q == 1 - p, self._from_class(p), self._from_both(p, q)))

    def _from_class(self, p: Floats) -> Floats:
        certified = p > 0.5
        z = ndtri(np.where(certified, p, 0.5)) * (1 - MARGIN)
        return np.where(certified, self.scale * z, 0.0)

    def _from_both(self, p: Floats, q: Floats) -> Floats:
        certified = p > q
        top, rival = ndtri(np.where(certified, p, 0.5)), ndtri(np.where(certified, q, 0.5))
        gap = (top - np.abs(top) * MARGIN) - (rival + np.abs(rival) * MARGIN)
        return np.where(certified, np.maximum(self.scale / 2 * gap * (1 - MARGIN), 0.0), 0.0)

    def plan_scale(self, probability: Floats) -> Floats:
        """The normal quantile: radii are straight lines on it."""
        return np.asarray(ndtri(probability))

    def planned_radius(self, top: Floats, not_runner_up: Floats) -> Floats:
        """sigma/2 times the sum of both, if that is positive."""
        return np.asarray(self.scale / 2 * np.maximum(top + not_runner_up, 0.0))


def _number(values: Floats) -> Any:
    return float(values) if values.ndim == 0 else values
