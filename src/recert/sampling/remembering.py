"""A source that draws each vote once, however often it is asked: for sweeps over budgets and methods."""

from collections.abc import Iterator, Sequence

import numpy as np

from recert.models.numerics import Numerics
from recert.noise import Stream
from recert.sampling.work import ProgressCallback, VoteChunk, VoteSource, Work
from recert.votes import Votes, vote_dtype


class RememberingSource:
    """Wraps a source and keeps its votes. Seconds are those of the first draw, shared out evenly."""

    def __init__(self, source: VoteSource) -> None:
        self._source = source
        self._votes: dict[tuple[int, Stream], tuple[Votes, np.ndarray]] = {}
        self.forward_passes = 0
        self._seconds = 0.0
        self.classes = source.classes
        self.identity = source.identity
        self.digests = source.digests
        self.input_shape = source.input_shape
        self.streams = source.streams
        for known in ("noise", "seed"):
            if hasattr(source, known):
                setattr(self, known, getattr(source, known))

    @property
    def numerics(self) -> Numerics:
        return self._source.numerics

    @property
    def seconds_per_pass(self) -> float:
        return self._seconds / self.forward_passes if self.forward_passes else 0.0

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        missing = [Work(work.position, work.stream, samples) for work in works if len(samples := self._unknown(work))]
        for chunk in self._source.draw(missing, task, progress):
            votes, known = self._slot(chunk.work)
            drawn = chunk.work.samples[chunk.start : chunk.start + len(chunk.votes)]
            votes[drawn], known[drawn] = chunk.votes, True
            self.forward_passes += len(chunk.votes)
            self._seconds += chunk.seconds
        for work in works:
            samples = np.asarray(work.samples, dtype=np.int64)
            yield VoteChunk(work, 0, self._slot(work)[0][samples], len(samples) * self.seconds_per_pass)

    def _unknown(self, work: Work) -> np.ndarray:
        samples = np.asarray(work.samples, dtype=np.int64)
        return np.asarray(samples[~self._slot(work)[1][samples]])

    def _slot(self, work: Work) -> tuple[Votes, np.ndarray]:
        """Votes and which of them are known, grown to hold every sample of the work."""
        key, size = (work.position, work.stream), int(work.samples[-1]) + 1 if len(work.samples) else 0
        votes, known = self._votes.get(key, (np.zeros(0, vote_dtype(self.classes)), np.zeros(0, bool)))
        if size > len(votes):
            votes, known = (np.concatenate([old, np.zeros(size - len(old), old.dtype)]) for old in (votes, known))
            self._votes[key] = votes, known
        return votes, known
