"""Votes as arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import recert
from recert import VoteChunk, VoteSource, Work

Votes = NDArray[np.unsignedinteger[Any]]
ProgressCallback = Callable[[recert.Progress], None]


def draw_whole(
    source: VoteSource, works: Sequence[Work], task: str, progress: ProgressCallback | None
) -> list[VoteChunk]:
    """One chunk for each work, in order: those that split a work are put together."""
    parts: dict[int, list[VoteChunk]] = {id(work): [] for work in works}
    for chunk in source.draw(works, task, progress):
        parts[id(chunk.work)].append(chunk)
    return [
        VoteChunk(work, 0, np.concatenate([part.votes for part in found]), sum(part.seconds for part in found))
        for work, found in zip(works, parts.values(), strict=True)
    ]


def votes_per_class(votes: Votes, classes: int) -> NDArray[np.int64]:
    """Votes for every class, inputs x classes, from votes as inputs x samples. Invalid votes count for none.

    >>> votes_per_class(np.array([[1, 1, 0, 255]], dtype=np.uint8), 3).tolist()
    [[1, 2, 0]]
    """
    return np.stack([np.bincount(row[row < classes], minlength=classes) for row in votes])
