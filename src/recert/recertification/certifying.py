"""From bounds and counts to certificates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Certificates, Outcome, claim_from_bounds
from recert.noise import Noise
from recert.recertification.ahead import Cost
from recert.recertification.drawing import Block, counted
from recert.recertification.method import Bounds
from recert.recertification.task import Task

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Done:
    """What was drawn and counted, and bounds that are still being computed."""

    classes: Ints
    """The class that each row's claim is about."""
    outcome: NDArray[np.object_]
    """Of rows for which nothing was drawn."""
    blocks: list[Block]
    cost_of_choice: Sequence[Cost] = ()
    """Of votes of the modified model that chose the classes, for every row; mostly there are none."""
    cost_ahead: Sequence[tuple[int, Cost]] = ()
    """Of votes that were drawn before the plan was known, by row."""


def certificates(task: Task, done: Done) -> Certificates:
    """Certificates from the bounds, and what they cost."""
    rows, noise = len(task.positions), task.terms.noise
    top_lower, runner_up_upper = np.zeros(rows), np.ones(rows)
    # Without votes nothing could be shown, whatever flips: the budget decided.
    radius_without_flips = np.zeros(rows)
    outcome, method = done.outcome.copy(), np.full(rows, task.method.name, dtype=object)
    for block in done.blocks:
        here = [each.row for each in block.inputs]
        if block.bounds is not None:
            bounds = block.bounds.result()
            top_lower[here], runner_up_upper[here] = _pair(bounds.claimed)
            radius_without_flips[here] = _radius(noise, bounds.without_flips)
        for each in block.inputs:
            abstention = Outcome.TRANSFER_TOO_WEAK if each.counts is None else each.counts.abstention
            outcome[each.row], method[each.row] = abstention.value, each.assignment.option.method.name
    claims = claim_from_bounds(done.classes, top_lower, runner_up_upper, noise, otherwise=outcome)
    # A baseline owes nothing to the original: nothing flips in it.
    known = {} if task.method.baseline else {"radius_without_flips": radius_without_flips}
    return Certificates.build(
        task.cache.digests, claims, task.settings(), noise, method=method, **_columns(done, rows), **known
    )


def _pair(bounds: Bounds) -> tuple[Floats, Floats]:
    """On the class and on the runner-up, which has at most what the class leaves."""
    rest = 1 - bounds.top_lower
    return bounds.top_lower, rest if bounds.runner_up_upper is None else np.minimum(bounds.runner_up_upper, rest)


def _radius(noise: Noise, bounds: Bounds) -> Floats:
    """NaN where the bounds are."""
    top, runner_up = _pair(bounds)
    known = ~np.isnan(top)
    radii = np.full(len(top), np.nan)
    radii[known] = noise.radius(top[known], runner_up[known])
    return radii


def _columns(done: Done, rows: int) -> dict[str, NDArray[Any]]:
    """What was counted and what it cost, by the names that `Certificates` has for it."""
    names = ("top_votes", "samples", "replayed", "kept", "lost", "gained")
    columns: dict[str, NDArray[Any]] = {
        name: np.zeros(rows, dtype=np.int64) for name in (*names, "forward_passes", "nobody")
    }
    columns["seconds"] = np.zeros(rows)
    for each, counts in counted(done.blocks):
        for name in names:
            columns[name][each.row] = getattr(counts, name)
    of_blocks = [(each.row, each.cost) for each, _ in counted(done.blocks)]
    for row, cost in [*enumerate(done.cost_of_choice), *done.cost_ahead, *of_blocks]:
        columns["forward_passes"][row] += cost.passes
        columns["seconds"][row] += cost.seconds
        columns["nobody"][row] += cost.nobody
    return columns
