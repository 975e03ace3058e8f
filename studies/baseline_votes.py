"""The votes of a changed network as a baseline sees them."""

from collections.abc import Iterator, Sequence

import numpy as np

import recert
from recert import Stream, VoteChunk, Work
from studies.stores import StudyVotes
from studies.votes import ProgressCallback, draw_whole


class BaselineVotes:
    """The same votes for a baseline. It owes nothing to the cache, so that cached noises are as fresh to it as any:
    fresh sample i is estimation sample i below `prefix`, and fresh sample i - prefix after it. Saves forward passes.
    """

    def __init__(self, votes: StudyVotes, prefix: int) -> None:
        self._votes, self._prefix = votes, prefix
        self.classes, self.identity, self.digests = votes.classes, votes.identity, votes.digests
        self.input_shape, self.streams = votes.input_shape, votes.streams
        self.noise, self.seed = votes.noise, votes.seed

    @property
    def numerics(self) -> recert.Numerics:
        return self._votes.numerics

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        pieces = [self._pieces(work) for work in works]
        drawn = iter(draw_whole(self._votes, [piece for both in pieces for piece in both], task, progress))
        for work, both in zip(works, pieces, strict=True):
            answers = [next(drawn) for _ in both]
            seconds = sum(answer.seconds for answer in answers)
            yield VoteChunk(work, 0, np.concatenate([answer.votes for answer in answers]), seconds)

    def _pieces(self, work: Work) -> list[Work]:
        """One work of the fresh stream as up to two: estimation samples first, then fresh ones."""
        if work.stream is not Stream.FRESH:
            return [work]
        samples = np.asarray(work.samples, dtype=np.int64)
        cached, rest = samples[samples < self._prefix], samples[samples >= self._prefix] - self._prefix
        pieces = (Work(work.position, Stream.ESTIMATION, cached), Work(work.position, Stream.FRESH, rest))
        return [piece for piece in pieces if len(piece.samples)]
