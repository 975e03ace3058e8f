"""Votes that are drawn a second time, to see that the model is still what it was, and looks at one row at a time."""

from dataclasses import replace

import numpy as np

from recert.sampling.rounding import is_more_than_rounding
from recert.sampling.work import VoteChunk, Work
from recert.votes import Votes

MOST, FIRST, OF_A_PIECE = 512, 64, 4
"""Votes in all at most; all of the very first; and so many of one piece of a batch."""


class FirstVotes:
    """The very first votes, and some later ones: of many inputs, and at the ends of batches, which many rows came before."""

    def __init__(self) -> None:
        self._kept: list[tuple[Work, Votes]] = []
        self.count = 0

    def remember(self, chunk: VoteChunk) -> None:
        """Keep votes of a chunk if it is the first, in the middle of its work, where batches are full of one input, or its last."""
        end, length = chunk.start + len(chunk.votes), len(chunk.work.samples)
        if self.count < FIRST:
            self._keep(chunk, 0, min(FIRST - self.count, len(chunk.votes)))
        elif self.count < MOST and (chunk.start <= length // 2 < end or end == length):
            self._keep(chunk, max(0, len(chunk.votes) - min(OF_A_PIECE, MOST - self.count)), len(chunk.votes))

    def _keep(self, chunk: VoteChunk, start: int, end: int) -> None:
        work = replace(chunk.work, samples=chunk.work.samples[chunk.start + start : chunk.start + end])
        self._kept.append((work, chunk.votes[start:end].copy()))
        self.count += end - start

    @property
    def full(self) -> bool:
        """Whether no further vote will be kept."""
        return self.count >= MOST

    @property
    def works(self) -> list[Work]:
        """The same votes, the last first: each comes to another place of its batch, beside other rows."""
        return [work for work, _ in reversed(self._kept)]

    def not_confirmed_by(self, again: Votes, *, same_numerics: bool) -> int | None:
        """How many votes are others in `again`, if that is more than rounding explains; else None."""
        wrong = int((again != np.concatenate([votes for _, votes in reversed(self._kept)])).sum())
        return wrong if is_more_than_rounding(wrong, len(again), same_numerics=same_numerics) else None
