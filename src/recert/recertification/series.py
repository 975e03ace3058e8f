"""Two components in series: P(f^p votes c) >= P(f votes c) * P(f^p votes c | f votes c). Ours."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.bounds.series import few_flips_about, series_about
from recert.planning import ChancePredictor, RadiusPredictor
from recert.planning.chances import FEW, FlipChances
from recert.planning.tables import Circumstances, Table, half_width, mesh, table_at_expected_flips
from recert.recertification.method import Terms
from recert.recertification.questions import Numbers, SelectedInputs
from recert.recertification.replays import EventCounts, ReplayMethod

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEARCHED, SEARCHED_BEYOND = 100_000, 50_000
"""Cached votes up to which a table is searched as it is, and of how many it is searched beyond. A search takes as long as there are votes."""


@dataclass(frozen=True)
class Series(ReplayMethod):
    """Replays only cached noises on which f voted for the class; Buehler's bound on the product spends alpha once.

    Valid because the number of replays does not depend on the estimation votes of the input: then the votes kept, given
    that f voted for the class, are independent of how often it did. Fewer cached votes than replays: no claim.
    """

    name: ClassVar[str] = "series"
    flips_to_expect: ClassVar[int] = 1
    """How many times the flips of other inputs the plan counts on."""
    only_most_losses: ClassVar[bool] = True

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(bounds.series_lower(of.votes, samples, of.replayed - of.lost, of.replayed, alpha))

    def least_lower_bound(self, of: EventCounts, samples: int, alpha: float, groups: Ints) -> Floats:
        kept = of.replayed - of.lost
        return np.asarray(bounds.series_lower(of.votes, samples, kept, of.replayed, alpha, groups=groups))

    def about(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        """The same bounds for a plan, which claims nothing: searched, but not proven."""
        return np.asarray(series_about(of.votes, samples, of.replayed - of.lost, of.replayed, alpha))

    def numbers(self, chosen: SelectedInputs, passes: Ints, terms: Terms) -> Numbers:
        if terms.sides == 1:
            return Numbers.of_class(chosen, passes)
        rows, shares = np.arange(len(passes)), 1 - chosen.shares
        shares[rows, chosen.tops] = chosen.top_shares
        # All noises are of the kind "not b" for a rival that f never voted for. Asked even where there is none.
        of_unseen = 1 - 0.5 / (chosen.totals + 1.0)
        return Numbers(
            _replays(shares, passes[:, None]),
            np.zeros_like(chosen.votes),
            _replays(of_unseen, passes),
            unseen_anyway=True,
        )

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        table = bound_table(self, terms.circumstances, largest)
        # With rivals, noises are replayed as they come: of m of them, the class has p m, and (1 - q) m are not for a rival.
        return table.radius(1) if terms.sides == 1 else table.as_noises_come().radius(2)

    def chance(self, terms: Terms, largest: int, radius: float) -> ChancePredictor:
        after = [
            table.radius(terms.sides) for table in tables_after_flips(self, terms.circumstances, largest, terms.sides)
        ]
        return FlipChances(radius, FEW, after, terms.flips)


@dataclass(frozen=True)
class FewFlips(Series):
    """The same counts with another order of outcomes: a larger bound as long as hardly any replay flips."""

    name: ClassVar[str] = "few-flips"
    # The bound falls steeply with each flip, and flips differ between inputs: it must pay even with twice as many.
    flips_to_expect: ClassVar[int] = 2

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(bounds.few_flips_lower(of.votes, samples, of.replayed - of.lost, of.replayed, alpha))

    def least_lower_bound(self, of: EventCounts, samples: int, alpha: float, groups: Ints) -> Floats:
        kept = of.replayed - of.lost
        return np.asarray(bounds.few_flips_lower(of.votes, samples, kept, of.replayed, alpha, groups=groups))

    def about(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(few_flips_about(of.votes, samples, of.replayed - of.lost, of.replayed, alpha))


def _replays(shares: NDArray[np.floating[Any]], passes: Ints) -> Ints:
    """Of so many noises as they come, how many may be expected to be of a kind; at least one."""
    return np.asarray(np.maximum(1, np.floor(shares * passes)), dtype=np.int64)


@lru_cache(maxsize=64)
def bound_table(method: Series, given: Circumstances, largest: int) -> Table:
    """The bound after m replays of noises on which f voted for the class."""
    p, m = mesh(largest)
    expected = method.flips_to_expect * m * given.flips * (1 - p)
    return table_at_expected_flips(given, m[0], lambda lost: _bound(method, given, p, m, lost), expected)


def _bound(method: Series, given: Circumstances, p: Floats, m: Floats, lost: Floats) -> Floats:
    """The bound on the mesh; beyond `SEARCHED` votes, whose searches take long, about: that of fewer votes, moved by what more are worth."""
    searched = given if given.samples <= SEARCHED else replace(given, samples=SEARCHED_BEYOND)
    votes, none = np.round(p * searched.samples), np.zeros_like(m)
    found = method.about(EventCounts(votes, lost, m, none, none), searched.samples, given.alpha)
    if searched is given:
        return found
    return np.asarray(found + _about(given, p, m, lost) - _about(searched, p, m, lost))


def _about(given: Circumstances, p: Floats, m: Floats, lost: Floats) -> Floats:
    """The product of both shares, less the half-widths of both bounds as if they were independent normal errors."""
    kept = 1 - lost / m
    of_votes, of_replays = half_width(p, given.samples, given.alpha), half_width(kept, m, given.alpha)
    return np.asarray(p * kept - np.hypot(kept * of_votes, p * of_replays))


def tables_after_flips(method: Series, given: Circumstances, largest: int, sides: int) -> list[Table]:
    """The bound after m replays of which 0, 1, 2, ... were lost. With rivals noises are replayed as they come."""
    tables = [_table_after(method, replace(given, flips=0.0), largest, lost) for lost in FEW]
    return tables if sides == 1 else [table.as_noises_come() for table in tables]


@lru_cache(maxsize=128)
def _table_after(method: Series, given: Circumstances, largest: int, lost: int) -> Table:
    """Whatever flips are expected: other changes of a network, with other flips, are planned by the same table."""
    p, m = mesh(largest)
    return table_at_expected_flips(given, m[0], lambda flips: _bound(method, given, p, m, flips), np.full_like(m, lost))
