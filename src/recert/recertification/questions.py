"""Questions about the modified model that replays answer, for all methods that replay cached noises."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert.votes import Votes, first_places, merged

Ints = NDArray[np.int64]
Samples = NDArray[np.uint32]
"""Sample indices; half the memory of int64, since many inputs have them for every rival at once."""


@dataclass(frozen=True)
class Question:
    """A lower bound that is wanted: on P(f^p votes for the class), or, turned round, on P(f^p does not vote for a rival).

    f's cached votes divide the noises in two kinds: the event holds there, or it does not. Some of each kind are replayed.
    Rivals that f never voted for have the same noises of both kinds, so they share a question.
    """

    rivals: tuple[int, ...] | None
    """None if it is about the class."""
    votes: int
    """Cached votes for the event."""
    event: Samples
    """Noises to replay on which the event holds, by their sample indices."""
    other: Samples
    """Noises to replay on which it does not."""

    def changes(self, top: int, of_event: Votes, of_other: Votes) -> list[tuple[int, int]]:
        """Replays that lost the event, and that gained it; for rivals that share a question every pair that occurs, in order.

        A vote for nobody is lost by the class, and is a vote for no rival.
        """
        if self.rivals is None:
            return [(int(np.count_nonzero(of_event != top)), int(np.count_nonzero(of_other == top)))]
        if not self.rivals:
            return [(0, 0)]
        gained = int(np.count_nonzero(of_other != self.rivals[0]))
        if len(self.rivals) == 1:
            return [(int(np.count_nonzero(of_event == self.rivals[0])), gained)]
        taken_up = np.bincount(of_event, minlength=max(self.rivals) + 1)[list(self.rivals)]
        return [(int(lost), gained) for lost in np.unique(taken_up)]


def seen_and_unseen_rivals(top: int, selection: Ints, cached: Ints) -> tuple[list[int], tuple[int, ...]]:
    """Rivals that have any vote of f, of which each has noises of its own, and all others, which share theirs."""
    seen = (selection > 0) | (cached > 0)
    seen[top] = True
    unseen = tuple(int(b) for b in np.flatnonzero(~seen))
    seen[top] = False
    return [int(b) for b in np.flatnonzero(seen)], unseen


def first_of_both(event: NDArray[np.bool_], of_event: int, of_other: int) -> tuple[Samples, Samples]:
    """The first noises on which an event holds, and the first on which it does not; all of a kind if there are fewer."""
    looked = 2 * (of_event + of_other)  # mostly enough, and far less than all of them
    event_places, other_places = first_places(event, of_event, looked), first_places(~event, of_other, looked)
    return event_places.astype(np.uint32), other_places.astype(np.uint32)


def all_noises(questions: tuple[Question, ...]) -> Ints:
    """The union of the noises of all questions, which is drawn once."""
    return merged([part for question in questions for part in (question.event, question.other)])
