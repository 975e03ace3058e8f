"""What is to be drawn, what comes back, and how work of many inputs is packed into full batches."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from recert.models.identity import ModelIdentity
from recert.models.numerics import Numerics
from recert.noise import Noise, Stream
from recert.noise.keys import LARGEST_SAMPLE
from recert.noise.stream import NoisyRows
from recert.votes import Votes

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """Votes wanted of one input: `samples` are the sample indices in `stream`, a range or an increasing array."""

    position: int
    stream: Stream
    samples: range | NDArray[np.int64]


@dataclass(frozen=True)
class VoteChunk:
    """Votes for `work.samples[start : start + len(votes)]`, and the seconds spent on them."""

    work: Work
    start: int
    votes: Votes
    seconds: float


@dataclass(frozen=True)
class Progress:
    """How far a long piece of work is, in forward passes."""

    task: str
    done: int
    total: int


ProgressCallback = Callable[[Progress], None]
ShowProgress = bool | ProgressCallback | None
"""Whether progress is shown: False, never; True, from the beginning; None, of work that takes a while, in a terminal or a notebook. A
function is called with it."""


class VoteSource(Protocol):
    """Where votes come from: a model under noise, or votes that exist already.

    A source that can give only so many votes of a stream may say so in `existing`, a mapping from streams to numbers: no plan
    then asks for more. One that computes votes while nobody asks for more, as on a device, may say in `passes_ahead` how many,
    and in `passes_at_once` how many are one batch: it is then not left idle while a plan is made.
    """

    classes: int
    identity: ModelIdentity
    digests: list[str]
    input_shape: tuple[int, ...]
    streams: frozenset[Stream]

    @property
    def noise(self) -> Noise | None:
        """What its votes are drawn under; None if they exist already, whatever made them."""
        ...

    @property
    def seed(self) -> int | None:
        """The seed of its noise; None as above."""
        ...

    @property
    def numerics(self) -> Numerics:
        """What votes were drawn with so far."""
        ...

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        """Votes of all works, in order, as chunks that may split a work."""
        ...


VOTE_SOURCE = ("classes", "identity", "digests", "input_shape", "streams", "noise", "seed", "numerics", "draw")
"""What a `VoteSource` must have."""


def is_vote_source(value: Any) -> TypeGuard[VoteSource]:
    """Whether it has all of that, of its own or handed through by `__getattr__`, which isinstance does not see from Python 3.12 on."""
    # What a class has is not asked of the object: a property would be computed.
    return all(hasattr(type(value), name) or hasattr(value, name) for name in VOTE_SOURCE)


def most_samples(source: VoteSource, stream: Stream) -> int:
    """How many votes of a stream it can give of an input: any number, unless its votes exist already and it says so."""
    limits: Mapping[Stream, int] = getattr(source, "existing", {})
    return limits.get(stream, LARGEST_SAMPLE)


def logged(chunks: Iterator[VoteChunk], task: str) -> Iterator[VoteChunk]:
    """The chunks as they are; at the end it is logged how many votes they were, and how fast they came."""
    votes, seconds = 0, 0.0
    try:
        for chunk in chunks:
            votes, seconds = votes + len(chunk.votes), seconds + chunk.seconds
            yield chunk
    finally:
        if votes:
            log.info("%s: drew %d votes in %.2f s, %.0f per second", task, votes, seconds, votes / max(seconds, 1e-9))


@dataclass(frozen=True)
class Piece:
    """Rows [batch_start, batch_start + length) of a batch are samples [work_start, ...) of a work."""

    work: Work
    work_start: int
    batch_start: int
    length: int


def pack(works: Iterable[Work], batch_size: int) -> Iterator[list[Piece]]:
    """Full batches of the samples of works, in order. Only the last may be short.

    >>> works = [Work(0, Stream.ESTIMATION, range(5)), Work(1, Stream.ESTIMATION, range(2))]
    >>> [[(p.work.position, p.work_start, p.length) for p in batch] for batch in pack(works, 4)]
    [[(0, 0, 4)], [(0, 4, 1), (1, 0, 2)]]
    """
    batch: list[Piece] = []
    filled = 0
    for work in works:
        start = 0
        while start < len(work.samples):
            length = min(len(work.samples) - start, batch_size - filled)
            batch.append(Piece(work, start, filled, length))
            start, filled = start + length, filled + length
            if filled == batch_size:
                yield batch
                batch, filled = [], 0
    if batch:
        yield batch


def noisy_rows(batch: Sequence[Piece]) -> NoisyRows:
    """The rows of a packed batch, by the positions of their inputs."""
    lengths = [piece.length for piece in batch]
    samples = np.empty(sum(lengths), dtype=np.int64)
    for piece in batch:
        some = piece.work.samples[piece.work_start : piece.work_start + piece.length]
        # numpy itself would go through a range in Python, one by one.
        here = slice(piece.batch_start, piece.batch_start + piece.length)
        samples[here] = np.arange(some.start, some.stop, some.step) if isinstance(some, range) else some
    rows, streams = np.array([(piece.work.position, piece.work.stream) for piece in batch], dtype=np.int64).T
    return NoisyRows(np.repeat(rows, lengths), samples, np.repeat(streams, lengths))
