"""Draws that are begun before their votes are asked for: a device computes them while the host looks at votes of another draw."""

from collections.abc import Generator, Iterator
from typing import Self

from recert.sampling.work import VoteChunk

Steps = Generator[VoteChunk | None, None, None]
"""The chunks of a draw; before them None, once its first batches are under way."""


class Draw(Iterator[VoteChunk]):
    """The chunks of a draw. Nothing is drawn before the first is asked for, or `begin` is called."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self._begun = steps, False

    def begin(self) -> None:
        """Begin the first batches, and do not wait for them."""
        if not self._begun:
            self._begun = True
            next(self._steps)

    def __next__(self) -> VoteChunk:
        self.begin()
        chunk = next(self._steps)
        assert chunk is not None
        return chunk

    def __iter__(self) -> Self:
        return self

    def close(self) -> None:
        """Give up what was not asked for."""
        self._steps.close()


def begin(chunks: Iterator[VoteChunk]) -> None:
    """Begin a draw, if its source can; a source that is written as a generator draws when it is asked."""
    if isinstance(chunks, Draw):
        chunks.begin()
