"""Gathers votes into parts and closes a part now and then, so that a killed run loses little."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from recert.cache.parts import Row
from recert.cache.samples import Samples, as_array, simplified
from recert.errors import UnusableModel
from recert.interrupts import uninterrupted
from recert.noise import Stream
from recert.votes import Votes

INPUTS_PER_PART = 25
VALUES_PER_PART = 2**20
"""A reader of one input reads a whole part: a part is closed when it holds more than so many inputs and at least so many votes and
counts. Inputs with few votes share a part with many others, which would be thousands of small files otherwise."""
SECONDS_PER_PART = 60.0
"""A killed run loses what the open part holds: about a minute of drawing."""
VOTES_PER_PART = 2**25
"""At one or two bytes a vote this stays well below `limits.PART_BYTES`, beyond which a part is refused."""
ROWS_PER_PART = 2**12
LARGEST_GAP = 2**10
"""Scattered samples make one row unless more samples than this are between two of them: each of those is stored as a null."""
LONGEST_WITH_GAPS = 2**20
"""No row of scattered samples goes over a multiple of this, so that its nulls stay within what a part may hold."""


class PartWriter:
    """Collects chunks of votes, joins those that follow each other, and passes finished parts to `close`."""

    def __init__(
        self, classes: int, close: Callable[[list[Row]], None], *, inputs_per_part: int = INPUTS_PER_PART
    ) -> None:
        self._classes = classes
        self._close = close
        self._inputs_per_part = inputs_per_part
        self._rows: list[Row] = []
        self._digests: set[str] = set()
        self._open: list[tuple[Samples, Votes, float]] = []
        self._open_of: tuple[str, Stream] | None = None
        self._values = 0
        self._started = time.monotonic()

    def add(self, digest: str, stream: Stream, start: int, votes: Votes, seconds: float) -> None:
        """Votes for samples [start, start + len(votes)) of an input. They join a row that ends where they begin."""
        with uninterrupted():  # half of it done, the next flush would write a row twice or not at all
            self._add(digest, stream, range(start, start + len(votes)), votes, seconds, joins=self._ends_at(start))

    def add_scattered(
        self, digest: str, stream: Stream, samples: NDArray[np.int64], votes: Votes, seconds: float
    ) -> None:
        """Votes for increasing samples of an input. Samples that are far apart become several rows."""
        with uninterrupted():
            for piece in _pieces(samples):
                here, share = samples[piece], seconds * (piece.stop - piece.start) / len(samples)
                self._add(digest, stream, simplified(here), votes[piece], share, joins=self._is_near(int(here[0])))

    def flush(self) -> None:
        """Close the open part, if it holds anything."""
        with uninterrupted():
            self._finish_row()
            try:
                if self._rows:
                    self._close(self._rows)
            except UnusableModel:  # votes of no one model; after other errors the part is put again
                self._empty()
                raise
            self._empty()

    def _empty(self) -> None:
        self._rows, self._digests, self._values, self._started = [], set(), 0, time.monotonic()

    def _add(self, digest: str, stream: Stream, samples: Samples, votes: Votes, seconds: float, *, joins: bool) -> None:
        if self._open_of != (digest, stream) or not joins:
            self._finish_row()
            self._open_of = (digest, stream)
            self._digests.add(digest)
        # A chunk that joins a row begins at the row's end for this count: the gap between them is stored as nulls.
        begin = self._end() if self._open else int(samples[0])
        self._values += int(samples[-1]) + 1 - begin  # nulls are values, too
        self._open.append((samples, votes, seconds))
        full = self._values >= VOTES_PER_PART or len(self._rows) >= ROWS_PER_PART
        # Every row has a count for each class, which with many classes are more values than its votes.
        large = self._values + len(self._rows) * self._classes >= VALUES_PER_PART
        # Looked at with every chunk, not by a timer: a part is only ever closed between two chunks, and no thread is needed.
        late = time.monotonic() - self._started > SECONDS_PER_PART
        if (len(self._digests) > self._inputs_per_part and large) or late or full:
            self.flush()

    def _end(self) -> int:
        """The sample after the last one of the open row."""
        return int(self._open[-1][0][-1]) + 1

    def _ends_at(self, start: int) -> bool:
        return bool(self._open) and self._end() == start

    def _is_near(self, sample: int) -> bool:
        """Whether a scattered sample may join the open row: whether the two would be one piece."""
        return (
            bool(self._open) and sample >= self._end() and len(list(_pieces(np.array([self._end() - 1, sample])))) == 1
        )

    def _finish_row(self) -> None:
        if self._open_of is None:
            return
        samples, votes, seconds = zip(*self._open, strict=True)
        row = Row.of(*self._open_of, _joined(samples), np.concatenate(votes), sum(seconds), self._classes)
        self._rows.append(row)
        self._open, self._open_of = [], None


def _pieces(samples: NDArray[np.int64]) -> Iterator[slice]:
    """Slices of increasing samples that may be a row each."""
    far = np.diff(samples) - 1 > LARGEST_GAP
    cuts = np.flatnonzero(far | (np.diff(samples // LONGEST_WITH_GAPS) > 0)) + 1
    edges = [0, *cuts.tolist(), len(samples)]
    return map(slice, edges[:-1], edges[1:])


def _joined(pieces: Sequence[Samples]) -> Samples:
    """Samples of pieces that come one after the other."""
    first, last = int(pieces[0][0]), int(pieces[-1][-1])
    if last - first + 1 == sum(map(len, pieces)):
        return range(first, last + 1)
    return np.concatenate([as_array(piece) for piece in pieces])
