"""Questions about the modified model that replays answer, for all methods that replay cached noises.

A question is about a lower bound: on P(f^p votes for the class), or, turned round, on P(f^p does not vote for a rival). f's cached votes
divide the noises in two kinds: the question's event holds there, or it does not. The first noises of each kind are replayed.
Rivals that f never voted for have the same noises of both kinds, so they share a question.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert.planning import Selected
from recert.recertification._walk import SEEN, UNSEEN, answers, wanted_places
from recert.votes import SelectionCounts, Votes

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SelectedInputs:
    """Selection votes of some inputs, by class, and the classes that their claims are about. Numbers of replays follow from these."""

    votes: SelectionCounts
    tops: Ints

    def one(self, i: int) -> Selected:
        """One of the inputs."""
        return Selected(self.votes[i], int(self.tops[i]), int(self.votes[i].sum()))

    @property
    def totals(self) -> Ints:
        """How many of the votes of each input were for any class."""
        return np.asarray(self.votes.sum(axis=1))

    @property
    def top_votes(self) -> Ints:
        return np.asarray(self.votes[np.arange(len(self.tops)), self.tops])

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of votes that each class may be expected to have; never 0 or 1."""
        return np.asarray((self.votes + 0.5) / (self.totals[:, None] + 1.0))

    @property
    def top_shares(self) -> NDArray[np.float64]:
        return np.asarray((self.top_votes + 0.5) / (self.totals + 1.0))


@dataclass(frozen=True)
class Numbers:
    """How many noises of each kind are replayed for the question of each class, for some inputs: inputs x classes."""

    of_event: Ints
    of_other: Ints
    unseen: Ints
    """Of the noises, all of one kind, that rivals without any vote of f share; -1 where nothing is asked about them."""
    unseen_anyway: bool = False
    """Whether these are drawn even if there is no such rival."""

    @classmethod
    def of_class(cls, chosen: SelectedInputs, of_event: Ints, of_other: Ints | int = 0) -> "Numbers":
        """About the class alone."""
        rows = np.arange(len(chosen.tops))
        event, other = np.zeros_like(chosen.votes), np.zeros_like(chosen.votes)
        event[rows, chosen.tops], other[rows, chosen.tops] = of_event, of_other
        return cls(event, other, np.full(len(rows), -1))


@dataclass(frozen=True)
class Questions:
    """What is asked about one input: by class, how many noises of each kind are replayed."""

    top: int
    samples: int
    """All cached votes."""
    votes: Ints
    """Of these, votes for the event of each class: for the class itself, or for any other than the rival."""
    of_event: Ints
    of_other: Ints
    kinds: NDArray[np.int8]
    unseen: int

    def noises(self, cached: Votes, most: int, places: Ints) -> range | Ints:
        """The noises of all questions, which are drawn once. None is at `most` or after; `places` is memory for so many."""
        found = wanted_places(cached, self.top, self.of_event, self.of_other, self.unseen, most, places)
        return range(found) if not found or places[found - 1] == found - 1 else places[:found].copy()

    def answered(self, before: Votes, after: Votes, *, only_most: bool) -> Ints:
        """Counts for each bound, from the votes of both models on these noises: see `answers`."""
        return answers(
            before, after, self.top, self.of_event, self.of_other, self.unseen, self.votes, self.kinds, self.samples, only_most,
        )  # fmt: skip


def questions(
    chosen: SelectedInputs, counts: Ints, samples: int, numbers: Numbers, *, all_or_none: bool
) -> list[Questions | None]:
    """What is asked about each input, whose `samples` cached votes are counted by class.

    With `all_or_none` None for inputs that have too few noises of a kind: numbers of replays must not depend on the votes that claim.
    """
    rows, tops = np.arange(len(chosen.tops)), chosen.tops
    votes = samples - counts
    votes[rows, tops] = counts[rows, tops]
    seen = (chosen.votes > 0) | (counts > 0)
    kinds = np.where(seen, SEEN, UNSEEN).astype(np.int8) * (numbers.unseen >= 0)[:, None]
    kinds[rows, tops] = 0
    event = np.where(kinds == UNSEEN, numbers.unseen[:, None], numbers.of_event)
    other = np.where(kinds == UNSEEN, 0, numbers.of_other)
    unseen = np.where((kinds == UNSEEN).any(axis=1) | numbers.unseen_anyway, numbers.unseen, -1)
    enough = ((votes >= event) & (samples - votes >= other)).all(axis=1) & (unseen <= samples)
    possible = (enough | (not all_or_none)).tolist()
    return [
        Questions(top, samples, votes[i], event[i], other[i], kinds[i], only) if possible[i] else None
        for i, (top, only) in enumerate(zip(tops.tolist(), unseen.tolist(), strict=True))
    ]
