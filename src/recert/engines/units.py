"""Work cut into units: runs of whole batches that one worker draws at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from recert.sampling import Work


@dataclass(frozen=True)
class Slice:
    """Samples [start, start + length) of a work."""

    work: Work
    start: int
    length: int

    def as_work(self) -> Work:
        return Work(self.work.position, self.work.stream, self.work.samples[self.start : self.start + self.length])


class Units:
    """Cuts works, one after the other, at the ends of batches.

    Units are whole batches so that a worker, which packs its unit on its own, makes the very batches that a single process
    makes of all works: votes agree even where the place in a batch changes the last bit of a logit.

    >>> from recert.noise import Stream
    >>> units = Units([Work(0, Stream.ESTIMATION, range(5)), Work(1, Stream.ESTIMATION, range(4))], batch_size=2)
    >>> [[(s.work.position, s.start, s.length) for s in units.take(2)] for _ in range(units.batches_left // 2 + 1)]
    [[(0, 0, 4)], [(0, 4, 1), (1, 0, 3)], [(1, 3, 1)]]
    """

    def __init__(self, works: Sequence[Work], batch_size: int) -> None:
        self.samples = sum(len(work.samples) for work in works)
        self._works = works
        self._batch_size = batch_size
        self._at, self._start, self._taken = 0, 0, 0

    @property
    def batches_left(self) -> int:
        return -(-(self.samples - self._taken) // self._batch_size)

    def take(self, batches: int) -> tuple[Slice, ...]:
        """The slices of the next so many batches; none when all are taken."""
        left = min(batches * self._batch_size, self.samples - self._taken)
        self._taken += left
        slices = []
        while left:
            work = self._works[self._at]
            length = min(left, len(work.samples) - self._start)
            if length:
                slices.append(Slice(work, self._start, length))
            self._start, left = self._start + length, left - length
            if self._start == len(work.samples):
                self._at, self._start = self._at + 1, 0
        return tuple(slices)
