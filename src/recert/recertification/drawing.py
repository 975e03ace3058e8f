"""Votes of the modified model: which are drawn for each input, what is counted in them, and bounds computed beside drawing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recert.noise import Stream
from recert.recertification.ahead import Ahead, Cost
from recert.recertification.method import Bounds, Counts, Inputs, Method, Noises, Option, Terms
from recert.recertification.questions import SelectedInputs
from recert.recertification.task import Task
from recert.votes import SelectionCounts, Votes, vote_dtype

Ints = NDArray[np.int64]

ROWS_AT_ONCE = 512
"""Inputs whose replays are drawn and in memory together: many enough for full batches, few enough for any number of inputs."""
VOTES_AT_ONCE = 2**28
"""Cached votes of these, at most; where that would be very few inputs, of a block."""
ROWS_BOUNDED_TOGETHER = 64
"""Many enough to keep threads busy, few enough to begin while others are still drawn."""
BLOCKS_AT_ONCE = 3
"""Of them, so many are bounded at the same time."""


@dataclass(frozen=True)
class Assignment:
    """What the plan gives one input: an option and forward passes. The claim is about the class `top`."""

    row: int
    top: int
    option: Option
    passes: int


@dataclass(frozen=True)
class Replayed:
    """An input after its votes were drawn. Without counts the cache had too few noises for what was assigned."""

    assignment: Assignment
    counts: Counts | None = None
    cost: Cost = field(default_factory=Cost)
    cached: Ints | None = None
    """The original's votes by class, with which fresh votes are compared; None for baselines, which owe nothing to the original."""

    @property
    def row(self) -> int:
        return self.assignment.row


class Bounded(NamedTuple):
    """Bounds of a block, and what they would be had nothing flipped: NaN where that is not known."""

    claimed: Bounds
    without_flips: Bounds


@dataclass(frozen=True)
class Block:
    """Inputs whose bounds are computed together, in the pool, while later votes are drawn."""

    inputs: list[Replayed]
    terms: Terms | None = None
    """None where the cache had too few noises for any claim."""
    bounds: Future[Bounded] | None = None
    """None if nothing is to be bounded, or not yet."""


@contextmanager
def bounds_pool() -> Iterator[Executor]:
    """Where bounds are computed. They spread over all cores themselves, but the last searches of a block leave most of these idle."""
    pool = ThreadPoolExecutor(BLOCKS_AT_ONCE, thread_name_prefix="recert-bounds")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def carry_out(
    task: Task,
    given: Sequence[Assignment],
    flips: float,
    pool: Executor | None,
    ahead: Ahead | None = None,
    beside: Callable[[], None] | None = None,
) -> list[Block]:
    """Draw the votes of all assignments that have passes, count them, and have their bounds computed, if there is a pool.

    What is drawn ahead is drawn behind the first of them, unless it was before; then it is used. `beside` is called once, when the
    first votes have come, and more are being drawn.
    """
    to_do = [beside] if beside else []
    given = [each for each in given if each.passes > 0]
    ahead = ahead or Ahead(task)
    blocks: list[Block] = []
    at_once = int(min(ROWS_AT_ONCE, max(ROWS_BOUNDED_TOGETHER, VOTES_AT_ONCE // task.terms.samples)))
    for start in range(0, len(given), at_once):
        blocks += _draw_together(task, given[start : start + at_once], flips, pool, ahead, to_do)
    while to_do:
        to_do.pop()()
    return blocks


def _draw_together(
    task: Task,
    given: Sequence[Assignment],
    flips: float,
    pool: Executor | None,
    ahead: Ahead,
    to_do: list[Callable[[], None]],
) -> list[Block]:
    """One draw for all: each on its own would pad its last batch, and leave a device idle before the next."""
    cached = task.cached_votes([each.row for each in given if each.option.method.reads_cached_votes])
    terms, wanted = dict[Option, Terms](), list[tuple[Assignment, Noises | None]]()
    for option, some in groupby(given, key=lambda each: each.option):
        group = list(some)
        terms[option] = replace(task.terms, sides=option.sides, flips=flips, largest=max(each.passes for each in group))
        wanted += zip(group, _noises(task, group, cached, terms[option]), strict=True)
    blocks = [Block([Replayed(each) for each, noises in wanted if noises is None])]
    possible = [(each, noises) for each, noises in wanted if noises is not None]
    block: list[Replayed] = []
    for (each, noises), votes in zip(possible, _drawn(task, possible, ahead), strict=True):
        while to_do:
            to_do.pop()()
        # A block is of one option, whose inputs follow each other; it is bounded while the next is drawn.
        if block and (each.option is not block[0].assignment.option or len(block) == ROWS_BOUNDED_TOGETHER):
            blocks.append(bounded(Block(block, terms[block[0].assignment.option]), pool))
            block = []
        counts = each.option.method.count(noises, votes.votes, terms[each.option])
        original = None if task.method.baseline else task.cached_counts[each.row]
        block.append(Replayed(each, counts, votes.cost, original))
    if block:
        blocks.append(bounded(Block(block, terms[block[0].assignment.option]), pool))
    return blocks


class _VotesOf(NamedTuple):
    """Votes of one input, and what drawing them now took: of those that were drawn ahead nothing."""

    votes: Votes
    cost: Cost


def _drawn(task: Task, wanted: Sequence[tuple[Assignment, Noises]], ahead: Ahead) -> Iterator[_VotesOf]:
    """The votes of each, in order."""
    missing = [
        ahead.missing(each.row, noises.samples) if noises.stream == Stream.ESTIMATION else noises.samples
        for each, noises in wanted
    ]
    ahead.finish()
    rows, noises_of = [each.row for each, _ in wanted], [noises.stream for _, noises in wanted]
    behind = ahead.behind(sum(map(len, missing)))
    drawing = task.draw(
        [*rows, *(row for row, _ in behind)],
        [*zip(noises_of, missing, strict=True), *((Stream.ESTIMATION, samples) for _, samples in behind)],
    )
    for (each, noises), left in zip(wanted, missing, strict=True):
        drawn = next(drawing)
        all_votes = drawn.votes if left is noises.samples else ahead.joined(each.row, noises.samples, drawn.votes)
        yield _VotesOf(all_votes, Cost.of(drawn))
    ahead.take(drawing)
    if not behind:  # to its end, where a source names inputs on which the network failed
        ahead.finish()


def _noises(task: Task, group: Sequence[Assignment], cached: Mapping[int, Votes], terms: Terms) -> list[Noises | None]:
    """The noises of inputs that have one option."""
    rows, tops, passes = np.array([(each.row, each.top, each.passes) for each in group]).T
    chosen, none = (
        SelectedInputs(SelectionCounts(task.selection.counts[rows]), tops),
        np.zeros(0, vote_dtype(terms.classes)),
    )
    votes = [cached.get(row, none) for row in rows.tolist()]
    return group[0].option.method.noises_of(Inputs(chosen, passes, votes, task.cached_counts[rows]), terms)


def bounded(block: Block, pool: Executor | None) -> Block:
    """The block with its bounds under way, if there is a pool."""
    if pool is None or block.terms is None:
        return block
    return replace(block, bounds=pool.submit(_bounds_of, block.inputs, block.terms))


def _bounds_of(inputs: Sequence[Replayed], terms: Terms) -> Bounded:
    method = inputs[0].assignment.option.method
    counts = [each.counts for each in inputs if each.counts is not None]
    claimed = method.bound(counts, terms)
    calm = [
        method.without_flips(each.counts, each.assignment.top, each.cached)
        if each.counts is not None and each.cached is not None
        else None
        for each in inputs
    ]
    return Bounded(claimed, _with_others(method, claimed, counts, calm, terms))


def _with_others(
    method: Method, claimed: Bounds, counts: Sequence[Counts], others: Sequence[Counts | None], terms: Terms
) -> Bounds:
    """Bounds of other counts of the same inputs; where these are the same, nothing is computed again."""
    known = np.array([each is not None for each in others])
    top = np.where(known, claimed.top_lower, np.nan)
    runner_up = None if claimed.runner_up_upper is None else np.where(known, claimed.runner_up_upper, np.nan)
    differ = [i for i, each in enumerate(others) if each is not None and each is not counts[i]]
    if differ:
        bounds = method.for_comparison().bound([each for i in differ if (each := others[i]) is not None], terms)
        top[differ] = bounds.top_lower
        if runner_up is not None and bounds.runner_up_upper is not None:
            runner_up[differ] = bounds.runner_up_upper
    return Bounds(top, runner_up)


def counted(blocks: Sequence[Block]) -> Iterator[tuple[Replayed, Counts]]:
    """Inputs whose votes were drawn, and what was counted in them."""
    return ((each, each.counts) for block in blocks for each in block.inputs if each.counts is not None)
