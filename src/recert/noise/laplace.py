"""Laplace noise, and radii in the l1 norm (Lecuyer et al., 2019; Teng et al., 2020)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert.noise.family import Kernels
from recert.noise.quantiles import QuantileRadius, checked_scale

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Laplace(QuantileRadius):
    """Independent noise of density exp(-|z| / b) / 2b, in units of the input: its standard deviation is 1.41 b.

    Certificates are in the l1 norm: -b log(2 (1 - top_lower)) by the class alone.

    >>> Laplace(0.5).spec, round(Laplace(0.5).radius(0.99), 4), round(Laplace(1.0).radius(0.4, 0.3), 4)
    ('laplace:0.5', 1.956, 0.1438)
    """

    b: float

    norm = "l1"
    kernels = Kernels(
        "recert.noise.on_cpu:perturb_laplace",
        "recert.noise.on_torch:perturb_laplace",
        "recert.noise.on_cuda:perturb_laplace_into",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", float(checked_scale(self.b, "b")))

    @classmethod
    def parse(cls, text: str) -> "Laplace":
        """From what stands after the colon of a spec."""
        return cls(float(text))

    @property
    def spec(self) -> str:
        """`laplace:B`."""
        return f"laplace:{self.b!r}"

    @property
    def scale(self) -> float:
        """b as a float32 number: that of the noise that is really drawn, which radii are computed with too."""
        return float(np.float32(self.b))

    def quantile(self, probability: Floats) -> Floats:
        """The quantile function at b = 1: log(2p) up to one half, -log(2 (1 - p)) above."""
        p = np.asarray(probability, dtype=float)
        with np.errstate(divide="ignore"):  # of 0 and 1: infinite
            # Both 2p and, above one half, 2 (1 - p) are exact.
            return np.asarray(np.where(p < 0.5, np.log(2 * np.minimum(p, 0.5)), -np.log(2 * (1 - np.maximum(p, 0.5)))))
