"""Votes that exist already, in place of a model: of a remote API, a log, a study."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.models.identity import ModelIdentity
from recert.models.numerics import Numerics
from recert.noise import Noise, Stream
from recert.sampling.work import ProgressCallback, VoteChunk, Work
from recert.votes import nobody, vote_dtype


class StoredVotes:
    """Votes as integer arrays (inputs x samples); -1 is an invalid vote (a vote for nobody).

    `estimation` holds the votes that bound, `selection` those that choose, `fresh` those on new noise. The votes of a
    model and of its modification belong to the same noises, column by column. Noises must be independent, between columns and
    between rows too: plans use the flips on some inputs for others. Rows that share their noises, as when one batch of noises
    was added to every input, are certified one by one, each in a call of its own.
    """

    def __init__(
        self,
        estimation: NDArray[np.integer[Any]],
        *,
        selection: NDArray[np.integer[Any]] | None = None,
        fresh: NDArray[np.integer[Any]] | None = None,
        classes: int | None = None,
    ) -> None:
        given = {Stream.ESTIMATION: estimation, Stream.SELECTION: selection, Stream.FRESH: fresh}
        raw = {stream: np.asarray(votes) for stream, votes in given.items() if votes is not None}
        for stream, votes in raw.items():
            _check(votes, stream, len(raw[Stream.ESTIMATION]))
        largest = max(int(votes.max(initial=0)) for votes in raw.values())
        self.classes = max(2, largest + 1) if classes is None else classes
        if self.classes < 2:
            raise ValueError(f"expected at least 2 classes, got {self.classes}")
        if largest >= self.classes:
            raise ValueError(f"expected votes below classes = {self.classes}, got {largest}; a vote for nobody is -1")
        # As they were given: with another number of classes they are encoded anew.
        self._raw = raw
        self._votes = {stream: _encode(votes, self.classes) for stream, votes in raw.items()}
        self.identity = ModelIdentity("stored votes", _digest(self._votes))
        self.streams = frozenset(raw)
        self.existing = {stream: votes.shape[1] for stream, votes in raw.items()}
        self.noise: Noise | None = None  # whatever made the votes
        self.seed: int | None = None
        self.numerics = Numerics.from_text({"source": "stored votes"})
        self.input_shape: tuple[int, ...] = ()
        # There is no input to take a digest of: the row's number is used instead, so that two tables of votes agree row by row.
        self.digests = [hashlib.sha256(f"stored input {i}".encode()).hexdigest() for i in range(len(estimation))]

    def __len__(self) -> int:
        return len(self.digests)

    def with_classes(self, classes: int | None) -> "StoredVotes":
        """The same votes, known to be of this many classes: a model need not have voted for all of them."""
        if classes is None or classes == self.classes:
            return self
        votes = {stream.name.lower(): raw for stream, raw in self._raw.items()}
        return StoredVotes(votes.pop("estimation"), **votes, classes=classes)

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        """The votes asked for, one chunk for each work. ValueError if there are fewer."""
        for work in works:
            votes = self._votes.get(work.stream)
            have = 0 if votes is None else votes.shape[1]
            wanted = int(work.samples[-1]) + 1 if len(work.samples) else 0
            if votes is None or wanted > have:
                name = work.stream.name.lower()
                raise ValueError(
                    f"expected at least {wanted} stored {name} votes per input, got {have}; "
                    f"pass StoredVotes(..., {name}=...) with that many columns, or ask for fewer samples"
                )
            yield VoteChunk(work, 0, votes[work.position, _index(work.samples)].copy(), 0.0)


def _index(samples: range | NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Where samples are; numpy itself would go through a range in Python, one by one."""
    return slice(samples.start, samples.stop, samples.step) if isinstance(samples, range) else samples


def _check(votes: NDArray[Any], stream: Stream, inputs: int) -> None:
    name = stream.name.lower()
    if votes.ndim != 2 or not np.issubdtype(votes.dtype, np.integer):
        raise ValueError(f"expected {name} votes as integers, inputs x samples, got {votes.dtype} {votes.shape}")
    if len(votes) != inputs:
        raise ValueError(f"expected {name} votes of {inputs} inputs, as in estimation, got {len(votes)}")
    if votes.size and int(votes.min()) < -1:
        raise ValueError(f"expected {name} votes of -1 (nobody) or a class, got {votes.min()}")


def _encode(votes: NDArray[Any], classes: int) -> NDArray[Any]:
    dtype = vote_dtype(classes)
    return np.where(votes < 0, nobody(dtype), votes).astype(dtype)


def _digest(votes: dict[Stream, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for stream in sorted(votes):
        digest.update(f"{stream.name}:{votes[stream].dtype}:{votes[stream].shape};".encode())
        digest.update(np.ascontiguousarray(votes[stream]).tobytes())
    return digest.hexdigest()
