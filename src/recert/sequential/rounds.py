"""Inputs decided one by one: each is drawn until its radius is shown, or seems out of reach, or its votes are spent."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert.bounds.anytime import reached
from recert.errors import UnusableInputs
from recert.sampling import Progress, ProgressCallback, VoteSource, Work, collect_each
from recert.sequential.tally import Tally

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FIRST_NOISES = 2
FIRST_AT_MOST = 32
"""No more noises at a time than an input has had before, or so many: then flips are known before an input is given thousands."""
GROWTH = 0.05
"""Of the noises that an input has had, it is given at least so many more before one looks again: few looks, few votes too many."""
ROWS_AT_ONCE = 2048
"""Inputs under way: enough for full batches while some are decided, few enough for any number of inputs."""
VOTES_AT_ONCE = 2**28
"""Cached votes of these in memory, at most."""

UNDER_WAY, SHOWN, GIVEN_UP, SPENT = range(4)
"""States of an input. Its votes are spent when it has had as many as it may, or there are no more."""


@dataclass
class Decided:
    """How far inputs (rows) are: how many radii were shown of each, in ascending order, its state, and what it cost."""

    shown: Ints
    state: Ints
    top: Floats
    """Of the largest radius that was shown: the class is above this,"""
    rival: Floats
    """and every other class below this."""
    passes: Ints
    seconds: Floats
    nobody: Ints
    lacking: Floats
    """How much evidence the next radius lacks."""

    @classmethod
    def none_of(cls, rows: int) -> "Decided":
        whole = [np.zeros(rows, dtype=np.int64) for _ in range(4)]
        return cls(
            whole[0], whole[1], np.zeros(rows), np.ones(rows), whole[2], np.zeros(rows), whole[3], np.zeros(rows)
        )


@dataclass(frozen=True)
class Question:
    """What is asked of every row: radii in ascending order, with an error of alpha for all of them, in at most so many votes."""

    radii: Floats
    alpha: float
    most: int


def decide(
    tally: Tally,
    question: Question,
    source: VoteSource,
    positions: Ints,
    progress: ProgressCallback | None,
    *,
    votes_of_a_row: int = 1,
) -> Iterator[Decided]:
    """Draw until every input is decided; what is known after each round. It may be left at any time: what was shown holds."""
    decided = Decided.none_of(len(positions))
    at_once = int(min(ROWS_AT_ONCE, max(1, VOTES_AT_ONCE // votes_of_a_row)))
    waiting = list(range(len(positions)))
    failed: dict[int, tuple[str, str]] = {}
    active = np.zeros(0, dtype=np.int64)
    while waiting or len(active):
        # Inputs that are decided make room for others, so that batches stay full.
        new, waiting = np.array(waiting[: at_once - len(active)], dtype=np.int64), waiting[at_once - len(active) :]
        tally.begin(new)
        active = np.concatenate([active, new])
        if len(new):
            _look(tally, question, decided, new)
            yield decided  # from a cache much is known before a vote is drawn
        works = _works(tally, question, decided, active, source, positions)
        failed |= _draw(tally, decided, works, source, progress)
        _look(tally, question, decided, active)
        over = decided.state[active] != UNDER_WAY
        for row in active[over]:
            tally.end(int(row))
        active = active[~over]
        yield decided
    if failed:
        raise UnusableInputs(failed, len(source.digests))


def _look(tally: Tally, question: Question, decided: Decided, rows: Ints) -> None:
    """See which radii are shown, and which inputs are done. A radius counts only if all smaller ones were shown: then a claim that is
    wrong is wrong about the smallest radius that is not true, so that many radii cost no more alpha than one."""
    rows = rows[decided.state[rows] == UNDER_WAY]
    if not len(rows):
        return
    evidence = tally.evidence(rows)
    shown = reached(evidence.log, question.alpha)
    for radius in range(len(question.radii)):
        new = shown[:, radius] & (decided.shown[rows] == radius)
        decided.shown[rows[new]] += 1
        decided.top[rows[new]], decided.rival[rows[new]] = evidence.top[new, radius], evidence.rival[new, radius]
    all_shown = decided.shown[rows] == len(question.radii)
    decided.state[rows[all_shown]] = SHOWN
    rows, log = rows[~all_shown], evidence.log[~all_shown]
    if not len(rows):
        return
    # All of it where there is none.
    wanted = -np.log(question.alpha)
    lacking = wanted - log[np.arange(len(rows)), decided.shown[rows]]
    decided.lacking[rows] = np.where(np.isfinite(lacking), lacking, wanted)
    # To give up costs no alpha: nothing is claimed.
    needed = tally.passes_needed(rows, decided.shown[rows], decided.lacking[rows])
    hopeless = needed > question.most - decided.passes[rows]
    decided.state[rows[hopeless]] = GIVEN_UP
    decided.state[rows[~hopeless & (decided.passes[rows] >= question.most)]] = SPENT


def _works(
    tally: Tally, question: Question, decided: Decided, active: Ints, source: VoteSource, positions: Ints
) -> list[tuple[int, Work]]:
    """The next noises of each input: as many as it takes at least until something can be decided."""
    rows = active[decided.state[active] == UNDER_WAY]
    if not len(rows):
        return []
    soonest = tally.soonest(rows, decided.shown[rows], decided.lacking[rows])
    soonest = np.minimum(soonest, np.maximum(FIRST_AT_MOST, decided.passes[rows]))
    wanted = np.maximum(np.maximum(soonest, FIRST_NOISES), np.ceil(GROWTH * decided.passes[rows]).astype(np.int64))
    # Few passes may take as long as many: then many are drawn, and batches are filled.
    at_once = getattr(source, "passes_at_once", 1)
    wanted = np.maximum(wanted, at_once // len(rows))
    more, one_more = divmod(int(-wanted.sum() % at_once), len(rows))
    wanted += more + (np.arange(len(rows)) < one_more)
    works: list[tuple[int, Work]] = []
    for row, count in zip(rows.tolist(), wanted.tolist(), strict=True):
        left = question.most - int(decided.passes[row])
        samples = tally.next_noises(row, count)[:left]
        if len(samples):
            works.append((row, Work(int(positions[row]), tally.stream, samples)))
        else:
            decided.state[row] = SPENT
    return works


def _draw(
    tally: Tally, decided: Decided, works: list[tuple[int, Work]], source: VoteSource, progress: ProgressCallback | None
) -> dict[int, tuple[str, str]]:
    """Draw and count. Inputs on which the network raises are given up, and named at the end; others go on."""
    drawn = collect_each(source, [work for _, work in works], "deciding", _of_all(progress, decided))
    done = 0
    try:
        for row, work in works:
            votes = next(drawn)
            done += 1
            tally.add(row, work.samples, votes)
            decided.passes[row] += len(votes.votes)
            decided.seconds[row] += votes.seconds
            decided.nobody[row] += votes.nobody
        next(drawn, None)  # to the end, where a source names inputs on which the network failed
    except UnusableInputs as error:
        failed = {row for row, work in works if work.position in error.failures}
        decided.state[list(failed)] = GIVEN_UP
        return error.failures
    return {}


def _of_all(progress: ProgressCallback | None, decided: Decided) -> ProgressCallback | None:
    """Progress over all rounds. How many votes it will take is judged by the inputs that are decided: nobody knows beforehand."""
    if progress is None:
        return None
    before = int(decided.passes.sum())
    share = max(float((decided.state != UNDER_WAY).mean()), 0.02)

    def report(now: Progress) -> None:
        done = before + now.done
        progress(Progress(now.task, done, max(before + now.total, int(before / share))))

    return report
