"""Votes of the studies' networks: drawn once, kept in a store, answered from there. Drawing and computing can be apart.

The only module that reaches for names that `recert` does not export yet.
"""

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import recert
from recert.cache.directory import Directory
from recert.cache.manifest import differing_numerics, mixed_numerics
from recert.models.identity import ModelIdentity
from recert.noise import Stream, parse_noise
from recert.sampling import ProgressCallback, VoteChunk, VoteSource, Work, collect, open_source
from recert.votes import Votes, count_votes
from studies.pace import Pace
from studies.request import Clock, MissingVotes
from studies.vote_file import About as FileAbout
from studies.vote_file import Slots, read_votes, write_votes

__all__ = [
    "About", "ProgressCallback", "Stream", "StudyVotes", "VoteChunk", "VoteSource", "Votes", "Work",
    "collect", "count_votes", "draw_votes", "open_source",
]  # fmt: skip

SECONDS_BETWEEN_WRITES = 45.0


@dataclass(frozen=True)
class About:
    """What a store of votes does not say itself: which network and images they are of, labels, answers without noise."""

    network: str
    approximation: str
    noise: str
    seed: int
    data: str
    indices: list[int]
    labels: list[int]
    clean: list[int]
    """Answers to the inputs without noise."""
    description: str
    facts: dict[str, str] = field(default_factory=dict)


Open = Callable[[int | None], tuple[VoteSource, About]]
"""Loads a network, to be asked in batches of this size if one is given, and says whose votes it will give."""


class StudyVotes:
    """A source of votes with a file. It asks its network only for votes that are not there, and only if it may.

    The file is written now and then while votes are drawn, and by `save`: a killed run loses less than a minute.
    """

    def __init__(
        self,
        path: Path,
        *,
        count: int,
        open_network: Open | None,
        clock: Clock,
        allow_numerics: bool = False,
        progress: ProgressCallback | None = None,
    ) -> None:
        path = path.with_name(f"{path.name}.parquet")
        self.path, self._open_network, self._clock, self._progress = path, open_network, clock, progress
        self._allow_numerics = allow_numerics
        self._network: VoteSource | None = None
        self._written, self._unwritten = time.monotonic(), 0
        self._lock, self._holding = ExitStack(), False
        self._seen = 0
        if path.exists():
            self._read()
        if not path.exists() or count > len(self.about.digests):
            self._open()
        self.classes, self.input_shape = self.about.classes, self.about.input_shape
        self.identity = ModelIdentity(**self.about.identity)
        self.digests = self.about.digests[:count]
        self.streams = frozenset({Stream.SELECTION, Stream.ESTIMATION, Stream.FRESH})
        self.noise, self.seed = parse_noise(self.about.noise), self.about.seed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.save()

    @property
    def seconds_per_pass(self) -> float:
        return self.about.seconds_per_pass

    @property
    def numerics(self) -> dict[str, str]:
        return self.about.numerics

    @property
    def labels(self) -> NDArray[np.int64]:
        return np.array(self.about.labels[: len(self.digests)], dtype=np.int64)

    @property
    def clean(self) -> NDArray[np.int64]:
        return np.array(self.about.clean[: len(self.digests)], dtype=np.int64)

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        unknown = [Work(work.position, work.stream, samples) for work in works if len(samples := self._unknown(work))]
        if unknown:
            self._draw(unknown, self.path.stem, progress or self._progress)
        for work in works:
            samples = np.asarray(work.samples, dtype=np.int64)
            votes, _ = self._slots.reserve(work.position, work.stream, 0)
            yield VoteChunk(work, 0, votes[samples], len(samples) * self.about.seconds_per_pass)

    def first(self, stream: Stream, samples: int) -> NDArray[np.unsignedinteger]:
        """The first votes of all inputs: inputs x samples."""
        works = [Work(i, stream, range(samples)) for i in range(len(self.digests))]
        return np.stack([drawn.votes for drawn in collect(self, works, "drawing")])

    def _unknown(self, work: Work) -> NDArray[np.int64]:
        samples = np.asarray(work.samples, dtype=np.int64)
        size = int(samples[-1]) + 1 if len(samples) else 0
        return samples[~self._slots.reserve(work.position, work.stream, size)[1][samples]]

    def _draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> None:
        network = self._open(sum(len(work.samples) for work in works))
        self._hold()
        pace = Pace()
        try:
            for chunk in network.draw(works, task, progress):
                drawn = np.asarray(chunk.work.samples[chunk.start : chunk.start + len(chunk.votes)], dtype=np.int64)
                votes, known = self._slots.reserve(chunk.work.position, chunk.work.stream, int(drawn[-1]) + 1)
                votes[drawn], known[drawn] = chunk.votes, True
                pace.add(len(drawn))
                self._clock.check()
                if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
                    self._write()
        finally:
            pace.add(0)
            self.about.passes += pace.passes
            self.about.seconds += pace.seconds
            before = self.about.seconds_per_pass
            self.about.seconds_per_pass = min(before, pace.fastest or before) if before else pace.fastest or pace.mean
            self._unwritten += pace.passes

    def save(self) -> None:
        """Write what was drawn since it was written last, and let others draw into this file."""
        with self._lock:
            if self._unwritten:
                self._write()
        self._holding = False

    def _hold(self) -> None:
        """Keep other processes from writing this file until it is saved, and take over what they have written."""
        if self._holding:
            return
        self._lock.enter_context(Directory(self.path.parent / ".locks" / self.path.stem).locked())
        self._holding = True
        if self.path.stat().st_mtime_ns != self._seen:
            self._read()

    def _read(self) -> None:
        self._seen = self.path.stat().st_mtime_ns
        self.about, self._slots = read_votes(self.path)

    def _write(self) -> None:
        write_votes(self.path, self.about, self._slots)
        self._written, self._unwritten, self._seen = time.monotonic(), 0, self.path.stat().st_mtime_ns

    def _open(self, missing: int | None = None) -> VoteSource:
        """The network, once it is sure that its votes belong in this file."""
        if self._network is not None:
            return self._network
        if self._open_network is None:
            wanted = "its votes" if missing is None else f"{missing:,} more votes"
            raise MissingVotes(f"{self.path} lacks {wanted}, and drawing is switched off; draw them without --no-draw")
        self._clock.check()  # loading and compiling take long, too
        if not self.path.exists():
            self._network, self.about = self._opened(None)
            self._slots = Slots(self.about.classes)
            self._write()
            return self._network
        # The batch size of the votes that are there: it is chosen by a clock, and belongs to the numerics.
        drawn_by = self.about.numerics.get("batch_size", "")
        self._network, fresh = self._opened(int(drawn_by) if drawn_by.isdigit() else None)
        self._check(fresh)
        longer = fresh if len(fresh.digests) > len(self.about.digests) else self.about
        self.about = replace(
            self.about, numerics=mixed_numerics(self.about.numerics, fresh.numerics), digests=longer.digests,
            indices=longer.indices, labels=longer.labels, clean=longer.clean,
        )  # fmt: skip
        return self._network

    def _opened(self, batch_size: int | None) -> tuple[VoteSource, FileAbout]:
        assert self._open_network is not None
        source, about = self._open_network(batch_size)
        return source, FileAbout(
            **asdict(about), classes=source.classes, input_shape=source.input_shape, digests=source.digests,
            identity=asdict(source.identity), numerics=source.numerics,
        )  # fmt: skip

    def _check(self, fresh: FileAbout) -> None:
        """Votes of two networks, or of one under two kinds of numerics, do not go into one file."""
        old = self.about
        for name in ("identity", "noise", "seed", "data"):
            before, now = asdict(old)[name], asdict(fresh)[name]
            if before != now:
                raise MissingVotes(
                    f"{self.path} holds votes with another {name} ({before}, here {now}); use another --store"
                )
        shared = min(len(old.digests), len(fresh.digests))
        if old.digests[:shared] != fresh.digests[:shared]:
            raise MissingVotes(f"{self.path} holds votes about other inputs; use another --store")
        differing = differing_numerics(old.numerics, fresh.numerics)
        if differing and not self._allow_numerics:
            drawn_with = ", ".join(
                f"{name} {old.numerics.get(name)} (here {fresh.numerics.get(name)})" for name in differing
            )
            raise MissingVotes(
                f"{self.path} lacks votes, and they were drawn with {drawn_with}; draw the rest there, or use --allow-numerics"
            )


def draw_votes(source: VoteSource, cache: recert.Cache, **settings: Any) -> None:
    """Draw every vote that `recert.recertify` asks for with these settings, and bound nothing.

    Which votes these are depends on selection votes and on flips of pilot inputs, never on a bound.
    """
    if "draw_only" in inspect.signature(recert.recertify).parameters:
        settings["draw_only"] = True
        recert.recertify(source, None, cache, **settings)
        return
    from recert.recertification.background import Background, Entry
    from recert.recertification.methods import run, usual_objective
    from recert.recertification.task import Task

    class NoBounds(Background):
        def bound(self, entries: Iterable[Entry], bound: Callable[[list[Entry]], None]) -> None:
            for _ in entries:
                pass

    method = settings.pop("method")
    run(Task.of(source, cache, objective=usual_objective(method), background=NoBounds(), **settings), method)
