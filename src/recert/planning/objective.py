"""What a plan maximises: the sum of radii, or the number of inputs certified at a radius."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Objective:
    """`acr` (radius None) counts every bit of radius; `accuracy:R` counts inputs with a radius of at least R."""

    radius: float | None = None

    def value(self, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        return radii if self.radius is None else (radii >= self.radius).astype(float)

    @property
    def text(self) -> str:
        """As `parse_plan` reads it.

        >>> parse_plan("accuracy:.50").text
        'accuracy:0.5'
        """
        return "acr" if self.radius is None else f"accuracy:{self.radius!r}"


@dataclass(frozen=True)
class Reached(Objective):
    """`accuracy:R` where what is predicted is the chance of reaching R, rather than a radius."""

    def value(self, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        return radii


def parse_plan(text: str) -> Objective | None:
    """`acr` or `accuracy:R`; None for `uniform`, the same number of samples for every input.

    >>> parse_plan("accuracy:0.5")
    Objective(radius=0.5)
    """
    if text == "uniform":
        return None
    if text == "acr":
        return Objective()
    kind, _, radius = text.partition(":") if isinstance(text, str) else ("", "", "")
    try:
        if kind == "accuracy" and float(radius) >= 0:
            return Objective(float(radius))
    except ValueError:
        pass
    raise ValueError(f"expected a plan of acr, accuracy:RADIUS or uniform, got {text!r}")
