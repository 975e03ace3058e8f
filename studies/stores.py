"""Stores of votes, one for each network: votes are drawn once, and read from there. Drawing and computing can be apart."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

import recert
from recert import CachingSource, Stream, VoteChunk, VoteSource, Work, parse_noise
from recert.errors import CorruptCache, MissingVotes
from studies.request import Clock
from studies.votes import ProgressCallback, Votes, draw_whole

ABOUT = "_about.json"  # a leading underscore: readers of a cache pass over it


@dataclass(frozen=True)
class About:
    """What a store of votes does not say itself: which network and images they are of, labels, answers without noise."""

    network: str
    approximation: str
    noise: str
    seed: int
    data: str
    digests: list[str]
    indices: list[int]
    labels: list[int]
    clean: list[int]
    """Answers to the inputs without noise."""
    description: str
    facts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Path) -> Self:
        try:
            return cls(**json.loads((store / ABOUT).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CorruptCache(
                f"{store} does not say whose votes it holds: {error}; delete it and draw them again"
            ) from error

    def joined(self, other: Self, store: Path) -> Self:
        """Of both, the one that is about more inputs; the first of them must be the same."""
        shared = min(len(self.digests), len(other.digests))
        if self.digests[:shared] != other.digests[:shared]:
            raise MissingVotes(f"{store} holds votes about other inputs; use another --store")
        return other if len(other.digests) > len(self.digests) else self

    def write(self, store: Path) -> None:
        """Put the file in place, or nothing of it."""
        store.mkdir(parents=True, exist_ok=True)
        unfinished = store / f".{ABOUT}.{os.getpid()}.tmp"
        unfinished.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        unfinished.replace(store / ABOUT)


OpenNetwork = Callable[[int | None], tuple[VoteSource, About]]
"""Loads a network, to be asked in batches of this size if one is given, and says whose votes it will give."""


class StudyVotes:
    """Votes of one network on the first `count` images. The network is loaded when a vote is wanted that the store lacks.

    A source of votes, and a context manager: at the end of the block every vote that was drawn is in the store.
    """

    def __init__(
        self,
        path: Path,
        *,
        count: int,
        open_network: OpenNetwork | None,
        clock: Clock,
        allow_numerics: bool = False,
        progress: ProgressCallback | None = None,
    ) -> None:
        self.path, self._open_network, self._clock, self._progress = path, open_network, clock, progress
        self._allow_numerics = allow_numerics
        if recert.Cache.manifest_at(path) is not None:
            self._votes, self.about = CachingSource.from_store(path), About.read(path)
            if count > len(self.about.digests):
                self._load_network()
        else:
            self._load_network()
        self.digests = self.about.digests[:count]
        self.noise, self.seed = parse_noise(self.about.noise), self.about.seed
        self.classes, self.input_shape = self._votes.classes, self._votes.input_shape
        self.identity, self.streams = self._votes.identity, self._votes.streams

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._votes.close()

    @property
    def numerics(self) -> recert.Numerics:
        return self._votes.numerics

    @property
    def seconds_per_pass(self) -> float:
        return self._votes.seconds_per_pass

    @property
    def labels(self) -> NDArray[np.int64]:
        return np.array(self.about.labels[: len(self.digests)], dtype=np.int64)

    @property
    def clean(self) -> NDArray[np.int64]:
        """Answers of the network to the inputs without noise."""
        return np.array(self.about.clean[: len(self.digests)], dtype=np.int64)

    def first(self, stream: Stream, samples: int) -> Votes:
        """The first votes of all inputs: inputs x samples."""
        works = [Work(i, stream, range(samples)) for i in range(len(self.digests))]
        return np.stack([chunk.votes for chunk in draw_whole(self, works, "drawing", None)])

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        try:
            yield from self._stored(works, task, progress)
        except MissingVotes as error:  # which comes before the first chunk
            if self._open_network is None:
                lacking = str(error).partition(";")[0]
                raise MissingVotes(f"{lacking}, and none may be drawn; draw them without --no-draw") from None
            self._load_network()
            yield from self._stored(works, task, progress)

    def _stored(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        """Votes of the caching source, which may know more inputs, and equal ones once."""
        place = {digest: i for i, digest in enumerate(self._votes.digests)}
        wanted = [Work(place[self.digests[work.position]], work.stream, work.samples) for work in works]
        work_of = {id(theirs): ours for theirs, ours in zip(wanted, works, strict=True)}
        for chunk in self._votes.draw(wanted, task, progress):
            yield replace(chunk, work=work_of[id(chunk.work)])

    def _load_network(self) -> None:
        """From now on, draw what the store lacks. Refused if the store is about another network or other inputs."""
        if self._open_network is None:
            raise MissingVotes(f"{self.path} lacks its votes, and none may be drawn; draw them without --no-draw")
        self._clock.check()  # loading and compiling take long, too
        before = recert.Cache.manifest_at(self.path)
        # The batch size of the votes that are there: it is chosen by a clock, and belongs to the numerics.
        source, about = self._open_network(None if before is None else before.batch_size)
        if before is not None:
            about = About.read(self.path).joined(about, self.path)
        timed = TimedSource(source, self.path.name, self._clock, self._progress)
        self._votes = CachingSource(timed, store=self.path, allow_numerics=self._allow_numerics)
        self.about = about
        about.write(self.path)


class TimedSource:
    """Votes of a network until the time is over. Progress is shown under the name of the store."""

    def __init__(self, source: VoteSource, name: str, clock: Clock, progress: ProgressCallback | None) -> None:
        self._source, self._name, self._clock, self._progress = source, name, clock, progress
        self.classes, self.identity, self.digests = source.classes, source.identity, source.digests
        self.input_shape, self.streams = source.input_shape, source.streams
        self.noise, self.seed = source.noise, source.seed

    @property
    def numerics(self) -> recert.Numerics:
        return self._source.numerics

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        for chunk in self._source.draw(works, self._name, progress or self._progress):
            yield chunk
            self._clock.check()
