"""Two components in series: P(f^p votes c) >= P(f votes c) * P(f^p votes c | f votes c). Ours."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.planning import RadiusPredictor, Selected
from recert.planning.tables import Circumstances, Table, mesh, table_at_expected_flips
from recert.recertification.method import Terms
from recert.recertification.questions import Question, seen_and_unseen_rivals
from recert.recertification.replays import EventCounts, ReplayMethod
from recert.votes import Votes, count_votes, first_places

Floats = NDArray[np.float64]
_Wanted = tuple[tuple[int, ...] | None, NDArray[np.bool_], int, int]
"""A question to be: rivals, on which cached noises the event holds, on how many, and how many of these to replay."""


@dataclass(frozen=True)
class Series(ReplayMethod):
    """Replays only cached noises on which f voted for the class; Buehler's bound on the product spends alpha once.

    Valid because the number of replays does not depend on the estimation votes of the input: then the votes kept, given
    that f voted for the class, are independent of how often it did. Fewer cached votes than replays: no claim.
    """

    name: ClassVar[str] = "series"
    flips_to_expect: ClassVar[int] = 1
    """How many times the flips of other inputs the plan counts on."""

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(bounds.series_lower(of.votes, samples, of.replayed - of.lost, of.replayed, alpha))

    def questions(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> tuple[Question, ...] | None:
        if terms.sides == 1:
            event = cached == selected.top
            return _questions([(None, event, int(np.count_nonzero(event)), passes)], passes)
        counts = count_votes(cached, terms.classes)
        rivals, unseen = seen_and_unseen_rivals(selected.top, selected.votes, counts)
        of_class = selected.share(selected.top)
        asked: list[_Wanted] = [
            (None, cached == selected.top, int(counts[selected.top]), _replays(of_class, passes)),
            *(
                ((b,), cached != b, len(cached) - int(counts[b]), _replays(1 - selected.share(b), passes))
                for b in rivals
            ),
        ]
        # All noises are of the kind "not b" for a rival that f never voted for. Asked even where there is none.
        of_unseen = 0.5 / (selected.total + 1.0)
        asked.append((unseen, np.ones(len(cached), dtype=bool), len(cached), _replays(1 - of_unseen, passes)))
        return _questions(asked, passes)

    def to_bound(self, changes: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The most losses of rivals that share a question: the bound falls as losses grow."""
        return changes[-1:]

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        table = bound_table(self, terms.circumstances, largest)
        # With rivals, noises are replayed as they come: of m of them, the class has p m, and (1 - q) m are not for a rival.
        return table.radius(1) if terms.sides == 1 else table.as_noises_come().radius(2)


@dataclass(frozen=True)
class FewFlips(Series):
    """The same counts with another order of outcomes: a larger bound as long as hardly any replay flips."""

    name: ClassVar[str] = "few-flips"
    # The bound falls steeply with each flip, and flips differ between inputs: it must pay even with twice as many.
    flips_to_expect: ClassVar[int] = 2

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(bounds.few_flips_lower(of.votes, samples, of.replayed - of.lost, of.replayed, alpha))


def _replays(share: float, passes: int) -> int:
    """Of so many noises as they come, how many may be expected to be of a kind; at least one."""
    return max(1, int(np.floor(share * passes)))


def _questions(asked: list[_Wanted], passes: int) -> tuple[Question, ...] | None:
    """None if any has too few noises."""
    if any(votes < replays for _, _, votes, replays in asked):
        return None
    none = np.zeros(0, dtype=np.uint32)
    return tuple(
        Question(rivals, votes, first_places(event, replays, 2 * passes).astype(np.uint32), none) for rivals, event, votes, replays in asked
    )  # fmt: skip


@lru_cache(maxsize=64)
def bound_table(method: Series, given: Circumstances, largest: int) -> Table:
    """The bound after m replays of noises on which f voted for the class."""
    p, m = mesh(largest)
    votes, none = np.round(p * given.samples), np.zeros_like(m)

    def bound(lost: Floats) -> Floats:
        return method.lower_bound(EventCounts(votes, lost, m, none, none), given.samples, given.alpha)

    return table_at_expected_flips(given, m[0], bound, method.flips_to_expect * m * given.flips * (1 - p))
