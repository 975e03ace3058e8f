"""Uniform noise, and radii in the l1 norm (Yang et al., 2020; Levine and Feizi, 2021)."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recert.noise.family import Kernels
from recert.noise.quantiles import QuantileRadius, checked_scale

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Uniform(QuantileRadius):
    """Independent noise, uniform from -half_width to half_width, in units of the input.

    Certificates are in the l1 norm: half_width (top_lower - runner_up_upper), so never more than half_width.

    >>> Uniform(0.5).spec, round(Uniform(0.5).radius(0.99), 4), round(Uniform(1.0).radius(0.4, 0.3), 4)
    ('uniform:0.5', 0.49, 0.1)
    """

    half_width: float

    norm = "l1"
    kernels = Kernels(
        "recert.noise.on_cpu:perturb_uniform",
        "recert.noise.on_torch:perturb_uniform",
        "recert.noise.on_cuda:perturb_uniform_into",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", float(checked_scale(self.half_width, "half_width")))

    @classmethod
    def parse(cls, text: str) -> Self:
        """From what stands after the colon of a spec."""
        return cls(float(text))

    @property
    def spec(self) -> str:
        """`uniform:HALF_WIDTH`."""
        return f"uniform:{self.half_width!r}"

    @property
    def scale(self) -> float:
        """The half width as a float32 number: that of the noise that is really drawn, which radii are computed with too."""
        return float(np.float32(self.half_width))

    def quantile(self, probability: Floats) -> Floats:
        """The quantile function on [-1, 1]."""
        return 2 * np.asarray(probability, dtype=float) - 1
