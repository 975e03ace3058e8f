"""Losses and gains under one error: Buehler's bound over all three counts (`bounds.joint_lower`). Ours."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.certificates import Outcome
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import Circumstances, joint_table, joint_unsplit_table, safe_count
from recert.recertification.draws import Draws
from recert.recertification.ledger import Ledger
from recert.recertification.task import Task
from recert.sampling import Drawn
from recert.votes import Votes, first_places, merged

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Counts = tuple[int, int, int, int, int]
"""Votes for the event, replays that lost it and their number, replays that gained it and theirs."""


def joint_draws(task: Task, ledger: Ledger, rows: Ints, passes: Ints, flips: float) -> list[Draws[Any]]:
    """Replay so many noises on which f voted for the class and so many on which it did not, both fixed beforehand."""
    questions = [
        [_Question.about_class(task, r, m, flips)] for r, m in zip(rows.tolist(), passes.tolist(), strict=True)
    ]
    return _draws(task, ledger, rows, questions, task.alpha)


def joint_two_sided_draws(task: Task, ledger: Ledger, rows: Ints, passes: Ints, flips: float) -> list[Draws[Any]]:
    """The same for the class and, turned round, for every rival; alpha is spent half on each (see series)."""
    questions = []
    seen_by_any = (task.selection > 0) | (task.estimation > 0)
    for row, m in zip(rows.tolist(), passes.tolist(), strict=True):
        seen, c = seen_by_any[row], int(task.classes[row])
        rivals = [int(b) for b in np.flatnonzero(seen) if b != c]
        unseen = [int(b) for b in np.flatnonzero(~seen) if b != c]
        asked = [_Question.about_class(task, row, m, flips, two_sided=True)]
        asked += [_Question.about_rival(task, row, m, (b,)) for b in rivals]
        questions.append([*asked, *([_Question.about_rival(task, row, m, tuple(unseen))] if unseen else [])])
    return _draws(task, ledger, rows, questions, task.alpha / 2)


@dataclass(frozen=True)
class _Question:
    """A bound on P(f^p votes c), or on P(f^p does not vote b): which noises it is about, and how many it replays.

    Rivals that f never voted for have the same noises.
    """

    rivals: tuple[int, ...]
    top: int
    votes: int
    """Cached votes for the event."""
    replayed: int
    replayed_other: int

    @classmethod
    def about_class(cls, task: Task, row: int, passes: int, flips: float, *, two_sided: bool = False) -> "_Question":
        c = int(task.classes[row])
        seen, selected = int(task.selection[row, c]), task.selected[row]
        share, safe = (seen + 0.5) / (selected + 1.0), _safe_count(selected - seen, selected, task.cached_samples)
        if two_sided:  # noises as they come, since other questions share them
            return cls((), c, int(task.estimation[row, c]), int(share * passes), int(min((1 - share) * passes, safe)))
        given = Circumstances(task.cached_samples, task.alpha, flips)
        table = joint_table(given, task.cached_samples, task.cache.manifest.selection_samples)
        other = int(min(float(table.other_share(np.array(share), np.array(float(passes)))) * passes, safe))
        return cls((), c, int(task.estimation[row, c]), passes - other, other)

    @classmethod
    def about_rival(cls, task: Task, row: int, passes: int, rivals: tuple[int, ...]) -> "_Question":
        seen, selected = int(task.selection[row, rivals[0]]), task.selected[row]
        share, safe = (seen + 0.5) / (selected + 1.0), _safe_count(seen, selected, task.cached_samples)
        shunned = task.cached_samples - int(task.estimation[row, rivals[0]])
        replayed, other = int((1 - share) * passes), int(min(share * passes, safe))
        return cls(rivals, int(task.classes[row]), shunned, replayed, other)

    def noises(self, votes: Votes) -> tuple[Ints, Ints] | None:
        """The first noises of both kinds, or None if there are too few."""
        if self.votes < self.replayed or len(votes) - self.votes < self.replayed_other:
            return None
        event = votes != self.rivals[0] if self.rivals else votes == self.top
        looked = 2 * (self.replayed + self.replayed_other)
        return first_places(event, self.replayed, looked), first_places(~event, self.replayed_other, looked)

    def changes(self, of_event: Votes, of_other: Votes) -> list[tuple[int, int]]:
        """Replays that lost the event, and that gained it; for rivals that share noises, every pair that occurs.

        All are bounded, since the joint bound need not fall as losses grow.
        """
        if not self.rivals:
            return [(int(np.count_nonzero(of_event != self.top)), int(np.count_nonzero(of_other == self.top)))]
        taken_up = np.bincount(of_event, minlength=max(self.rivals) + 1)[list(self.rivals)]
        gained = int(np.count_nonzero(of_other != self.rivals[0]))
        return [(int(lost), gained) for lost in np.unique(taken_up)]


@lru_cache(maxsize=4096)
def _safe_count(seen: int, selected: int, samples: int) -> float:
    """Few counts are asked about again and again, by every rival of every input."""
    return float(safe_count(seen, selected, samples))


def _draws(task: Task, ledger: Ledger, rows: Ints, questions: list[list[_Question]], alpha: float) -> list[Draws[Any]]:
    """Want the union of all questions' noises once, count changes, and bound the questions of many rows in one call."""
    asked = (_Asked.of(task, row, about) for row, about in zip(rows.tolist(), questions, strict=True))
    possible = [each for each in asked if each is not None]

    def enter(i: int, drawn: Drawn) -> tuple[int, list[Counts]]:
        row, union, counts = possible[i].row, possible[i].union, possible[i].counts(drawn.votes)
        ledger.spend(row, drawn)
        _enter(ledger, row, counts[0], len(union), task.cached_samples)
        return row, counts

    def bound(block: list[tuple[int, list[Counts]]]) -> None:
        k, lost, m1, gained, m0 = np.array([each for _, counts in block for each in counts]).T
        lower = np.atleast_1d(bounds.joint_lower(k, task.cached_samples, lost, m1, gained, m0, alpha))
        ends = np.cumsum([len(counts) for _, counts in block])[:-1]
        for (row, _), mine in zip(block, np.split(lower, ends), strict=True):
            rival = np.array([np.nextafter(1 - mine[1:].min(), 2.0)]) if len(mine) > 1 else None
            ledger.claim(np.array([row]), mine[:1], rival, Outcome.TRANSFER_TOO_WEAK)

    able = np.array([each.row for each in possible], dtype=np.int64)
    return [Draws(able, Stream.ESTIMATION, [each.union for each in possible], enter, bound)]


@dataclass(frozen=True)
class _Asked:
    """All questions about one input, the noises of each, and their union, which is drawn once."""

    row: int
    questions: list[_Question]
    noises: list[tuple[Ints, Ints]]
    union: Ints

    @classmethod
    def of(cls, task: Task, row: int, questions: list[_Question]) -> "_Asked | None":
        """None if the cache has too few noises for a question."""
        votes = task.cached_votes(row)
        noises = [pair for question in questions if (pair := question.noises(votes)) is not None]
        if len(noises) < len(questions):
            return None
        return cls(row, questions, noises, merged([part for pair in noises for part in pair]))

    def counts(self, votes: Votes) -> list[Counts]:
        """What each question is bounded with, that about the class first."""
        counts: list[Counts] = []
        for question, places in zip(self.questions, self.noises, strict=True):
            event, other = (votes[np.searchsorted(self.union, part)] for part in places)
            changes = question.changes(event, other)
            counts += [(question.votes, lost, len(event), gained, len(other)) for lost, gained in changes]
        return counts


def _enter(ledger: Ledger, row: int, of_class: Counts, replayed: int, samples: int) -> None:
    ledger.top_votes[row], ledger.lost[row], about, ledger.gained[row], _ = of_class
    ledger.kept[row], ledger.replayed[row], ledger.samples[row] = about - ledger.lost[row], replayed, samples


def joint_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The radius that joint is expected to reach."""
    selected = task.cache.manifest.selection_samples
    given = Circumstances(task.cached_samples, task.alpha, flips)
    return joint_table(given, largest, selected).bound.radius(task.sigma)


def joint_two_sided_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The same with the runner-up."""
    selected = task.cache.manifest.selection_samples
    given = Circumstances(task.cached_samples, task.alpha / 2, flips)
    return joint_unsplit_table(given, largest, selected).two_sided_radius(task.sigma)
