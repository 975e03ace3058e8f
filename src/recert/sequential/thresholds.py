"""From a radius to what must be shown of an input: its class above one probability, and every other class below another."""

import numpy as np
from numpy.typing import NDArray

from recert.noise import Noise

Floats = NDArray[np.float64]

_STEPS = 64  # of bisection: more than a float64 has bits
_STEPS_OF_PAIRS = 32  # the pair that is found always gives the radius, and is as wide as the widest but for a billionth


def class_alone(noise: Noise, radius: float) -> float:
    """The smallest probability of the class that gives a radius without knowing more; ValueError if none does."""
    low, high = 0.5, float(np.nextafter(1.0, 0.0))
    if not noise.radius(high) >= radius:
        raise ValueError(
            f"expected radii that noise of {noise.spec} can show, at most {float(noise.radius(high)):.3g}, got {radius:g}; "
            "ask for a smaller radius, or use more noise"
        )
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if noise.radius(middle) >= radius else (middle, high)
    return high


def widest_pair(
    noise: Noise, radii: Floats, top: Floats, rival: Floats, units: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats]:
    """Of all pairs of probabilities that give the radius, the one equally far from two shares, in `units` of each: how far that is,
    and the pair. Inputs x radii. It is negative where the shares themselves do not give the radius.

    >>> from recert.noise import Gaussian
    >>> gap, top, rival = widest_pair(Gaussian(1.0), np.array([0.2]), np.array([0.6]), np.array([0.2]), (np.ones(1), np.ones(1)))
    >>> [round(float(value[0, 0]), 3) for value in (gap, top, rival)]
    [0.123, 0.477, 0.323]
    """
    # One number for each input, or one for each of its radii.
    p, q, unit_p, unit_q = (column.reshape(len(column), -1) for column in (top, rival, *units))
    shape = (len(top), len(radii))

    def pair(gap: Floats) -> tuple[Floats, Floats]:
        high = np.clip(p - gap * unit_p, 0.0, 1 - 2.0**-40)
        return high, np.clip(np.minimum(q + gap * unit_q, 1 - high), 2.0**-40, 1.0)

    # `near` gives the radius, if anything does; `far` does not, since the class would have nothing.
    near = np.broadcast_to(-1 / np.minimum(unit_p, unit_q), shape).copy()
    far = np.broadcast_to(p / unit_p, shape).copy()
    for _ in range(_STEPS_OF_PAIRS):
        middle = (near + far) / 2
        reaches = noise.radius(*pair(middle)) >= radii
        near, far = np.where(reaches, middle, near), np.where(reaches, far, middle)
    high, low = pair(near)
    return np.where(noise.radius(high, low) >= radii, near, -np.inf), high, low


def left_by(probability: Floats) -> Floats:
    """What a probability leaves, rounded up."""
    return np.nextafter(1 - probability, 2.0)
