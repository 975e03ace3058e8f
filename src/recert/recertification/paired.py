"""Losses and gains: p' = p (1 - q1) + (1 - p) q0, by Fisher's combination of exact p-values. Ours."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.certificates import Outcome
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import Circumstances, paired_table, paired_unsplit_table
from recert.recertification.draws import Draws
from recert.recertification.ledger import Ledger
from recert.recertification.task import Task
from recert.sampling import Drawn
from recert.votes import Votes, first_places, merged

Ints = NDArray[np.int64]


def paired_draws(task: Task, ledger: Ledger, rows: Ints, passes: Ints, flips: float) -> list[Draws[Any]]:
    """Replay noises on which f voted for the class, and noises on which it did not; split by the expected bound.

    The split is fixed by the selection votes and by flips on other inputs. Fewer noises of a kind than wanted are all
    replayed: given the indicators of the class, losses and gains stay independent binomials.
    """
    share = (task.selection[rows, task.classes[rows]] + 0.5) / (task.selection[rows].sum(axis=1) + 1.0)
    table = paired_table(Circumstances(task.cached_samples, task.alpha, flips), int(passes.max(initial=9)))
    other = np.round(passes * table.other_share(share, passes.astype(float))).astype(np.int64)
    noises, before = [], []
    for row, m, m0 in zip(rows, passes, other, strict=True):
        votes = task.cached_votes(row)
        is_top = votes == task.classes[row]
        noises.append(merged([first_places(is_top, m - m0, 2 * m), first_places(~is_top, m0, 2 * m)]))
        before.append(votes[noises[-1]])

    def enter(i: int, drawn: Drawn) -> int:
        _enter(task, ledger, rows[i], drawn, before[i])
        return int(rows[i])

    def bound(block: list[int]) -> None:
        replayed_top = ledger.kept[block] + ledger.lost[block]
        top_lower = bounds.paired_lower(
            ledger.top_votes[block], task.cached_samples, ledger.lost[block], replayed_top, ledger.gained[block],
            ledger.replayed[block] - replayed_top, task.alpha,
        )  # fmt: skip
        ledger.claim(np.array(block), top_lower, None, Outcome.TRANSFER_TOO_WEAK)

    return [Draws(rows, Stream.ESTIMATION, noises, enter, bound)]


def paired_two_sided_draws(task: Task, ledger: Ledger, rows: Ints, passes: Ints, flips: float) -> list[Draws[Any]]:
    """Replay the first noises, whatever f voted; bound the class, and every rival turned round, each at alpha / 2.

    For each class alone the noises divide by f's indicator of it, so that every bound is one of `paired_lower`.
    """
    n, classes = task.cached_samples, task.source.classes

    def enter(i: int, drawn: Drawn) -> tuple[int, Ints]:
        row = int(rows[i])
        before = task.cached_votes(row)[: len(drawn.votes)]
        _enter(task, ledger, row, drawn, before)
        return row, _questions(task.estimation[row], n, _confusion(before, drawn.votes, classes), task.classes[row])

    def bound(block: list[tuple[int, Ints]]) -> None:
        k, lost, m1, gained, m0 = np.concatenate([questions for _, questions in block]).T
        lower = bounds.paired_lower(k, n, lost, m1, gained, m0, task.alpha / 2).reshape(len(block), classes)
        for (row, _), mine in zip(block, lower, strict=True):
            c = task.classes[row]
            rival = np.nextafter(1 - np.delete(mine, c).min(), 2.0)
            ledger.claim(np.array([row]), mine[[c]], np.array([rival]), Outcome.TRANSFER_TOO_WEAK)

    return [Draws(rows, Stream.ESTIMATION, [range(m) for m in passes], enter, bound)]


def _questions(votes: Ints, samples: int, moved: Ints, c: int) -> Ints:
    """For every class the arguments of its bound: votes for the event, lost of so many, gained of so many."""
    classes, replayed = len(votes), moved.sum()
    stayed, was, became = moved.diagonal()[:classes], moved.sum(axis=1)[:classes], moved.sum(axis=0)[:classes]
    # Turned round: "not b" is lost where f^p takes up b, and gained where it drops b.
    questions = np.stack([samples - votes, became - stayed, replayed - was, was - stayed, was], axis=1)
    questions[c] = [votes[c], was[c] - stayed[c], was[c], became[c] - stayed[c], replayed - was[c]]
    return questions


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
