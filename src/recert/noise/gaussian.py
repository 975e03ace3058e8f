"""Gaussian noise, and radii in the l2 norm (Cohen et al., 2019, Theorem 1). Every radius is rounded down."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from recert.noise.family import Kernels
from recert.noise.quantiles import QuantileRadius, checked_scale
from recert.noise.rounded_normal import LARGEST_SPREAD, total_variation

Floats = NDArray[np.float64]

LARGEST_INPUT = 2**22
"""Elements of an input for which the slack of a grid is computed: radii do not depend on the shape of inputs."""
LARGEST_STEPS = 2**20
_FURTHEST = (
    2**21
)  # in steps: up to there the nearest float32 number to a grid point is within an eighth of a step, and holds it with noise exactly


@dataclass(frozen=True, repr=False)
class Gaussian(QuantileRadius):
    """Independent normal noise of standard deviation `sigma`, in units of the input as the model is given it.

    For images in [0, 1] sigma is in pixel units, and the model must normalise inside. Certificates are in the l2 norm.

    With a `grid`, such as 1/255, inputs must be multiples of it, as 8-bit images are, and so is input plus noise: whole numbers until
    the model is given them. Then certificates hold in floating point: see docs/theory.md for what they cover.

    >>> Gaussian(0.5).spec, Gaussian(0.5, grid=1 / 255).spec
    ('gaussian:0.5', 'gaussian:0.5:grid=1/255')
    """

    sigma: float
    grid: float | None = None

    norm = "l2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", checked_scale(self.sigma, "sigma"))
        if self.grid is None:
            return
        steps = _steps(self.grid)
        object.__setattr__(self, "grid", 1 / steps)
        object.__setattr__(self, "sigma", float(self.sigma))
        if self.scale * steps > LARGEST_SPREAD:
            raise ValueError(
                f"expected a sigma of at most {LARGEST_SPREAD} steps of the grid, got {self.sigma!r} with steps of 1/{steps}; "
                "use a coarser grid that the inputs lie on"
            )

    def __repr__(self) -> str:
        return (
            f"Gaussian(sigma={self.sigma!r})"
            if self.grid is None
            else f"Gaussian(sigma={self.sigma!r}, grid=1/{self.steps})"
        )

    @classmethod
    def parse(cls, text: str) -> "Gaussian":
        """From what stands after the colon of a spec: SIGMA, or SIGMA:grid=1/STEPS."""
        sigma, colon, rest = text.partition(":")
        if not colon:
            return cls(float(sigma))
        if not rest.startswith("grid=1/") or not rest[len("grid=1/") :].isdecimal():
            raise ValueError(f"expected SIGMA or SIGMA:grid=1/255, got {text!r}")
        steps = int(rest[len("grid=1/") :])
        return cls(float(sigma), grid=1 / steps if steps else 0.0)

    @property
    def spec(self) -> str:
        """`gaussian:SIGMA`, with sigma as it was given, or `gaussian:SIGMA:grid=1/STEPS`."""
        return f"gaussian:{self.sigma!r}" + ("" if self.grid is None else f":grid=1/{self.steps}")

    @property
    def steps(self) -> int:
        """Steps of the grid in one unit of the input; 0 without a grid."""
        return 0 if self.grid is None else round(1 / self.grid)

    @property
    def kernels(self) -> Kernels:
        """Who makes the noise."""
        if self.grid is None:
            return Kernels(
                "recert.noise.on_cpu:perturb", "recert.noise.on_torch:perturb", "recert.noise.on_cuda:perturb_into"
            )
        return Kernels(
            "recert.noise.on_cpu:perturb_on_grid",
            "recert.noise.on_torch:perturb_on_grid",
            "recert.noise.on_cuda:perturb_on_grid_into",
            (self.steps,),
        )

    @property
    def scale(self) -> float:
        """The standard deviation of the noise that is really drawn: sigma as a float32, which radii are computed with too.

        >>> Gaussian(0.5).scale, Gaussian(0.12).scale < 0.12
        (0.5, True)
        """
        return float(np.float32(self.sigma))

    @property
    def slack(self) -> float:
        """With a grid, the total variation between the noise of an input as it is drawn and the exact one; more than that, rounded up."""
        if self.grid is None:
            return 0.0
        return float(total_variation(self.scale, self.steps, LARGEST_INPUT)) * (1 + 2**-50) + 2**-52

    def check_inputs(self, inputs: NDArray[np.float32]) -> None:
        """ValueError unless all inputs lie on the grid, if there is one."""
        if self.grid is None:
            return
        if inputs[0].size > LARGEST_INPUT:
            raise ValueError(
                f"expected inputs of at most {LARGEST_INPUT} elements for noise on a grid, got {inputs[0].size}"
            )
        for i, each in enumerate(inputs):
            position = each.astype(np.float64) * self.steps
            nearest = np.rint(position)
            # A few units in the last place: libraries divide by 255 in different ways.
            wrong = np.abs(position - nearest) > np.minimum(0.125, 2**-21 * np.abs(nearest))
            wrong |= np.abs(nearest) > _FURTHEST - 1
            if wrong.any():
                raise ValueError(
                    f"expected inputs that are multiples of 1/{self.steps}, the grid of {self.spec}, within {_FURTHEST // self.steps}, got "
                    f"{each[wrong][0]!s} in input {i}; 8-bit images divided by 255 have the grid 1/255: choose the grid of your inputs, "
                    "or round them to it"
                )

    def radius(self, top_lower: ArrayLike, runner_up_upper: ArrayLike | None = None) -> Any:
        """l2 radius sigma/2 * (Phi^-1(top_lower) - Phi^-1(runner_up_upper)); 0 where the first is not above the second.

        Where the runner-up has all that the class leaves, that is sigma * Phi^-1(top_lower), as in Algorithm 1.

        >>> round(Gaussian(0.5).radius(0.99), 4), Gaussian(0.5).radius(0.5), round(Gaussian(1.0).radius(0.4, 0.3), 4)
        (1.1632, 0.0, 0.1355)
        """
        return super().radius(top_lower, runner_up_upper)

    def quantile(self, probability: Floats) -> Floats:
        """The normal quantile."""
        return np.asarray(ndtri(probability))


def _steps(grid: Any) -> int:
    """The whole number whose inverse the grid is."""
    number = isinstance(grid, int | float) and not isinstance(grid, bool)
    steps = round(1 / grid) if number and 1e-9 < grid <= 1 else 0
    if not 1 <= steps <= LARGEST_STEPS or abs(grid * steps - 1) > 1e-9:
        raise ValueError(f"expected a grid of 1/N with a whole N up to {LARGEST_STEPS}, such as 1/255, got {grid!r}")
    return steps
