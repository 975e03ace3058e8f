"""Losses and gains under one error: Buehler's bound over all three counts (`bounds.joint_lower`). Ours."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.certificates import Outcome
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import Circumstances, joint_table, joint_unsplit_table, safe_count
from recert.radius import one_sided_radius, two_sided_radius
from recert.recertification.ledger import Ledger
from recert.recertification.task import Task
from recert.votes import Votes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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
    for row, m in zip(rows, passes, strict=True):
        seen = np.flatnonzero((task.selection[row] > 0) | (task.estimation[row] > 0))
        unseen = np.setdiff1d(np.arange(task.source.classes), [*seen, task.classes[row]])
        rivals = [int(b) for b in seen if b != task.classes[row]]
        asked = [_Question.about_class(task, row, m, flips, two_sided=True)]
        asked += [_Question.about_rival(task, row, m, (b,)) for b in rivals]
        questions.append([*asked, *([_Question.about_rival(task, row, m, tuple(unseen))] if len(unseen) else [])])
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
    """Draw the union of all questions' noises once, count changes, and bound all of them in one call."""
    votes = {int(row): task.cached_votes(row) for row in rows}
    chosen = [[q.noises(votes[int(row)]) for q in asked] for row, asked in zip(rows, questions, strict=True)]
    possible = [i for i, places in enumerate(chosen) if all(p is not None for p in places)]
    unions = [
        np.unique(np.concatenate([part for pair in chosen[i] if pair is not None for part in pair])) for i in possible
    ]
    counts: list[tuple[int, int, int, int, int]] = []
    ends = []
    drawn_rows = task.draw(rows[possible], Stream.ESTIMATION, unions)
    for i, union, drawn in zip(possible, unions, drawn_rows, strict=True):
        ledger.spend(rows[i], drawn)
        first = len(counts)
        for question, places in zip(questions[i], chosen[i], strict=True):
            assert places is not None
            event, other = (drawn.votes[np.searchsorted(union, part)] for part in places)
            changes = question.changes(event, other)
            counts += [(question.votes, lost, len(event), gained, len(other)) for lost, gained in changes]
        ends.append(len(counts))
        _enter(ledger, rows[i], counts[first], len(union), task.cached_samples)
    if not counts:
        return
    k, lost, m1, gained, m0 = np.array(counts).T
    lower = np.atleast_1d(bounds.joint_lower(k, task.cached_samples, lost, m1, gained, m0, alpha))
    for i, mine in zip(possible, np.split(lower, ends[:-1]), strict=True):
        rival = np.array([np.nextafter(1 - mine[1:].min(), 2.0)]) if len(mine) > 1 else None
        ledger.claim(rows[[i]], mine[:1], rival, Outcome.TRANSFER_TOO_WEAK)


def _enter(ledger: Ledger, row: int, of_class: tuple[int, int, int, int, int], replayed: int, samples: int) -> None:
    ledger.top_votes[row], ledger.lost[row], about, ledger.gained[row], _ = of_class
    ledger.kept[row], ledger.replayed[row], ledger.samples[row] = about - ledger.lost[row], replayed, samples


def joint_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The radius that joint is expected to reach."""
    selected = task.cache.manifest.selection_samples
    table = joint_table(Circumstances(task.cached_samples, task.alpha, flips), largest, selected).bound
    return lambda p, _, m: one_sided_radius(table(p, m), task.sigma)


def joint_two_sided_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The same with the runner-up."""
    selected = task.cache.manifest.selection_samples
    half = joint_unsplit_table(Circumstances(task.cached_samples, task.alpha / 2, flips), largest, selected)

    def predicted(p: Floats, q: Floats, m: Floats) -> Floats:
        top = half(p, m)
        return np.asarray(two_sided_radius(top, np.minimum(1 - half(1 - q, m), 1 - top), task.sigma))

    return predicted
