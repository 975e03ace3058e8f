"""Losses and gains: p' = p (1 - q1) + (1 - p) q0, by Fisher's combination of exact p-values. Ours."""

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.certificates import Outcome
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import Circumstances, paired_table, paired_unsplit_table
from recert.recertification.ledger import Ledger
from recert.recertification.task import Task
from recert.sampling import Drawn
from recert.votes import Votes

Ints = NDArray[np.int64]


def run_paired(task: Task, ledger: Ledger, rows: Ints, passes: Ints, flips: float) -> None:
    """Replay noises on which f voted for the class, and noises on which it did not; split by the expected bound.

    The split is fixed by the selection votes and by flips on other inputs. Fewer noises of a kind than wanted are all
    replayed: given the indicators of the class, losses and gains stay independent binomials.
    """
    share = (task.selection[rows, task.classes[rows]] + 0.5) / (task.selection[rows].sum(axis=1) + 1.0)
    table = paired_table(Circumstances(task.cached_samples, task.alpha, flips), int(passes.max(initial=9)))
    other = np.round(passes * table.other_share(share, passes.astype(float))).astype(np.int64)
    noises = []
    for row, m, m0 in zip(rows, passes, other, strict=True):
        is_top = task.cached_votes(row) == task.classes[row]
        noises.append(np.sort(np.concatenate([np.flatnonzero(is_top)[: m - m0], np.flatnonzero(~is_top)[:m0]])))
    for row, drawn, chosen in zip(rows, task.draw(rows, Stream.ESTIMATION, noises), noises, strict=True):
        _enter(task, ledger, row, drawn, task.cached_votes(row)[chosen])
    if len(rows):
        replayed_top = ledger.kept[rows] + ledger.lost[rows]
        top_lower = bounds.paired_lower(
            ledger.top_votes[rows], task.cached_samples, ledger.lost[rows], replayed_top, ledger.gained[rows],
            ledger.replayed[rows] - replayed_top, task.alpha,
        )  # fmt: skip
        ledger.claim(rows, top_lower, None, Outcome.TRANSFER_TOO_WEAK)


def run_paired_two_sided(task: Task, ledger: Ledger, rows: Ints, passes: Ints, flips: float) -> None:
    """Replay the first noises, whatever f voted; bound the class, and every rival turned round, each at alpha / 2.

    For each class alone the noises divide by f's indicator of it, so that every bound is one of `paired_lower`.
    """
    n, classes = task.cached_samples, task.source.classes
    questions, owners = [], []
    drawn_rows = task.draw(rows, Stream.ESTIMATION, [range(m) for m in passes])
    for row, drawn in zip(rows, drawn_rows, strict=True):
        before = task.cached_votes(row)[: len(drawn.votes)]
        _enter(task, ledger, row, drawn, before)
        moved = _confusion(before, drawn.votes, classes)
        c = task.classes[row]
        stayed, was, became = moved.diagonal()[:classes], moved.sum(axis=1)[:classes], moved.sum(axis=0)[:classes]
        # Turned round: "not b" is lost where f^p takes up b, and gained where it drops b.
        columns = np.stack(
            [n - task.estimation[row], became - stayed, len(drawn.votes) - was, was - stayed, was], axis=1
        )
        columns[c] = [
            task.estimation[row, c],
            was[c] - stayed[c],
            was[c],
            became[c] - stayed[c],
            len(drawn.votes) - was[c],
        ]
        questions.append(columns)
        owners.append((row, c))
    if not owners:
        return
    k, lost, m1, gained, m0 = np.concatenate(questions).T
    lower = bounds.paired_lower(k, n, lost, m1, gained, m0, task.alpha / 2).reshape(len(owners), classes)
    for (row, c), bound in zip(owners, lower, strict=True):
        rival = np.nextafter(1 - np.delete(bound, c).min(), 2.0)
        ledger.claim(np.array([row]), bound[[c]], np.array([rival]), Outcome.TRANSFER_TOO_WEAK)


def _enter(task: Task, ledger: Ledger, row: int, drawn: Drawn, before: Votes) -> None:
    ledger.spend(row, drawn)
    c = task.classes[row]
    had, has = before == c, drawn.votes == c
    ledger.kept[row], ledger.lost[row] = np.count_nonzero(had & has), np.count_nonzero(had & ~has)
    ledger.gained[row], ledger.replayed[row] = np.count_nonzero(~had & has), len(before)
    ledger.top_votes[row], ledger.samples[row] = task.estimation[row, c], task.cached_samples


def _confusion(before: Votes, after: Votes, classes: int) -> Ints:
    """How often a vote of f (row) became a vote of f^p (column); the last of each is nobody."""
    a, b = (np.minimum(votes.astype(np.int64), classes) for votes in (before, after))
    return np.bincount(a * (classes + 1) + b, minlength=(classes + 1) ** 2).reshape(classes + 1, classes + 1)


def paired_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The radius that paired is expected to reach."""
    return paired_table(Circumstances(task.cached_samples, task.alpha, flips), largest).bound.radius(task.sigma)


def paired_two_sided_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The same with the runner-up."""
    given = Circumstances(task.cached_samples, task.alpha / 2, flips)
    return paired_unsplit_table(given, largest).two_sided_radius(task.sigma)
