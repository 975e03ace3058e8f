"""Votes that are drawn a second time, to see that the model is still what it was, and looks at one row at a time."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from recert.sampling.rounding import is_more_than_rounding
from recert.sampling.work import VoteChunk, Work
from recert.votes import Votes

MOST, FIRST, OF_A_PIECE = 512, 64, 4
"""Votes in all at most; all of the very first; and so many of one piece of a batch."""
ONE_IN = 100
"""Of the votes of a function, which may cost money each: so few are asked for a second time."""
FEWEST, FEWEST_APART = 4, 8
"""But so many of the first, every eighth: three others among four votes are more than rounding explains."""


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


class VotesAskedAgain:
    """Of a function one vote in a hundred, to be asked for a second time before votes are kept, beside other rows.

    A look repeats about a hundredth of what was drawn since the look before: half of that from the very beginning, so that a
    function that changed between two looks is found, too.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Work, Votes]] = []
        self._drawn = self._looked_at = 0
        self.asked = self.wrong = 0
        """Votes that were asked for again in all looks so far, and how many of them were others."""

    def remember(self, chunk: VoteChunk) -> None:
        """Keep the votes of a chunk that have their turn."""
        numbers = np.arange(self._drawn, self._drawn + len(chunk.votes))
        self._drawn += len(chunk.votes)
        early = (numbers < FEWEST * FEWEST_APART) & (numbers % FEWEST_APART == 0)
        late = (numbers >= FEWEST * ONE_IN) & (numbers % ONE_IN == 0)
        chosen = np.flatnonzero(early | late)
        for i in chosen.tolist():
            sample = chunk.work.samples[chunk.start + i : chunk.start + i + 1]
            self._kept.append((replace(chunk.work, samples=sample), chunk.votes[i : i + 1].copy()))

    def take(self) -> list[tuple[Work, Votes]]:
        """What is to be asked again now; nothing if nothing was drawn since the last look, or too little."""
        new, self._looked_at = len(self._kept) - self._looked_at, len(self._kept)
        count = min(new, MOST)
        old = self._kept[: count // 2]
        return [*old, *self._kept[len(self._kept) - (count - len(old)) :]][::-1]

    def are_confirmed_by(self, again: Votes, taken: Sequence[tuple[Work, Votes]]) -> bool:
        """Whether all looks so far, this one included, found no more other votes than rounding explains."""
        self.asked += len(again)
        self.wrong += int((again != np.concatenate([votes for _, votes in taken])).sum())
        return not is_more_than_rounding(self.wrong, self.asked, same_numerics=True)
