"""Baselines that draw fresh votes of the modified model."""

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Claims, Outcome, claim_one_sided, claim_two_sided
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import scratch_table
from recert.recertification.ledger import Ledger
from recert.recertification.task import Task

Ints = NDArray[np.int64]


def select_anew(task: Task, ledger: Ledger, rows: Ints) -> None:
    """Cohen's first step: the modified model's own selection votes choose the class, and are charged."""
    for row, drawn in zip(
        rows, task.draw(rows, Stream.SELECTION, [range(task.selection_samples)] * len(rows)), strict=True
    ):
        ledger.spend(row, drawn)
        ledger.classes[row] = drawn.counts.argmax()


def run_scratch(task: Task, ledger: Ledger, rows: Ints, passes: Ints) -> None:
    """Fresh votes bound the class in the ledger, as if there were no cache."""
    for row, drawn in zip(rows, task.draw(rows, Stream.FRESH, [range(m) for m in passes]), strict=True):
        ledger.spend(row, drawn)
        c, m = ledger.classes[row], len(drawn.votes)
        ledger.top_votes[row], ledger.samples[row] = drawn.counts[c], m
        claims = _claims(task, c, drawn.counts, m)
        otherwise = Outcome.RUNNER_UP_TOO_CLOSE if task.two_sided else Outcome.NO_MAJORITY
        ledger.claim(np.array([row]), claims.top_lower, claims.runner_up_upper, otherwise)


def _claims(task: Task, c: int, counts: Ints, samples: int) -> Claims:
    if task.two_sided:
        return claim_two_sided([c], [counts[c]], [np.delete(counts, c).max()], samples, task.alpha, task.sigma)
    return claim_one_sided([c], [counts[c]], samples, task.alpha, task.sigma)


def scratch_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The radius that fresh votes are expected to reach; flips do not matter to them."""
    if task.two_sided:
        return scratch_table(task.alpha / 2, largest).two_sided_radius(task.sigma)
    return scratch_table(task.alpha, largest).radius(task.sigma)
