"""What series, joint and paired have in common: questions about cached noises, and one lower bound for each."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recert.noise import Stream
from recert.planning import Selected
from recert.recertification.method import Bounds, Counts, Inputs, Method, Noises, Terms
from recert.recertification.questions import Numbers, Questions, SelectedInputs, questions
from recert.votes import SelectionCounts, Votes, count_votes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Many = NDArray[np.int64] | NDArray[np.float64]
"""Counts, or what is expected of them."""


@dataclass(frozen=True)
class EventCounts:
    """What is known about the events of many questions: cached votes, and replays of both kinds that changed."""

    votes: Many
    lost: Many
    replayed: Many
    gained: Many
    replayed_other: Many


_FLIPS = [place for place, each in enumerate(fields(EventCounts)) if each.name in ("lost", "gained")]
"""Where counts of flips stand among the arguments of a question."""


@dataclass(frozen=True)
class ReplayMethod(Method):
    """Replays cached noises and bounds P(f^p votes for the class), and for two sides P(f^p votes for b) of every rival b.

    With two sides, alpha is spent half on the class and half on the rival that is most probable under f^p: that is one
    fixed class, and the largest of all upper bounds is at least its own (Theorem 2 in full).
    """

    only_most_losses: ClassVar[bool] = False
    """Whether, of rivals that share a question, only the most losses are bounded: where the bound falls as losses grow."""
    all_or_none: ClassVar[bool] = True
    """Whether an input with fewer noises of a kind than wanted gets no claim; otherwise all that it has are replayed."""

    @abstractmethod
    def numbers(self, chosen: SelectedInputs, passes: Ints, terms: Terms) -> Numbers:
        """How many noises of each kind are replayed for some inputs, with so many passes each."""

    @abstractmethod
    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        """Lower bounds on the events of many questions, from `recert.bounds`."""

    def least_lower_bound(self, of: EventCounts, samples: int, alpha: float, groups: Ints) -> Floats:
        """The least bound of each group of questions; groups are those from one of `groups` to the next."""
        return np.asarray(np.minimum.reduceat(np.atleast_1d(self.lower_bound(of, samples, alpha)), groups))

    def most_places(self, passes: int, samples: int, terms: Terms) -> int:
        """How far noises are looked for among the cached ones."""
        return samples

    def noises(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> Noises | None:
        chosen = SelectedInputs(SelectionCounts(selected.votes[None]), np.array([selected.top]))
        counts = count_votes(cached, terms.classes)[None]
        return self.noises_of(Inputs(chosen, np.array([passes]), [cached], counts), terms)[0]

    def noises_of(self, inputs: Inputs, terms: Terms) -> list[Noises | None]:
        numbers = self.numbers(inputs.chosen, inputs.passes, terms)
        samples = len(inputs.cached[0])
        asked = questions(inputs.chosen, inputs.counts, samples, numbers, all_or_none=self.all_or_none)
        places = np.empty(samples, dtype=np.int64)
        return [
            None if about is None else _noises(about, cached, self.most_places(passes, samples, terms), places)
            for about, cached, passes in zip(asked, inputs.cached, inputs.passes.tolist(), strict=True)
        ]

    def count(self, noises: Noises, votes: Votes, terms: Terms) -> Counts:
        assert noises.questions is not None
        assert noises.before is not None
        arguments = noises.questions.answered(noises.before, votes, only_most=self.only_most_losses)
        top_votes, lost, about, gained, _ = arguments[0].tolist()
        return Counts(
            top_votes,
            terms.samples,
            replayed=len(votes),
            kept=about - lost,
            lost=lost,
            gained=gained,
            arguments=arguments,
        )

    def without_flips(self, counts: Counts, top: int, cached: Ints) -> Counts | None:
        arguments = np.asarray(counts.arguments)
        if not arguments[:, _FLIPS].any():
            return counts
        calm = arguments.copy()
        calm[:, _FLIPS] = 0
        return replace(counts, kept=counts.kept + counts.lost, lost=0, gained=0, arguments=calm)

    def bound(self, counts: Sequence[Counts], terms: Terms) -> Bounds:
        # One call for all inputs and rivals: equal counts are bounded once, and threads share the rest. Of the rivals of an
        # input only the one with the least bound counts.
        of = EventCounts(*np.concatenate([np.asarray(each.arguments) for each in counts]).T)
        first = np.cumsum([0, *(len(each.arguments) for each in counts)])[:-1]
        if terms.sides == 1:
            return Bounds(np.atleast_1d(self.lower_bound(of, terms.samples, terms.alpha))[first])
        groups = np.stack([first, first + 1], axis=1).ravel()
        of_class, of_rivals = self.least_lower_bound(of, terms.samples, terms.alpha / 2, groups).reshape(-1, 2).T
        return Bounds(of_class, np.nextafter(1 - of_rivals, 2.0))


def _noises(about: Questions, cached: Votes, most: int, places: Ints) -> Noises:
    samples = about.noises(cached, most, places)
    before = cached[: len(samples)].copy() if isinstance(samples, range) else cached[samples]
    return Noises(about.top, Stream.ESTIMATION, samples, int(about.votes[about.top]), about, before)
