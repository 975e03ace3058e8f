"""Losses and gains under one error: Buehler's bound over all three counts (`bounds.joint_lower`). Ours."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.bounds.joint import joint_about
from recert.planning import ChancePredictor, RadiusPredictor
from recert.planning.chances import MANY, FlipChances
from recert.planning.tables import (
    OTHER_SHARES,
    Circumstances,
    SplitTable,
    Table,
    fine_mesh,
    half_width,
    safe_count,
    scaled,
)
from recert.recertification.method import Terms
from recert.recertification.questions import Numbers, SelectedInputs
from recert.recertification.replays import EventCounts, ReplayMethod

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Joint(ReplayMethod):
    """Replays so many noises on which f voted for the class and so many on which it did not, both fixed beforehand."""

    name: ClassVar[str] = "joint"

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(
            bounds.joint_lower(of.votes, samples, of.lost, of.replayed, of.gained, of.replayed_other, alpha)
        )

    def least_lower_bound(self, of: EventCounts, samples: int, alpha: float, groups: Ints) -> Floats:
        counts = (of.votes, samples, of.lost, of.replayed, of.gained, of.replayed_other)
        return np.asarray(bounds.joint_lower(*counts, alpha, groups=groups))

    def for_comparison(self) -> "Joint":
        return _Unproven()

    def numbers(self, chosen: SelectedInputs, passes: Ints, terms: Terms) -> Numbers:
        if terms.sides == 1:
            other = _best_split(chosen, passes, terms)
            return Numbers.of_class(chosen, passes - other, other)
        # As noises come, since all questions about an input share them.
        rows, of_rivals = np.arange(len(passes)), chosen.shares * passes[:, None]
        event = ((1 - chosen.shares) * passes[:, None]).astype(np.int64)
        other = np.minimum(of_rivals, _safe(chosen.votes, chosen.totals[:, None], terms.samples)).astype(np.int64)
        of_others = (1 - chosen.top_shares) * passes
        safe = _safe(chosen.totals - chosen.top_votes, chosen.totals, terms.samples)
        event[rows, chosen.tops] = chosen.top_shares * passes
        other[rows, chosen.tops] = np.minimum(of_others, safe)
        unseen = (1 - 0.5 / (chosen.totals + 1.0)) * passes
        return Numbers(event, other, unseen.astype(np.int64))

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        if terms.sides == 1:
            return split_table(terms.circumstances, largest, terms.selection_samples).bound.radius(1)
        return unsplit_table(terms.circumstances, largest, terms.selection_samples).radius(2)

    def chance(self, terms: Terms, largest: int, radius: float) -> ChancePredictor:
        tables = tables_after_flips(terms.circumstances, largest, terms.selection_samples, terms.sides)
        return FlipChances(radius, MANY, [table.radius(terms.sides) for table in tables], terms.flips)


@dataclass(frozen=True)
class _Unproven(Joint):
    """With bounds that are searched, but not proven."""

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(joint_about(of.votes, samples, of.lost, of.replayed, of.gained, of.replayed_other, alpha))

    def least_lower_bound(self, of: EventCounts, samples: int, alpha: float, groups: Ints) -> Floats:
        counts = (of.votes, samples, of.lost, of.replayed, of.gained, of.replayed_other)
        return np.asarray(joint_about(*counts, alpha, groups=groups))


def _best_split(chosen: SelectedInputs, passes: Ints, terms: Terms) -> Ints:
    """Replays of noises on which f did not vote for the class, for the class alone: as many as the plan's table finds best."""
    table = split_table(terms.circumstances, terms.samples, terms.selection_samples)
    safe = _safe(chosen.totals - chosen.top_votes, chosen.totals, terms.samples)
    shares = table.other_share(chosen.top_shares, passes.astype(float))
    return np.minimum(shares * passes, safe).astype(np.int64)


def _safe(seen: Ints, totals: Ints, samples: int) -> Floats:
    """`safe_count` of each."""
    found = np.empty(seen.shape)
    totals = np.broadcast_to(totals, seen.shape)
    for total in np.unique(totals).tolist():
        found[totals == total] = _safe_counts(total, samples)[seen[totals == total]]
    return found


@lru_cache(maxsize=64)
def _safe_counts(selected: int, samples: int) -> Floats:
    """For each number of selection votes: few are asked about again and again, by every rival of every input."""
    return safe_count(np.arange(selected + 1.0), selected, samples)


@lru_cache(maxsize=32)
def split_table(given: Circumstances, largest: int, selected: int) -> SplitTable:
    """About the joint bound after m replays, each split tried, given how many selection votes there are."""
    p, m = fine_mesh(largest)
    most = safe_count((1 - p) * selected, selected, given.samples)
    tried = np.stack([_statistic(given, p, m, np.minimum(share * m, most)) for share in OTHER_SHARES])
    table = Table(given.noise, m[0], scaled(tried.max(axis=0), given.noise))
    return SplitTable(table, OTHER_SHARES[tried.argmax(axis=0)])


@lru_cache(maxsize=32)
def unsplit_table(given: Circumstances, largest: int, selected: int) -> Table:
    """About the joint bound after m replays as they come."""
    p, m = fine_mesh(largest)
    other = np.minimum((1 - p) * m, safe_count((1 - p) * selected, selected, given.samples))
    return Table(given.noise, m[0], scaled(_statistic(given, p, m, other), given.noise))


@lru_cache(maxsize=32)
def tables_after_flips(given: Circumstances, largest: int, selected: int, sides: int) -> list[Table]:
    """The same bounds after m replays of which 0, 1, 2, ... were lost, with the gains that may then be expected."""
    p, m = fine_mesh(largest)
    most = safe_count((1 - p) * selected, selected, given.samples)
    if sides == 1:
        other = np.minimum(split_table(given, largest, selected).shares * m, most)
    else:
        other = np.minimum((1 - p) * m, most)
    top = m - other
    mean = top * given.flips * (1 - p)
    # An input that lost more than others is one where more flips, also in the other direction: losses are geometric.
    rates = [given.flips * p * (1 + lost) / (1 + mean) for lost in MANY]
    found = [
        _statistic_at(given, p, m, other, np.minimum(lost / np.maximum(top, 1.0), 1.0), y)
        for lost, y in zip(MANY, rates, strict=True)
    ]
    return [Table(given.noise, m[0], scaled(each, given.noise)) for each in found]


def _statistic(given: Circumstances, p: Floats, m: Floats, other: Floats) -> Floats:
    """The statistic by which the joint bound orders outcomes, at the expected counts (`bounds.joint`): it is close to it."""
    return _statistic_at(given, p, m, other, np.clip(given.flips * (1 - p), 0, 1), given.flips * p)


def _statistic_at(given: Circumstances, p: Floats, m: Floats, other: Floats, x: Floats, gained: Floats) -> Floats:
    """At shares x of one kind that are lost, and `gained` of the other."""
    top, some = m - other, np.maximum(other, 1.0)
    y = np.where(other >= 1, np.clip(gained, 0, 1), 0.0)
    of_votes, of_lost = half_width(p, given.samples, given.alpha), half_width(1 - x, top, given.alpha)
    of_gained = np.where(other >= 1, half_width(y, some, given.alpha), 0.0)
    spread = np.sqrt(((1 - x - y + of_gained) * of_votes) ** 2 + (p * of_lost) ** 2 + ((1 - p) * of_gained) ** 2)
    return np.where(x + of_lost > 0.5, 0.0, p * (1 - x) + (1 - p) * y - spread)
