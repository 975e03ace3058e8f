"""What series, joint and paired have in common: questions about cached noises, and one lower bound for each."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert.noise import Stream
from recert.planning import Selected
from recert.recertification.method import Bounds, Counts, Method, Noises, Terms
from recert.recertification.questions import Question, all_noises
from recert.votes import Votes

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64] | NDArray[np.float64]
"""Counts, or what is expected of them."""


@dataclass(frozen=True)
class EventCounts:
    """What is known about the events of many questions: cached votes, and replays of both kinds that changed."""

    votes: Numbers
    lost: Numbers
    replayed: Numbers
    gained: Numbers
    replayed_other: Numbers


@dataclass(frozen=True)
class ReplayMethod(Method):
    """Replays cached noises and bounds P(f^p votes for the class), and for two sides P(f^p votes for b) of every rival b.

    With two sides, alpha is spent half on the class and half on the rival that is most probable under f^p: that is one
    fixed class, and the largest of all upper bounds is at least its own (Theorem 2 in full).
    """

    @abstractmethod
    def questions(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> tuple[Question, ...] | None:
        """What is asked about one input, the class first; None if the cache has too few noises of a kind."""

    @abstractmethod
    def lower_bound(
        self, of: EventCounts, samples: int, alpha: float, groups: NDArray[np.int64] | None = None
    ) -> Floats:
        """Lower bounds on the events of many questions, from `recert.bounds`; with `groups`, the least of each."""

    def noises(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> Noises | None:
        questions = self.questions(selected, cached, passes, terms)
        if questions is None:
            return None
        return Noises(selected.top, Stream.ESTIMATION, all_noises(questions), questions[0].votes, questions)

    def count(self, noises: Noises, votes: Votes, terms: Terms) -> Counts:
        arguments: list[tuple[int, ...]] = []
        for question in noises.questions:
            # Both kinds are parts of all samples: none of them, all of them, or some to be looked up.
            of_event, of_other = (
                votes[np.searchsorted(noises.samples, part)] if 0 < len(part) < len(votes) else votes[: len(part)]
                for part in (question.event, question.other)
            )
            for lost, gained in self.to_bound(question.changes(noises.top, of_event, of_other)):
                arguments.append((question.votes, lost, len(of_event), gained, len(of_other)))
        top_votes, lost, about, gained, _ = arguments[0]
        return Counts(
            top_votes, terms.samples, replayed=len(noises.samples), kept=about - lost, lost=lost, gained=gained,
            arguments=tuple(arguments),
        )  # fmt: skip

    def to_bound(self, changes: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Which changes of a question must be bounded: all, unless the bound is known to fall as losses grow."""
        return changes

    def bound(self, counts: Sequence[Counts], terms: Terms) -> Bounds:
        # One call for all inputs and rivals: equal counts are bounded once, and threads share the rest. Of the rivals of an
        # input only the one with the least bound counts.
        of = EventCounts(*np.array([row for each in counts for row in each.arguments]).T)
        first = np.cumsum([0, *(len(each.arguments) for each in counts)])[:-1]
        if terms.sides == 1:
            return Bounds(self.lower_bound(of, terms.samples, terms.alpha, first))
        groups = np.stack([first, first + 1], axis=1).ravel()
        of_class, of_rivals = self.lower_bound(of, terms.samples, terms.alpha / 2, groups).reshape(-1, 2).T
        return Bounds(of_class, np.nextafter(1 - of_rivals, 2.0))
