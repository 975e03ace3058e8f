"""Losses and gains under one error: Buehler's bound over all three counts (`bounds.joint_lower`). Ours."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.certificates import Outcome
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import Circumstances, joint_table, joint_unsplit_table, safe_count
from recert.recertification.ledger import Ledger
from recert.recertification.task import Task
from recert.votes import Votes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Counts = tuple[int, int, int, int, int]
"""Votes for the event, replays that lost it and their number, replays that gained it and theirs."""


def run_joint(task: Task, ledger: Ledger, rows: Ints, passes: Ints, flips: float) -> None:
    """Replay so many noises on which f voted for the class and so many on which it did not, both fixed beforehand."""
    _run(
        task,
        ledger,
        rows,
        [[_Question.about_class(task, r, m, flips)] for r, m in zip(rows, passes, strict=True)],
        task.alpha,
    )


def run_joint_two_sided(task: Task, ledger: Ledger, rows: Ints, passes: Ints, flips: float) -> None:
    """The same for the class and, turned round, for every rival; alpha is spent half on each (see series)."""
    questions = []
    seen_by_any = (task.selection > 0) | (task.estimation > 0)
    for row, m in zip(rows, passes, strict=True):
        seen, c = seen_by_any[row], int(task.classes[row])
        rivals = [int(b) for b in np.flatnonzero(seen) if b != c]
        unseen = [int(b) for b in np.flatnonzero(~seen) if b != c]
        asked = [_Question.about_class(task, row, m, flips, two_sided=True)]
        asked += [_Question.about_rival(task, row, m, (b,)) for b in rivals]
        questions.append([*asked, *([_Question.about_rival(task, row, m, tuple(unseen))] if unseen else [])])
    _run(task, ledger, rows, questions, task.alpha / 2)


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
        c, chosen = int(task.classes[row]), task.selection[row]
        share = (chosen[c] + 0.5) / (chosen.sum() + 1.0)
        if two_sided:  # noises as they come, since other questions share them
            other = min(
                (1 - share) * passes, float(safe_count(chosen.sum() - chosen[c], chosen.sum(), task.cached_samples))
            )
            return cls((), c, int(task.estimation[row, c]), int(share * passes), int(other))
        given = Circumstances(task.cached_samples, task.alpha, flips)
        table = joint_table(given, task.cached_samples, task.cache.manifest.selection_samples)
        wanted = float(table.other_share(np.array(share), np.array(float(passes)))) * passes
        other = min(wanted, float(safe_count(chosen.sum() - chosen[c], chosen.sum(), task.cached_samples)))
        return cls((), c, int(task.estimation[row, c]), passes - int(other), int(other))

    @classmethod
    def about_rival(cls, task: Task, row: int, passes: int, rivals: tuple[int, ...]) -> "_Question":
        chosen, b = task.selection[row], rivals[0]
        share = (chosen[b] + 0.5) / (chosen.sum() + 1.0)
        other = min(share * passes, float(safe_count(chosen[b], chosen.sum(), task.cached_samples)))
        shunned = task.cached_samples - int(task.estimation[row, b])
        return cls(rivals, int(task.classes[row]), shunned, int((1 - share) * passes), int(other))

    def noises(self, votes: Votes) -> tuple[Ints, Ints] | None:
        """The first noises of both kinds, or None if there are too few."""
        event = votes != self.rivals[0] if self.rivals else votes == self.top
        about, other = np.flatnonzero(event), np.flatnonzero(~event)
        if len(about) < self.replayed or len(other) < self.replayed_other:
            return None
        return about[: self.replayed].copy(), other[: self.replayed_other].copy()  # views would keep all n alive

    def changes(self, of_event: Votes, of_other: Votes) -> list[tuple[int, int]]:
        """Replays that lost the event, and that gained it; for rivals that share noises, every pair that occurs.

        All are bounded, since the joint bound need not fall as losses grow.
        """
        if not self.rivals:
            return [(int(np.count_nonzero(of_event != self.top)), int(np.count_nonzero(of_other == self.top)))]
        taken_up = np.bincount(of_event, minlength=max(self.rivals) + 1)[list(self.rivals)]
        gained = int(np.count_nonzero(of_other != self.rivals[0]))
        return [(int(lost), gained) for lost in np.unique(taken_up)]


def _run(task: Task, ledger: Ledger, rows: Ints, questions: list[list[_Question]], alpha: float) -> None:
    """Draw the union of all questions' noises once, count changes, and bound the questions of many rows in one call."""
    votes = {int(row): task.cached_votes(row) for row in rows}
    chosen = [[q.noises(votes[int(row)]) for q in asked] for row, asked in zip(rows, questions, strict=True)]
    possible = [i for i, places in enumerate(chosen) if all(p is not None for p in places)]
    unions = [_union([part for pair in chosen[i] if pair is not None for part in pair]) for i in possible]

    def entered() -> Iterator[tuple[int, list[Counts]]]:
        drawn_rows = task.draw(rows[possible], Stream.ESTIMATION, unions)
        for i, union, drawn in zip(possible, unions, drawn_rows, strict=True):
            ledger.spend(rows[i], drawn)
            counts: list[Counts] = []
            for question, places in zip(questions[i], chosen[i], strict=True):
                assert places is not None
                event, other = (drawn.votes[np.searchsorted(union, part)] for part in places)
                changes = question.changes(event, other)
                counts += [(question.votes, lost, len(event), gained, len(other)) for lost, gained in changes]
            _enter(ledger, rows[i], counts[0], len(union), task.cached_samples)
            yield int(rows[i]), counts

    def bound(block: list[tuple[int, list[Counts]]]) -> None:
        k, lost, m1, gained, m0 = np.array([each for _, counts in block for each in counts]).T
        lower = np.atleast_1d(bounds.joint_lower(k, task.cached_samples, lost, m1, gained, m0, alpha))
        ends = np.cumsum([len(counts) for _, counts in block])[:-1]
        for (row, _), mine in zip(block, np.split(lower, ends), strict=True):
            rival = np.array([np.nextafter(1 - mine[1:].min(), 2.0)]) if len(mine) > 1 else None
            ledger.claim(np.array([row]), mine[:1], rival, Outcome.TRANSFER_TOO_WEAK)

    task.background.bound(entered(), bound)


def _union(parts: list[Ints]) -> Ints:
    """All places that occur in any part, in order."""
    marked = np.zeros(max(int(part[-1]) + 1 if len(part) else 0 for part in parts), dtype=bool)
    for part in parts:
        marked[part] = True
    return np.flatnonzero(marked)


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
