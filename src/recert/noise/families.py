"""Noise families: a distribution, its scale, and the norm its certificates are in."""

from dataclasses import dataclass

import numpy as np


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
        if not (isinstance(self.sigma, int | float) and 1e-30 <= self.sigma <= 1e30):  # float32 holds it, squares too
            raise ValueError(
                f"expected a finite noise scale sigma > 0, from 1e-30 to 1e30, got {self.sigma!r}; usual values are 0.25, 0.5, 1.0"
            )

    @property
    def spec(self) -> str:
        return f"gaussian:{self.sigma!r}"

    @property
    def scale(self) -> float:
        """The standard deviation of the noise that is really drawn: sigma as a float32, which radii are computed with too.

        >>> Gaussian(0.5).scale, Gaussian(0.12).scale < 0.12
        (0.5, True)
        """
        return float(np.float32(self.sigma))


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
