"""Re-certification, step by step: select, pilot, plan, draw, count, bound, certify."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Certificates, Outcome, claim_from_bounds
from recert.noise import Stream
from recert.planning import Choice, Objective, best_option, plan_budget
from recert.recertification.method import Bounds, Counts, Noises, Option, Terms
from recert.recertification.task import Task
from recert.sampling import Drawn

Ints = NDArray[np.int64]

ROWS_AT_ONCE = 512
"""Inputs whose replays are drawn and in memory together: many enough for full batches, few enough for any number of inputs."""
ROWS_BOUNDED_TOGETHER = 64
"""Many enough to keep threads busy, few enough to begin while others are still drawn."""
PILOT_SHARE = 8
"""One input in so many is done first; flips on these tell what to expect on the others."""
PILOT_FLIPS = 0.01
"""What to expect on these: so few that nothing is lost if there are none, but bounds that fall with every flip are not chosen."""
MOST_OF_MEAN = 32
"""No plan gives an input more than a few times the mean; smaller tables are sooner made."""


@dataclass(frozen=True)
class Assignment:
    """What the plan gives one input: an option and forward passes. The claim is about the class `top`."""

    row: int
    top: int
    option: Option
    passes: int


@dataclass(frozen=True)
class Replayed:
    """An input whose votes were drawn and counted. Without counts the cache had too few noises for what was assigned."""

    assignment: Assignment
    counts: Counts | None = None
    drawn: Drawn | None = None


@dataclass(frozen=True)
class Block:
    """Inputs whose bounds are computed together, in the pool, while later votes are drawn."""

    inputs: list[Replayed]
    bounds: Future[Bounds] | None
    """None if nothing is to be bounded."""


def run(task: Task) -> Certificates:
    """Certificates of the modified model."""
    with bounds_pool() as pool:
        return certificates(task, replay(task, pool))


def replay(task: Task, pool: Executor | None) -> "Done":
    """Draw every vote that the certificates need, and have bounds computed; without a pool nothing is bounded.

    Which votes are asked for depends on selection votes and on flips of pilot inputs, never on a bound.
    """
    if task.certificate not in task.method.certificates:
        raise ValueError(
            f"expected certificate='one-sided' with method={task.method.name!r}, as in the paper, got {task.certificate!r}"
        )
    classes, rows, chosen_by = _choose_classes(task)
    budget = task.samples * len(task.positions)
    pilot = _pilot(task, rows) if _has_plan(task) else rows
    planned = _plan(task, classes, rows, PILOT_FLIPS, budget)
    given = [each for each in planned if each.row in set(pilot.tolist())]
    blocks = carry_out(task, given, PILOT_FLIPS, pool)
    others = np.setdiff1d(rows, pilot)
    if len(others):
        flips = _flips(task, pilot, blocks)
        spent = _passes(blocks) + sum(len(chosen_by[row].votes) for row in pilot if chosen_by)
        planned = _plan(task, classes, others, flips, budget - spent)
        blocks += carry_out(task, planned, flips, pool)
        given += planned
    outcome = np.full(len(task.positions), Outcome.NOT_CERTIFIED_BEFORE.value, dtype=object)
    outcome[[each.row for each in given if not each.passes]] = Outcome.LEFT_OUT_BY_PLAN.value
    return Done(classes, outcome, blocks, chosen_by)


@dataclass(frozen=True)
class Done:
    """What was drawn and counted, and bounds that are on their way."""

    classes: Ints
    """The class that each row's claim is about."""
    outcome: NDArray[np.object_]
    """Of rows for which nothing was drawn."""
    blocks: list[Block]
    chosen_by: Sequence[Drawn] = ()
    """Votes of the modified model that chose the classes, for every row, which are charged; mostly none."""


# select


def _choose_classes(task: Task) -> tuple[Ints, Ints, list[Drawn]]:
    """The class of every row, the rows that may be certified, and the votes that were drawn to choose.

    The class is the cached one, and no vote is drawn; for Cohen's baseline the modified model itself votes.
    """
    rows, votes = np.arange(len(task.positions)), task.method.votes_to_choose()
    if not votes:
        return task.selection.classes, rows[task.certified_before()], []
    drawn = list(task.draw(rows.tolist(), [(Stream.SELECTION, range(votes))] * len(rows)))
    return np.array([each.counts.argmax() for each in drawn], dtype=np.int64), rows, drawn


# pilot


def _has_plan(task: Task) -> bool:
    """Whether anything depends on the flips to expect."""
    return len(task.options) > 1 or task.objective is not None


def _pilot(task: Task, rows: Ints) -> Ints:
    """Some rows, spread evenly by their digests, which know nothing of votes."""
    order = sorted(rows.tolist(), key=lambda row: task.cache.digests[row])
    return np.array(sorted(order[::PILOT_SHARE]), dtype=np.int64)


def _flips(task: Task, rows: Ints, blocks: Sequence[Block]) -> float:
    """Losses per replay, relative to the share of votes that the class does not have: see `Circumstances`."""
    kept, lost = np.zeros(len(task.positions), dtype=np.int64), np.zeros(len(task.positions), dtype=np.int64)
    for each, counts in _counted(blocks):
        kept[each.assignment.row], lost[each.assignment.row] = counts.kept, counts.lost
    votes = task.selection.counts[rows]
    top_share = (votes[np.arange(len(rows)), task.selection.classes[rows]] + 0.5) / (votes.sum(axis=1) + 1.0)
    at_risk = float(((kept[rows] + lost[rows]) * (1 - top_share)).sum())
    # One digit is enough to plan with, and lets tables be used again.
    return float(f"{lost[rows].sum() / at_risk:.1g}") if at_risk else 0.0


# plan


def _plan(task: Task, classes: Ints, rows: Ints, flips: float, budget: int) -> list[Assignment]:
    """An option and passes for each row. Skipped inputs leave their share of the budget to others."""
    return assignments(rows, classes, task.options, _choice(task, rows, flips, budget))


def assignments(rows: Ints, classes: Ints, options: Sequence[Option], choice: Choice) -> list[Assignment]:
    """What was chosen for each row. The last options have the bounds that take longest, and come first: their bounds are
    computed while the votes of others are drawn."""
    return [
        Assignment(int(rows[i]), int(classes[rows[i]]), options[choice.option[i]], int(choice.passes[i]))
        for i in np.argsort(-choice.option, kind="stable")
    ]


def _choice(task: Task, rows: Ints, flips: float, budget: int) -> Choice:
    passes = np.full(len(rows), task.samples)
    if not _has_plan(task):
        return Choice(np.zeros(len(rows), dtype=np.int64), passes)
    cached = task.terms.samples
    largest = min(task.method.most_passes(cached), cached, MOST_OF_MEAN * task.samples)
    beliefs = task.beliefs.of(rows)
    expected = [
        option.method.expected_radius(replace(task.terms, sides=option.sides, flips=flips), largest)
        for option in task.options
    ]
    if task.objective is None:
        return Choice(best_option(beliefs, expected, Objective(), passes), passes)
    return plan_budget(beliefs, expected, task.objective, budget, largest)


# draw, count, and begin to bound


@contextmanager
def bounds_pool() -> Iterator[Executor]:
    """Where bounds are computed beside drawing: one block at a time, since bounds spread over all cores themselves."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="recert-bounds")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def carry_out(task: Task, given: Sequence[Assignment], flips: float, pool: Executor | None) -> list[Block]:
    """Draw the votes of all assignments that have passes, count them, and have their bounds computed."""
    given = [each for each in given if each.passes > 0]
    blocks: list[Block] = []
    for start in range(0, len(given), ROWS_AT_ONCE):
        blocks += _draw_together(task, given[start : start + ROWS_AT_ONCE], flips, pool)
    return blocks


def _draw_together(task: Task, given: Sequence[Assignment], flips: float, pool: Executor | None) -> list[Block]:
    """One draw for all: each on its own would pad its last batch, and leave a device idle before the next."""
    terms = {option: _terms(task, option, given, flips) for option in {each.option for each in given}}
    wanted = [(each, _noises(task, each, terms[each.option])) for each in given]
    blocks = [Block([Replayed(each) for each, noises in wanted if noises is None], None)]
    possible = [(each, noises) for each, noises in wanted if noises is not None]
    drawn = task.draw([each.row for each, _ in possible], [(noises.stream, noises.samples) for _, noises in possible])
    block: list[Replayed] = []
    for (each, noises), votes in zip(possible, drawn, strict=True):
        if block and (each.option != block[0].assignment.option or len(block) == ROWS_BOUNDED_TOGETHER):
            blocks.append(_bounded(block, terms[block[0].assignment.option], pool))
            block = []
        block.append(Replayed(each, each.option.method.count(noises, votes.votes, terms[each.option]), votes))
    if block:
        blocks.append(_bounded(block, terms[block[0].assignment.option], pool))
    return blocks


def _terms(task: Task, option: Option, given: Sequence[Assignment], flips: float) -> Terms:
    largest = max(each.passes for each in given if each.option == option)
    return replace(task.terms, sides=option.sides, flips=flips, largest=largest)


def _noises(task: Task, given: Assignment, terms: Terms) -> Noises | None:
    selected = task.selection.of(given.row, given.top)
    return given.option.method.noises(selected, task.cached_votes(given.row), given.passes, terms)


def _bounded(block: list[Replayed], terms: Terms, pool: Executor | None) -> Block:
    if pool is None:
        return Block(block, None)
    method, counts = block[0].assignment.option.method, [each.counts for each in block if each.counts is not None]
    return Block(block, pool.submit(method.bound, counts, terms))


def _counted(blocks: Sequence[Block]) -> Iterator[tuple[Replayed, Counts]]:
    """Inputs whose votes were drawn, and what was counted in them."""
    return ((each, each.counts) for block in blocks for each in block.inputs if each.counts is not None)


def _passes(blocks: Sequence[Block]) -> int:
    return sum(len(each.drawn.votes) for each, _ in _counted(blocks) if each.drawn is not None)


# certify


def certificates(task: Task, done: Done) -> Certificates:
    """Certificates from the bounds, and what they cost."""
    rows, noise = len(task.positions), task.terms.noise
    top_lower, runner_up_upper = np.zeros(rows), np.ones(rows)
    for block in done.blocks:
        if block.bounds is not None:
            here, bounds = [each.assignment.row for each in block.inputs], block.bounds.result()
            rest = 1 - bounds.top_lower
            top_lower[here] = bounds.top_lower
            runner_up_upper[here] = rest if bounds.runner_up_upper is None else np.minimum(bounds.runner_up_upper, rest)
    outcome, method = done.outcome.copy(), np.full(rows, task.method.name, dtype=object)
    for each in (each for block in done.blocks for each in block.inputs):
        abstention = Outcome.TRANSFER_TOO_WEAK if each.counts is None else each.counts.abstention
        outcome[each.assignment.row], method[each.assignment.row] = abstention.value, each.assignment.option.method.name
    claims = claim_from_bounds(done.classes, top_lower, runner_up_upper, noise, otherwise=outcome)
    return Certificates.build(
        task.cache.digests, claims, task.settings(), noise, method=method, **_counts(done, rows), **_costs(done, rows)
    )  # fmt: skip


def _counts(done: Done, rows: int) -> dict[str, Ints]:
    """Columns that `Counts` has, by name."""
    names = ("top_votes", "samples", "replayed", "kept", "lost", "gained")
    columns = {name: np.zeros(rows, dtype=np.int64) for name in names}
    for each, counts in _counted(done.blocks):
        for name in names:
            columns[name][each.assignment.row] = getattr(counts, name)
    return columns


def _costs(done: Done, rows: int) -> dict[str, NDArray[np.float64]]:
    """Columns of what was drawn for each row."""
    passes, seconds, nobody = np.zeros((3, rows))
    drawn = [*enumerate(done.chosen_by), *((each.assignment.row, each.drawn) for each, _ in _counted(done.blocks))]
    for row, votes in drawn:
        assert votes is not None
        passes[row] += len(votes.votes)
        seconds[row] += votes.seconds
        nobody[row] += len(votes.votes) - votes.counts.sum()
    return {"forward_passes": passes, "seconds": seconds, "nobody": nobody}
