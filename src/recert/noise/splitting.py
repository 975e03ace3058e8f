"""Splitting noise, and radii in the l1 norm (Levine and Feizi, 2021). It is not added: elements are replaced."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert.noise.family import Kernels
from recert.noise.uniform import Uniform

FURTHEST = 200
"""In cells: so far from 0 whole numbers of 32 bits hold positions within them."""


@dataclass(frozen=True)
class Splitting(Uniform):
    """Each element becomes the middle of the cell that it lies in; cells are 2 half_width wide, and begin at a random place.

    What a network sees differs from the input as under uniform noise, and radii are the same; but given the cells it depends on the
    cell alone. So networks are surer, and the certificate holds in floating point too: see docs/theory.md.

    >>> Splitting(0.5).spec, round(Splitting(0.5).radius(0.99), 4)
    ('splitting:0.5', 0.49)
    """

    kernels = Kernels(
        "recert.noise.on_cpu:perturb_splitting",
        "recert.noise.on_torch:perturb_splitting",
        "recert.noise.on_cuda:perturb_splitting_into",
    )

    @property
    def spec(self) -> str:
        """`splitting:HALF_WIDTH`."""
        return f"splitting:{self.half_width!r}"

    def check_inputs(self, inputs: NDArray[np.float32]) -> None:
        """ValueError for inputs that are further from 0 than 200 cells."""
        largest = float(np.abs(inputs).max())
        if largest > FURTHEST * 2 * self.scale:
            raise ValueError(
                f"expected elements within {FURTHEST} cells of 0 for {self.spec}, got {largest:g}; scale the inputs, for example to [0, 1]"
            )
