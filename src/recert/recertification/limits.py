"""Where the number of samples limits a radius, whatever the method."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

EXPECTED_AGAINST = 0.5
"""Votes against the class, fewer than which an input is expected to show none."""


def limited_by_samples(top_votes: ArrayLike, samples: int, passes: ArrayLike) -> NDArray[np.bool_]:
    """Inputs on which so few of the original's votes are against the class that none is expected among `passes` votes.

    There m votes that all agree show what they can, alpha^(1/m), and so do m replays: only more of them enlarge the radius.

    >>> limited_by_samples([10_000, 9_990, 9_000], 10_000, 400).tolist()
    [True, True, False]
    """
    against = (samples - np.asarray(top_votes, dtype=float)) / samples
    return np.asarray(against * np.asarray(passes, dtype=float) < EXPECTED_AGAINST)
