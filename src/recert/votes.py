"""A vote: a class as a small unsigned integer, or nobody, the largest value of its type."""

from typing import Any, NewType

import numpy as np
from numpy.typing import NDArray

Votes = NDArray[np.unsignedinteger[Any]]
SelectionCounts = NewType("SelectionCounts", np.ndarray[Any, np.dtype[np.int64]])
"""Selection votes: inputs x classes. A type of its own, so that a function that chooses cannot be given estimation votes."""


def vote_dtype(classes: int) -> np.dtype[Any]:
    """Smallest unsigned integer that holds every class and, as its largest value, a vote for nobody.

    >>> vote_dtype(255), vote_dtype(256)
    (dtype('uint8'), dtype('uint16'))
    """
    return np.min_scalar_type(classes)


def nobody(dtype: np.dtype[Any]) -> int:
    """The reserved vote of a sample whose logits are not finite.

    >>> nobody(vote_dtype(10))
    255
    """
    return int(np.iinfo(dtype).max)


def count_votes(votes: Votes, classes: int) -> NDArray[np.int64]:
    """Votes per class; votes for nobody count for none.

    >>> count_votes(np.array([1, 1, 0, 255], dtype=np.uint8), 3).tolist()
    [1, 2, 0]
    """
    return np.bincount(votes[votes < classes], minlength=classes).astype(np.int64)
