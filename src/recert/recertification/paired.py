"""Losses and gains: p' = p (1 - q1) + (1 - p) q0, by Fisher's combination of exact p-values. Ours."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.planning import RadiusPredictor
from recert.planning.tables import OTHER_SHARES, Circumstances, SplitTable, Table, fine_mesh, scaled
from recert.recertification.method import Terms
from recert.recertification.questions import Numbers, SelectedInputs
from recert.recertification.replays import EventCounts, ReplayMethod

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Paired(ReplayMethod):
    """Replays noises on which f voted for the class, and noises on which it did not.

    For the class alone the split is fixed by the selection votes and by flips on other inputs. Fewer noises of a kind than
    wanted are all replayed: given the indicators of the class, losses and gains stay independent binomials. With the rivals
    the first noises are replayed, whatever f voted; for each class they divide by f's indicator of it.
    """

    name: ClassVar[str] = "paired"
    all_or_none: ClassVar[bool] = False

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(
            bounds.paired_lower(of.votes, samples, of.lost, of.replayed, of.gained, of.replayed_other, alpha)
        )

    def numbers(self, chosen: SelectedInputs, passes: Ints, terms: Terms) -> Numbers:
        if terms.sides == 1:
            other = _replays_of_others(chosen, passes, terms)
            return Numbers.of_class(chosen, passes - other, other)
        # All of each kind that is among the first noises.
        each = np.repeat(passes[:, None], terms.classes, axis=1)
        return Numbers(each, each, passes)

    def most_places(self, passes: int, samples: int, terms: Terms) -> int:
        return samples if terms.sides == 1 else min(passes, samples)

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        if terms.sides == 1:
            return split_table(terms.circumstances, largest).bound.radius(1)
        return unsplit_table(terms.circumstances, largest).radius(2)


def _replays_of_others(chosen: SelectedInputs, passes: Ints, terms: Terms) -> Ints:
    """How many of the replays go to noises on which f did not vote for the class."""
    table = split_table(terms.circumstances, max(terms.largest, 9))
    return np.round(passes * table.other_share(chosen.top_shares, passes.astype(float))).astype(np.int64)


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
