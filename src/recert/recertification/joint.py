"""Losses and gains under one error: Buehler's bound over all three counts (`bounds.joint_lower`). Ours."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from recert import bounds
from recert.planning import RadiusPredictor, Selected
from recert.planning.tables import OTHER_SHARES, Circumstances, SplitTable, Table, fine_mesh, safe_count, scaled
from recert.recertification.method import Terms
from recert.recertification.questions import Question, first_of_both, seen_and_unseen_rivals
from recert.recertification.replays import EventCounts, ReplayMethod
from recert.votes import Votes, count_votes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Joint(ReplayMethod):
    """Replays so many noises on which f voted for the class and so many on which it did not, both fixed beforehand."""

    name: ClassVar[str] = "joint"

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> Floats:
        return np.asarray(
            bounds.joint_lower(of.votes, samples, of.lost, of.replayed, of.gained, of.replayed_other, alpha)
        )

    def questions(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> tuple[Question, ...] | None:
        counts = count_votes(cached, terms.classes)
        event, votes = cached == selected.top, int(counts[selected.top])
        if terms.sides == 1:
            return _all_or_none([_question(None, event, votes, _best_split(selected, passes, terms))])
        rivals, unseen = seen_and_unseen_rivals(selected.top, selected.votes, counts)
        asked = [_question(None, event, votes, _as_they_come(selected, None, passes, terms))]
        for sharing in [*((b,) for b in rivals), *([unseen] if unseen else [])]:
            b = sharing[0]
            replays = _as_they_come(selected, b, passes, terms)
            asked.append(_question(sharing, cached != b, len(cached) - int(counts[b]), replays))
        return _all_or_none(asked)

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        if terms.sides == 1:
            return split_table(terms.circumstances, largest, terms.selection_samples).bound.radius(1)
        return unsplit_table(terms.circumstances, largest, terms.selection_samples).radius(2)


def _question(
    rivals: tuple[int, ...] | None, event: NDArray[np.bool_], votes: int, replays: tuple[int, int]
) -> Question | None:
    """None if there are too few noises of a kind: numbers of replays must not depend on the votes that claim."""
    if votes < replays[0] or len(event) - votes < replays[1]:
        return None
    return Question(rivals, votes, *first_of_both(event, *replays))


def _all_or_none(asked: list[Question | None]) -> tuple[Question, ...] | None:
    questions = tuple(question for question in asked if question is not None)
    return questions if len(questions) == len(asked) else None


def _best_split(selected: Selected, passes: int, terms: Terms) -> tuple[int, int]:
    """Replays of both kinds for the class alone, split as the plan's table finds best."""
    share = selected.share(selected.top)
    table = split_table(terms.circumstances, terms.samples, terms.selection_samples)
    safe = _safe_count(selected.total - int(selected.votes[selected.top]), selected.total, terms.samples)
    other = int(min(float(table.other_share(np.array(share), np.array(float(passes)))) * passes, safe))
    return passes - other, other


def _as_they_come(selected: Selected, rival: int | None, passes: int, terms: Terms) -> tuple[int, int]:
    """Replays of both kinds as noises come, since all questions about an input share them."""
    label = selected.top if rival is None else rival
    seen, share = int(selected.votes[label]), selected.share(label)
    if rival is None:
        return int(share * passes), int(
            min((1 - share) * passes, _safe_count(selected.total - seen, selected.total, terms.samples))
        )
    return int((1 - share) * passes), int(min(share * passes, _safe_count(seen, selected.total, terms.samples)))


@lru_cache(maxsize=4096)
def _safe_count(seen: int, selected: int, samples: int) -> float:
    """Few counts are asked about again and again, by every rival of every input."""
    return float(safe_count(seen, selected, samples))


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


def _statistic(given: Circumstances, p: Floats, m: Floats, other: Floats) -> Floats:
    """The statistic by which the joint bound orders outcomes, at the expected counts (`bounds.joint`): it is close to it."""
    top, some = m - other, np.maximum(other, 1.0)
    x, y = np.clip(given.flips * (1 - p), 0, 1), np.where(other >= 1, np.clip(given.flips * p, 0, 1), 0.0)
    of_votes, of_lost = _half_width(p, given.samples, given.alpha), _half_width(1 - x, top, given.alpha)
    of_gained = np.where(other >= 1, _half_width(y, some, given.alpha), 0.0)
    spread = np.sqrt(((1 - x - y + of_gained) * of_votes) ** 2 + (p * of_lost) ** 2 + ((1 - p) * of_gained) ** 2)
    return np.where(x + of_lost > 0.5, 0.0, p * (1 - x) + (1 - p) * y - spread)


def _half_width(share: Floats, trials: Floats | int, alpha: float) -> Floats:
    """Clopper-Pearson's half-width from below, continued to counts that are not whole."""
    successes = share * trials
    return np.asarray(
        share - np.where(successes > 0, betaincinv(np.maximum(successes, 1e-3), trials - successes + 1, alpha), 0.0)
    )
