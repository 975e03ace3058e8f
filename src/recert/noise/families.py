"""Noise families: a distribution, its scale, and the norm its certificates are in."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise of standard deviation `sigma`, in units of the input as the model is given it.

    For images in [0, 1] sigma is in pixel units, and the model must normalise inside. Certificates are in the l2 norm.

    >>> Gaussian(0.5).spec
    'gaussian:0.5'
    """

    sigma: float

    norm = "l2"

    def __post_init__(self) -> None:
        if not (isinstance(self.sigma, int | float) and math.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(
                f"expected a finite noise scale sigma > 0, got {self.sigma!r}; usual values are 0.25, 0.5, 1.0"
            )

    @property
    def spec(self) -> str:
        return f"gaussian:{self.sigma!r}"


def parse_noise(spec: str) -> Gaussian:
    """Noise from its spec string, `gaussian:SIGMA`.

    >>> parse_noise("gaussian:0.25")
    Gaussian(sigma=0.25)
    """
    family, _, scale = spec.partition(":")
    try:
        if family == "gaussian":
            return Gaussian(float(scale))
    except ValueError as error:
        raise ValueError(f"expected a noise like 'gaussian:0.5', got {spec!r}: {error}") from None
    raise ValueError(f"expected a noise like 'gaussian:0.5', got {spec!r}; known families: gaussian")
