"""Votes, in the words of `recert`: the only module that reaches for names that it does not export yet."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import recert
from recert.caching import CachingSource
from recert.noise import Stream, parse_noise
from recert.sampling import VoteChunk, VoteSource, Work, open_source

__all__ = [
    "CachingSource", "ProgressCallback", "Stream", "VoteChunk", "VoteSource", "Votes", "Work",
    "draw_votes", "draw_whole", "open_source", "parse_noise", "votes_per_class",
]  # fmt: skip

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


def draw_votes(source: VoteSource, cache: recert.Cache, **settings: Any) -> None:
    """Draw every vote that `recert.recertify` asks for with these settings, and bound nothing.

    Which votes these are depends on selection votes and on flips of pilot inputs, never on a bound.
    """
    if "draw_only" in inspect.signature(recert.recertify).parameters:
        settings["draw_only"] = True
        recert.recertify(source, None, cache, **settings)
        return
    from recert.recertification.background import Background, Entry
    from recert.recertification.methods import run, usual_objective
    from recert.recertification.task import Task

    class NoBounds(Background):
        def bound(self, entries: Iterable[Entry], bound: Callable[[list[Entry]], None]) -> None:
            for _ in entries:
                pass

    method = settings.pop("method")
    run(Task.of(source, cache, objective=usual_objective(method), background=NoBounds(), **settings), method)
