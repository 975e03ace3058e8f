"""Whether images are in [0, 1], the unit that noise scales and published radii are in."""

import warnings

import numpy as np
from numpy.typing import NDArray

CHANNELS = (1, 3)
BEYOND = 0.01
"""Resizing may take images a little out of [0, 1]."""


class UnusualUnits(UserWarning):
    """Images are not in [0, 1]: the noise scale and all radii are in the units that they are in."""


def warn_of_units(inputs: NDArray[np.float32], what: str = "", *, stacklevel: int) -> None:
    """An UnusualUnits warning where there is something to say; `what` these inputs are stands before it."""
    if (remark := unusual_units(inputs)) is not None:
        warnings.warn(f"{what}{remark}", UnusualUnits, stacklevel=stacklevel + 1)


def unusual_units(inputs: NDArray[np.float32]) -> str | None:
    """What is unusual about the range of these inputs. Of features there is no usual range: tables are standardised.

    >>> unusual_units(np.full((2, 3, 8, 8), 200.0, np.float32))[:50]
    'inputs reach 200, as images in 0..255 do: divide t'
    >>> unusual_units(np.full((2, 30), 200.0, np.float32)) is None
    True
    """
    colours = inputs.ndim == 4 and (inputs.shape[1] in CHANNELS or inputs.shape[-1] in CHANNELS)
    # Without channels these may be series of features as well as grey images: only what looks like bytes is said to be.
    if not colours and inputs.ndim != 3:
        return None
    low, high = float(inputs.min()), float(inputs.max())
    if low >= 0 and 2 < high <= 255:
        return (
            f"inputs reach {high:g}, as images in 0..255 do: divide them by 255, so that the noise scale (sigma) and the radius are in "
            "units of the [0, 1] range. As they are, a scale of 0.5 is half of one grey level in 255"
        )
    if colours and (low < -BEYOND or high > 1 + BEYOND):
        return (
            f"images lie between {low:.3g} and {high:.3g}, not in [0, 1]: the noise scale (sigma) and the radius are then in units of "
            "these inputs, and compare with no published ones. Pass images in [0, 1], and normalise inside the network "
            "(recert.Normalize)"
        )
    return None
