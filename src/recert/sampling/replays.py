"""Votes that are drawn a second time, to see that the model is still what it was, and looks at one row at a time."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from recert.sampling.rounding import is_more_than_rounding
from recert.sampling.work import VoteChunk, Work
from recert.votes import Votes

MOST, FIRST, OF_A_PIECE = 512, 64, 4
"""Votes in all at most; all of the very first; and so many of one piece of a batch."""
MOST_PIECES = (MOST - FIRST) // OF_A_PIECE
ONE_IN = 100
"""Of the votes of a function, which may cost money each: so few are asked for a second time."""
FEWEST, FEWEST_APART = 4, 8
"""But so many of the first, every eighth: three others among four votes are more than rounding explains."""


@dataclass(frozen=True)
class Look:
    """Votes that are to be drawn a second time."""

    kept: Sequence[tuple[Work, Votes]]

    @property
    def works(self) -> list[Work]:
        return [work for work, _ in self.kept]

    @property
    def count(self) -> int:
        return sum(len(votes) for _, votes in self.kept)

    def not_confirmed_by(self, again: Votes, *, same_numerics: bool) -> int | None:
        """How many votes are others in `again`, if that is more than rounding explains; else None."""
        wrong = int((again != np.concatenate([votes for _, votes in self.kept])).sum())
        return wrong if is_more_than_rounding(wrong, len(again), same_numerics=same_numerics) else None


class SomeVotes:
    """The very first votes, and the last of some pieces of batches, chosen evenly among all that were drawn so far.

    So a change is found that touches some batches only, early or late, and one that came and went.
    """

    def __init__(self) -> None:
        self._first: list[tuple[Work, Votes]] = []
        self._pieces: list[tuple[Work, Votes]] = []
        self._count = self._seen = 0
        self._choose = random.Random(0)  # the same pieces each time, so that a run that is repeated ends alike

    def remember(self, chunk: VoteChunk) -> None:
        """Keep votes of a chunk, which is one piece of a batch, in place of others if there are enough of them."""
        if self._count < FIRST:
            self._first.append(_kept(chunk, 0, min(FIRST - self._count, len(chunk.votes))))
            self._count += len(self._first[-1][1])
            return
        # Each piece so far is kept with the same probability.
        i, self._seen = self._choose.randrange(self._seen + 1), self._seen + 1
        if self._seen <= MOST_PIECES:
            i = len(self._pieces)
        if i < MOST_PIECES:
            self._pieces[i : i + 1] = [_kept(chunk, max(0, len(chunk.votes) - OF_A_PIECE), len(chunk.votes))]

    @property
    def full(self) -> bool:
        return self._count >= FIRST and len(self._pieces) == MOST_PIECES

    def look(self) -> Look:
        """What is kept now, the last first: each vote comes to another place of its batch, beside other rows."""
        return Look([*self._first, *self._pieces][::-1])


def _kept(chunk: VoteChunk, start: int, end: int) -> tuple[Work, Votes]:
    work = replace(chunk.work, samples=chunk.work.samples[chunk.start + start : chunk.start + end])
    return work, chunk.votes[start:end].copy()


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
