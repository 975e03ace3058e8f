"""Gathers votes into parts and closes a part now and then, so that a killed run loses little."""

import time
from collections.abc import Callable

import numpy as np

from recert.cache.parts import Row
from recert.noise import Stream
from recert.votes import Votes, count_votes

INPUTS_PER_PART = 25
SECONDS_PER_PART = 60.0
VOTES_PER_PART = 2**25


class PartWriter:
    """Collects chunks of votes, joins those that follow each other, and hands finished parts to `close`."""

    def __init__(self, classes: int, close: Callable[[list[Row]], None]) -> None:
        self._classes = classes
        self._close = close
        self._rows: list[Row] = []
        self._open: list[tuple[Votes, float]] = []
        self._open_at: tuple[str, Stream, int] | None = None
        self._votes = 0
        self._started = time.monotonic()

    def add(self, digest: str, stream: Stream, start: int, votes: Votes, seconds: float) -> None:
        """Votes for samples [start, start + len(votes)) of an input."""
        if self._open_at is None or not self._continues(digest, stream, start):
            self._finish_row()
            self._open_at = (digest, stream, start)
        self._open.append((votes, seconds))
        self._votes += len(votes)
        inputs = len({row.digest for row in self._rows} | {digest})
        late = time.monotonic() - self._started > SECONDS_PER_PART
        if inputs > INPUTS_PER_PART or late or self._votes >= VOTES_PER_PART:
            self.flush()

    def flush(self) -> None:
        """Close the part in hand, if there is one."""
        self._finish_row()
        if self._rows:
            self._close(self._rows)
        self._rows, self._votes, self._started = [], 0, time.monotonic()

    def _continues(self, digest: str, stream: Stream, start: int) -> bool:
        assert self._open_at is not None
        begun_digest, begun_stream, begun = self._open_at
        return (digest, stream) == (begun_digest, begun_stream) and start == begun + sum(len(v) for v, _ in self._open)

    def _finish_row(self) -> None:
        if self._open_at is None:
            return
        digest, stream, start = self._open_at
        votes = np.concatenate([v for v, _ in self._open])
        counts = count_votes(votes, self._classes)
        self._rows.append(Row(digest, stream, start, len(votes), counts, sum(s for _, s in self._open), votes))
        self._open, self._open_at = [], None
