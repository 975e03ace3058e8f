"""Interpolating splines of tables. scipy.interpolate has them, too, but takes 24 MB and imports half of scipy."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def interpolation(known: Floats, wanted: Floats) -> Floats:
    """The matrix from values at increasing places to those of the spline through them, at places between.

    The spline is cubic and has no knots at the second place and at the last but one, as usual; through three places it is the
    parabola, through two the line.

    >>> cubes = interpolation(np.arange(6.0), np.array([0.5, 2.5])) @ np.arange(6.0) ** 3
    >>> cubes.round(9).tolist()
    [0.125, 15.625]
    """
    degree = min(3, len(known) - 1)
    inner = known[2:-2] if degree == 3 else known[:0]
    knots = np.concatenate([np.repeat(known[0], degree + 1), inner, np.repeat(known[-1], degree + 1)])
    through_known = _basis(knots, degree, known)
    return np.asarray(np.linalg.solve(through_known.T, _basis(knots, degree, wanted).T).T)


def _basis(knots: Floats, degree: int, places: Floats) -> Floats:
    """B-splines at some places, by the recursion of Cox and de Boor: places x splines."""
    # The last place is of the last interval that is not empty.
    first, last = degree, len(knots) - degree - 2
    interval = np.clip(np.searchsorted(knots, places, side="right") - 1, first, last)
    values = (interval[:, None] == np.arange(len(knots) - 1)).astype(float)
    for k in range(1, degree + 1):
        rising = _ratio(places[:, None] - knots[: -k - 1], knots[k:-1] - knots[: -k - 1])
        falling = _ratio(knots[k + 1 :] - places[:, None], knots[k + 1 :] - knots[1:-k])
        values = values[:, :-1] * rising + values[:, 1:] * falling
    return np.asarray(values)


def _ratio(one: Floats, other: Floats) -> Floats:
    """0 where the interval is empty."""
    return np.where(other > 0, one / np.where(other > 0, other, 1.0), 0.0)
