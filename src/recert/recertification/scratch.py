"""Baselines that draw fresh votes of the modified model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Claims, Outcome, claim_one_sided, claim_two_sided
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import scratch_table
from recert.recertification.draws import Draws
from recert.recertification.ledger import Ledger
from recert.recertification.task import Task
from recert.sampling import Drawn

Ints = NDArray[np.int64]


def select_anew(task: Task, ledger: Ledger, rows: Ints) -> None:
    """Cohen's first step: the modified model's own selection votes choose the class, and are charged."""
    works = task.works(rows, Stream.SELECTION, [range(task.selection_samples)] * len(rows))
    for row, drawn in zip(rows, task.draw(works), strict=True):
        ledger.spend(row, drawn)
        ledger.classes[row] = drawn.counts.argmax()


def scratch_draws(
    task: Task, ledger: Ledger, rows: Ints, passes: Ints, stream: Stream = Stream.FRESH
) -> list[Draws[Any]]:
    """The model's own votes bound the class in the ledger, as if there were no cache."""
    ledger.samples[rows] = passes

    def enter(i: int, drawn: Drawn) -> tuple[int, Ints]:
        row = int(rows[i])
        ledger.spend(row, drawn)
        ledger.top_votes[row] = drawn.counts[ledger.classes[row]]
        return row, drawn.counts

    def bound(block: list[tuple[int, Ints]]) -> None:
        here = np.array([row for row, _ in block])
        claims = _claims(task, ledger.classes[here], np.stack([votes for _, votes in block]), ledger.samples[here])
        otherwise = Outcome.RUNNER_UP_TOO_CLOSE if task.two_sided else Outcome.NO_MAJORITY
        ledger.claim(here, claims.top_lower, claims.runner_up_upper, otherwise)

    return [Draws(rows, stream, [range(m) for m in passes], enter, bound)]


def _claims(task: Task, classes: Ints, counts: Ints, samples: Ints) -> Claims:
    here = np.arange(len(classes)), classes
    if not task.two_sided:
        return claim_one_sided(classes, counts[here], samples, task.alpha, task.sigma)
    rivals = counts.copy()
    rivals[here] = 0
    return claim_two_sided(classes, counts[here], rivals.max(axis=1), samples, task.alpha, task.sigma)


def scratch_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The radius that fresh votes are expected to reach; flips do not matter to them."""
    if task.two_sided:
        return scratch_table(task.alpha / 2, largest).two_sided_radius(task.sigma)
    return scratch_table(task.alpha, largest).radius(task.sigma)
