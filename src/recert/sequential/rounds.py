"""Inputs decided one by one: each is drawn until its radius is shown, or seems out of reach, or its votes are spent."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recert.bounds.anytime import reached
from recert.errors import UnusableInputs
from recert.sampling import Progress, ProgressCallback, VoteChunk, VoteSource, Work
from recert.sampling.begun import Draw, begin
from recert.sampling.source import collected
from recert.sequential.tally import Tally

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FIRST_NOISES = 2
ENOUGH_NOISES = 1.5
"""So many times the noises that so many passes are expected to take: those beyond are cut off."""
FIRST_AT_MOST = 32
"""No more noises at a time than an input has had before, or so many: then flips are known before an input is given thousands."""
GROWTH = 0.05
"""Of the noises that an input has had, it is given at least so many more before one looks again: few looks, few votes too many."""
WANTED_OF_A_BATCH = 0.25
"""So much of a batch must be wanted for two rounds to be under way. What fills it up is not wasted, but could decide other inputs sooner."""
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
    enough: Callable[[Decided], bool],
    progress: ProgressCallback | None,
    *,
    votes_of_a_row: int = 1,
) -> Decided:
    """Draw until every input is decided, or enough is known, which is asked whenever more is. What was shown until then holds."""
    decided = Decided.none_of(len(positions))
    at_once = int(min(ROWS_AT_ONCE, max(1, VOTES_AT_ONCE // votes_of_a_row)))
    waiting, free = np.arange(len(positions)), np.zeros(0, dtype=np.int64)
    rounds: deque[_Round] = deque()
    failed: dict[int, tuple[str, str]] = {}
    try:
        while len(waiting) or len(free) or rounds:
            # Inputs that are decided make room for others, so that batches stay full.
            room = at_once - len(free) - sum(len(each.rows) for each in rounds)
            new, waiting = waiting[:room], waiting[room:]
            if len(new):
                tally.begin(new)
                # From a cache much is known before a vote is drawn.
                free = np.union1d(free, _still_open(tally, question, decided, new))
                if enough(decided):
                    break
            for rows in _divided(free, tally, decided, getattr(source, "passes_at_once", 1), len(rounds)):
                works = _works(tally, question, decided, rows, source, positions)
                rounds.append(_Round.begun(rows, works, source, _of_all(progress, decided)))
                free = np.setdiff1d(free, rows)
            if rounds:
                failed |= rounds[0].count(tally, decided)
                free = np.union1d(free, _still_open(tally, question, decided, rounds.popleft().rows))
                if enough(decided):
                    break
        else:
            if failed:
                raise UnusableInputs(failed, len(source.digests))
        while rounds:  # enough is known, but these votes are drawn already
            rounds[0].count(tally, decided)
            _look(tally, question, decided, rounds.popleft().rows)
    finally:
        for each in rounds:
            each.give_up()
    return decided


def _divided(free: Ints, tally: Tally, decided: Decided, at_once: int, under_way: int) -> list[Ints]:
    """Which inputs are drawn next. Two rounds, of half of them each, are under way where that fills batches with votes that are wanted:
    while votes of one are looked at, those of the other are drawn. Where each row may cost money, `at_once` is 1, there is one round.
    """
    parts = 1 if at_once == 1 else 2 - under_way
    if not len(free):
        return []
    if len(free) < parts or _wanted(tally, decided, free).sum() < WANTED_OF_A_BATCH * parts * at_once:
        # Too few for a round of their own, they wait for those under way, and are divided anew together with them.
        return [] if under_way else [free]
    return [free[i::parts] for i in range(parts)]


@dataclass(frozen=True)
class _Round:
    """Inputs whose next noises are drawn together."""

    rows: Ints
    works: list[tuple[int, Work]]
    chunks: Iterator[VoteChunk]
    classes: int

    @classmethod
    def begun(
        cls, rows: Ints, works: list[tuple[int, Work]], source: VoteSource, progress: ProgressCallback | None
    ) -> Self:
        chunks = source.draw([work for _, work in works], "deciding", progress)
        begin(chunks)
        return cls(rows, works, chunks, source.classes)

    def count(self, tally: Tally, decided: Decided) -> dict[int, tuple[str, str]]:
        """Wait for the votes, and count them. Inputs on which the network raises are given up, and named at the end; others go on."""
        drawn = collected(self.chunks, [work for _, work in self.works], self.classes)
        try:
            for row, work in self.works:
                votes = next(drawn)
                tally.add(row, work.samples, votes)
                decided.passes[row] += len(votes.votes)
                decided.seconds[row] += votes.seconds
                decided.nobody[row] += votes.nobody
            next(drawn, None)  # to the end, where a source names inputs on which the network failed
        except UnusableInputs as error:
            failed = {row for row, work in self.works if work.position in error.failures}
            decided.state[list(failed)] = GIVEN_UP
            return error.failures
        return {}

    def give_up(self) -> None:
        """Nobody waits for the votes any more. A store keeps those that came."""
        if isinstance(self.chunks, Generator | Draw):
            self.chunks.close()


def _still_open(tally: Tally, question: Question, decided: Decided, rows: Ints) -> Ints:
    """Look at rows, and let go of those that are decided: the others."""
    _look(tally, question, decided, rows)
    over = decided.state[rows] != UNDER_WAY
    for row in rows[over].tolist():
        tally.end(row)
    return np.asarray(rows[~over])


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


def _wanted(tally: Tally, decided: Decided, rows: Ints) -> Ints:
    """How many noises each input is to be given at least: as many as it takes until something can be decided."""
    soonest = tally.soonest(rows, decided.shown[rows], decided.lacking[rows])
    soonest = np.minimum(soonest, np.maximum(FIRST_AT_MOST, decided.passes[rows]))
    growth = np.ceil(GROWTH * decided.passes[rows]).astype(np.int64)
    return np.asarray(np.maximum(np.maximum(soonest, FIRST_NOISES), growth))


def _works(
    tally: Tally, question: Question, decided: Decided, rows: Ints, source: VoteSource, positions: Ints
) -> list[tuple[int, Work]]:
    """The next noises of each input, so many that batches are full."""
    noises, left = _wanted(tally, decided, rows), question.most - decided.passes[rows]
    passes, at_once = left, getattr(source, "passes_at_once", 1)
    if at_once > 1:  # few passes take as long as many: then many are drawn
        share = tally.passes_of_a_noise(rows)
        passes = _filled(np.maximum(np.ceil(noises * share).astype(np.int64), at_once // len(rows)), left, at_once)
        noises = np.ceil(ENOUGH_NOISES * (passes / share + 1)).astype(np.int64)
    works: list[tuple[int, Work]] = []
    for row, count, most in zip(rows.tolist(), noises.tolist(), passes.tolist(), strict=True):
        samples = tally.next_noises(row, count)[:most]
        if len(samples):
            works.append((row, Work(int(positions[row]), tally.stream, samples)))
        else:
            decided.state[row] = SPENT
    return works


def _filled(passes: Ints, left: Ints, at_once: int) -> Ints:
    """Passes of each input, more evenly by what whole batches have room for, and never more than are left of it.

    >>> _filled(np.array([3, 3, 3]), np.array([9, 9, 4]), 8).tolist()
    [7, 5, 4]
    """
    passes = np.minimum(passes, left)
    while (more := int(-passes.sum() % at_once)) and (may := passes < left).any():
        each, one_more = divmod(more, int(may.sum()))
        passes = np.minimum(passes + may * (each + (np.cumsum(may) <= one_more)), left)
    return passes


def _of_all(progress: ProgressCallback | None, decided: Decided) -> ProgressCallback | None:
    """Progress over all rounds. How many votes it will take is judged by the inputs that are decided: nobody knows beforehand."""
    if progress is None:
        return None
    share = max(float((decided.state != UNDER_WAY).mean()), 0.02)

    def report(now: Progress) -> None:
        done = int(decided.passes.sum())
        progress(Progress(now.task, done, max(done + now.total - now.done, int(done / share))))

    return report
