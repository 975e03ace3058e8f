"""The votes that choose. Everything that chooses takes these, and has no way to be given others."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recert.votes import SelectionCounts

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Selected:
    """Selection votes of one input, by class, and the class that its claim is about."""

    votes: Ints
    top: int
    total: int
    """How many of the votes were for any class."""

    def share(self, label: int) -> float:
        """The share of votes that a class may be expected to have; never 0 or 1."""
        return float((self.votes[label] + 0.5) / (self.total + 1.0))


@dataclass(frozen=True)
class Selection:
    """Selection votes of the original on all inputs: inputs x classes."""

    counts: SelectionCounts

    @cached_property
    def classes(self) -> Ints:
        """The class of each input: the original's most frequent."""
        return np.asarray(self.counts.argmax(axis=1))

    def of(self, row: int, top: int) -> Selected:
        """Of one input, whose claim is about the class `top`: mostly the input's own, see `classes`."""
        votes = self.counts[row]
        return Selected(votes, top, int(votes.sum()))
