"""Losses and gains: p' = p (1 - q1) + (1 - p) q0, by Fisher's combination of exact p-values. Ours."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.planning import RadiusPredictor, Selected
from recert.planning.tables import OTHER_SHARES, Circumstances, SplitTable, Table, fine_mesh, scaled
from recert.recertification.method import Terms
from recert.recertification.questions import Question, first_of_both, seen_and_unseen_rivals
from recert.recertification.replays import EventCounts, ReplayMethod
from recert.votes import Votes, count_votes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Paired(ReplayMethod):
    """Replays noises on which f voted for the class, and noises on which it did not.

    For the class alone the split is fixed by the selection votes and by flips on other inputs. Fewer noises of a kind than
    wanted are all replayed: given the indicators of the class, losses and gains stay independent binomials. With the rivals
    the first noises are replayed, whatever f voted; for each class they divide by f's indicator of it.
    """

    name: ClassVar[str] = "paired"

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(
            bounds.paired_lower(of.votes, samples, of.lost, of.replayed, of.gained, of.replayed_other, alpha)
        )

    def questions(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> tuple[Question, ...] | None:
        event = cached == selected.top
        if terms.sides == 1:
            other = _replays_of_others(selected, passes, terms)
            return (Question(None, int(np.count_nonzero(event)), *first_of_both(event, passes - other, other)),)
        counts = count_votes(cached, terms.classes)
        rivals, unseen = seen_and_unseen_rivals(selected.top, selected.votes, counts)
        asked = [_of_first_noises(None, event, int(counts[selected.top]), passes)]
        for sharing in [*((b,) for b in rivals), *([unseen] if unseen else [])]:
            b = sharing[0]
            asked.append(_of_first_noises(sharing, cached != b, len(cached) - int(counts[b]), passes))
        return tuple(asked)

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        if terms.sides == 1:
            return split_table(terms.circumstances, largest).bound.radius(1)
        return unsplit_table(terms.circumstances, largest).radius(2)


def _of_first_noises(rivals: tuple[int, ...] | None, event: NDArray[np.bool_], votes: int, passes: int) -> Question:
    of_event, of_other = (np.flatnonzero(kind).astype(np.uint32) for kind in (event[:passes], ~event[:passes]))
    return Question(rivals, votes, of_event, of_other)


def _replays_of_others(selected: Selected, passes: int, terms: Terms) -> int:
    """How many of the replays go to noises on which f did not vote for the class."""
    table = split_table(terms.circumstances, max(terms.largest, 9))
    share = table.other_share(np.array(selected.share(selected.top)), np.array(float(passes)))
    return int(np.round(passes * share))


@lru_cache(maxsize=32)
def split_table(given: Circumstances, largest: int) -> SplitTable:
    """The paired bound after m replays, each split tried."""
    p, m = fine_mesh(largest)
    tried = np.stack([scaled(_expected(given, p, m, np.round(share * m)), given.noise) for share in OTHER_SHARES])
    return SplitTable(Table(given.noise, m[0], tried.max(axis=0)), OTHER_SHARES[tried.argmax(axis=0)])


@lru_cache(maxsize=32)
def unsplit_table(given: Circumstances, largest: int) -> Table:
    """The paired bound after m replays as they come."""
    p, m = fine_mesh(largest)
    return Table(given.noise, m[0], scaled(_expected(given, p, m, np.round((1 - p) * m)), given.noise))


def _expected(given: Circumstances, p: Floats, m: Floats, other: Floats) -> Floats:
    """The bound at the numbers of flips that are to be expected."""
    other = np.minimum(other, np.floor((1 - p) * given.samples))
    lost = np.minimum(np.round((m - other) * given.flips * (1 - p)), m - other)
    gained = np.minimum(np.round(other * given.flips * p), other)
    return np.asarray(
        bounds.paired_lower(np.round(p * given.samples), given.samples, lost, m - other, gained, other, given.alpha)
    )
