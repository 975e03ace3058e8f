"""Which job comes next, and in which order votes are returned: that of the works, whatever workers did."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from recert.engines.units import Slice, Units
from recert.engines.worker import Answer
from recert.sampling import VoteChunk, Work

SECONDS_PER_JOB = 1.0
"""Long enough that handing it out costs next to nothing, short enough that little is drawn again when a worker dies."""
UNITS_AHEAD = 512
"""Units that may be drawn while an earlier one is not finished: bounds what waits in memory, some tens of megabytes."""
DEATHS = 3
"""A job with which so many workers died is not given to another."""


@dataclass(frozen=True, order=True)
class Job:
    """Some slices of a unit, given to one worker. Ordered by unit: votes are returned in order, so the earliest unit comes first."""

    unit: int
    places: tuple[int, ...]
    """Which slices of the unit."""
    slices: tuple[Slice, ...] = field(compare=False)
    deaths: int = field(default=0, compare=False)
    refused_by: int | None = field(default=None, compare=False)
    """A worker on which the network raised: another worker tries it before its input counts as failed."""

    @property
    def suspect(self) -> bool:
        """A worker died with it, perhaps because of it. It is drawn alone, so that no other job is lost if it was."""
        return self.deaths > 0


class Schedule:
    """The state of one draw. Every slice ends as votes or as a failure of its input."""

    def __init__(self, works: Sequence[Work], batch_size: int) -> None:
        self._units = Units(works, batch_size)
        self._batch_size = batch_size
        self._to_repeat: list[Job] = []
        self._open: dict[int, list[VoteChunk | str | None]] = {}
        self._made = self._next_out = 0
        self._seconds_per_batch: float | None = None
        self.failures: dict[int, str] = {}
        """By position of the input: what went wrong first."""
        self.done = 0
        self.samples = self._units.samples

    @property
    def complete(self) -> bool:
        return not self._open and not self._units.batches_left

    def next_job(self, worker: int, workers: int, *, idle: bool) -> Job | None:
        """A job for a worker, or nothing for now. Jobs that have to be repeated go first."""
        fitting = (j for j in self._to_repeat if (idle or not j.suspect) and (j.refused_by != worker or workers == 1))
        if (job := min(fitting, default=None)) is not None:
            self._to_repeat.remove(job)
            return job
        if self._made - self._next_out >= UNITS_AHEAD or not self._units.batches_left:
            return None
        slices = self._units.take(self._batches(workers))
        self._open[self._made] = [None] * len(slices)
        self._made += 1
        return Job(self._made - 1, tuple(range(len(slices))), slices)

    def finish(self, job: Job, worker: int, answer: Answer) -> int | None:
        """Take in an answer. Returns the worker on which the network raised although it does not raise here, if there is one."""
        self._learn_speed(job, answer)
        start = good = 0
        for i, (place, slice_) in enumerate(zip(job.places, job.slices, strict=True)):
            if i in answer.failures:
                self._refuse(job, place, slice_, worker, answer.failures[i])
                continue
            votes = answer.votes[start : start + slice_.length]
            self._close(job.unit, place, VoteChunk(slice_.work, slice_.start, votes, float(answer.seconds[good])))
            start, good = start + slice_.length, good + 1
        return job.refused_by if not answer.failures else None

    def lost(self, job: Job, reason: str) -> None:
        """A worker died with the job: draw it again.

        If several workers died with it, its inputs are drawn one by one, so that only the input that kills workers fails.
        """
        job = replace(job, deaths=job.deaths + 1)
        if job.deaths < DEATHS:
            self._to_repeat.append(job)
        elif len(job.slices) > 1:
            for place, slice_ in zip(job.places, job.slices, strict=True):
                self._to_repeat.append(Job(job.unit, (place,), (slice_,), deaths=1))
        else:
            self._fail(job.unit, job.places[0], job.slices[0], f"{DEATHS} workers died over it, the last by: {reason}")

    def ready(self) -> Iterator[VoteChunk]:
        """Votes of the units that are finished and have none before them that is not."""
        while self._next_out in self._open and all(entry is not None for entry in self._open[self._next_out]):
            for entry in self._open.pop(self._next_out):
                if isinstance(entry, VoteChunk):
                    yield entry
            self._next_out += 1

    def _refuse(self, job: Job, place: int, slice_: Slice, worker: int, reason: str) -> None:
        if job.refused_by is None:
            self._to_repeat.append(Job(job.unit, (place,), (slice_,), job.deaths, refused_by=worker))
        else:
            self._fail(job.unit, place, slice_, reason)

    def _fail(self, unit: int, place: int, slice_: Slice, reason: str) -> None:
        self.failures.setdefault(slice_.work.position, reason)
        self._close(unit, place, reason, slice_.length)

    def _close(self, unit: int, place: int, entry: VoteChunk | str, length: int | None = None) -> None:
        self._open[unit][place] = entry
        self.done += len(entry.votes) if isinstance(entry, VoteChunk) else length or 0

    def _learn_speed(self, job: Job, answer: Answer) -> None:
        if len(answer.votes):
            self._seconds_per_batch = float(np.sum(answer.seconds)) * self._batch_size / len(answer.votes)

    def _batches(self, workers: int) -> int:
        """Batches of the next unit: about a second's worth, and fewer towards the end, so that all workers finish together."""
        if not self._seconds_per_batch:
            return 1
        fair = self._units.batches_left // (3 * workers)
        return max(1, min(fair, int(SECONDS_PER_JOB / self._seconds_per_batch)))
