"""A source that draws each vote once, however often it is asked for, and stores it: in memory, or on disk."""

import logging
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

import numpy as np

from recert.cache import Cache, Manifest
from recert.cache.arrays import VoteArrays
from recert.cache.looks import Looks
from recert.cache.parts import STREAMS
from recert.cache.samples import Samples, as_array, simplified
from recert.cache.votes import Slot
from recert.cache.writer import ROWS_PER_PART, PartWriter
from recert.errors import MissingVotes, UnknownInputs
from recert.models.identity import Description
from recert.models.numerics import Numerics
from recert.sampling.begun import Draw, Steps, begin
from recert.sampling.source import check_unchanged, description, named, rows_sent
from recert.sampling.work import ProgressCallback, VoteChunk, VoteSource, Work, is_vote_source
from recert.spot_check import check_stored_votes

log = logging.getLogger(__name__)

Path = str | os.PathLike[str]

STORED = frozenset(STREAMS.values())
UNUSED_ALPHA = 0.001
"""A manifest must state an alpha; a store of scattered votes makes no claim, and uses none."""


class CachingSource:
    """The votes of a source, each drawn once. They are the same in whatever order they are asked for.

    With `store` they are kept in a cache there (a path or an fsspec URL), and an interrupted run continues where it stopped. A
    store of another model, noise, seed or kind of input is refused. So are other numerics, unless `allow_numerics`; the batch
    size is one of them: make the source with that of `Cache.manifest_at(store)`. One process writes at a time, from the first
    vote that it draws until `close` or the end of a `with` block, which write the last votes. A process that is killed loses
    at most a minute of drawing. Without a source (`from_store`) nothing is drawn.
    """

    def __init__(self, source: VoteSource | None, *, store: Path | None = None, allow_numerics: bool = False) -> None:
        if source is not None and not is_vote_source(source):
            raise ValueError(
                f"expected a source of votes, got {type(source).__name__}; make one with recert.open_source(model, inputs, ...)"
            )
        self._source, self._store, self._allow_numerics = source, store, allow_numerics
        # Opened now, so that a store of something else is refused before any vote is drawn; locked only when one is.
        self._cache = None if store is None else self._opened(store)
        # Also of models that are known by value: no digest sees everything, such as what a model reads from outside.
        if source is not None and self._cache is not None:
            check_stored_votes(self._cache, source)
        self._writer: PartWriter | None = None
        self._writing = ExitStack()
        if source is not None:
            self.classes, self.identity, self.digests = source.classes, source.identity, source.digests
            self.input_shape, self.noise, self.seed = source.input_shape, source.noise, source.seed
            self.streams = source.streams
            self.existing = dict(getattr(source, "existing", {}))  # how many votes there are, if no others can be drawn
        elif self._cache is not None:
            m = self._cache.manifest
            self.classes, self.identity, self.digests = m.classes, m.model, list(m.inputs)
            self.input_shape, self.noise, self.seed = m.input_shape, m.noise, m.seed
            self.streams = STORED
            self.existing = {}
        else:
            raise ValueError("expected a source of votes, a store of them, or both, got none")
        if store is not None:
            self.streams &= STORED
        self.forward_passes = 0
        self._known = VoteArrays(self.classes)
        self._count_stored()

    @classmethod
    def from_store(cls, store: Path) -> Self:
        """The votes of a store, without the model. MissingVotes is raised when others are asked for."""
        return cls(None, store=store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the last votes to the store, and let other processes write. More votes may be drawn afterwards."""
        if self._writer is not None and self._cache is not None and self._source is not None:
            self._cache.record_numerics(self._source.numerics)  # a draw that was given up has not said yet
        self._writer = None
        self._writing.close()

    def check_unchanged(self) -> None:
        """UnusableModel if the model has changed since the first vote was drawn."""
        if self._source is not None and self.forward_passes:
            check_unchanged(self._source)

    @property
    def description(self) -> Description:
        """What people tell the model by: of the source, or else as the store notes it."""
        if self._source is not None or self._cache is None:
            return Description() if self._source is None else description(self._source)
        m = self._cache.manifest
        return Description(m.names.get("model", ""), m.model_parts)

    @property
    def numerics(self) -> Numerics:
        """What votes were drawn with so far, those in the store included."""
        if self._cache is not None:
            return self._cache.manifest.numerics
        assert self._source is not None
        return self._source.numerics

    @property
    def passes_at_once(self) -> int:
        """How many passes take as long as one."""
        return int(getattr(self._source, "passes_at_once", 1))

    @property
    def passes_ahead(self) -> int:
        """How many passes a device computes while nobody asks for more."""
        return int(getattr(self._source, "passes_ahead", 0))

    @property
    def looks(self) -> Looks | None:
        """Which claims were read off the store so far; None without one."""
        return None if self._cache is None else self._cache.looks

    @property
    def rows_sent(self) -> int | None:
        """Rows that the source gave a function so far, whatever for; None of other sources."""
        return rows_sent(self._source)

    @property
    def seconds_per_pass(self) -> float:
        """The mean over all votes, those in the store included, of what drawing them took."""
        return self._seconds / self._votes if self._votes else 0.0

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Draw:
        """Votes of all works, in order, each work as soon as what is not known of it is drawn.

        Seconds are those of votes that are drawn now, and the mean's for the others.
        """
        return Draw(self._known_and_new(works, task, progress))

    def _known_and_new(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Steps:
        missing = self._missing(works)
        # The lock is taken with the first vote that is drawn: a source that only reads votes locks out no other process.
        if missing and self._store is not None and self._writer is None and self._source is not None:
            self._begin_writing(self._store)
            missing = self._missing(works)  # another process may have drawn some of them
        _log_known(task, works, missing.values())
        chunks = Draw(self._drawn(list(missing.values()), task, progress))
        chunks.begin()
        yield None
        left = {id(work): len(work.samples) for work in missing.values()}
        seconds = dict.fromkeys(left, 0.0)
        for i, work in enumerate(works):
            new = missing.get(i)
            while new is not None and left[id(new)]:
                chunk = next(chunks, None)
                if chunk is None:
                    raise ValueError(f"expected {left[id(new)]} more votes of {type(self._source).__name__}, got none")
                left[id(chunk.work)] -= len(chunk.votes)
                seconds[id(chunk.work)] += chunk.seconds
            votes = self._known.votes(self._slot(work), _samples(work))
            before = len(votes) - (0 if new is None else len(new.samples))
            took = 0.0 if new is None else seconds[id(new)]
            yield VoteChunk(work, 0, votes, took + before * self.seconds_per_pass)
        for _ in chunks:  # to the end, where a source names inputs on which the network failed
            pass

    def _missing(self, works: Sequence[Work]) -> dict[int, Work]:
        """What is to be drawn, each vote once, by the place of the work that wants it first."""
        wanted: dict[Slot, Samples] = {}
        missing: dict[int, Work] = {}
        for i, work in enumerate(works):
            slot = self._slot(work)
            self._read_parts(slot)
            samples = self._known.unknown(slot, _samples(work))
            # An earlier work of this draw may want the same samples, as for an input that is given twice.
            if slot in wanted:
                samples = simplified(np.setdiff1d(as_array(samples), as_array(wanted[slot])))
            if len(samples):
                missing[i] = Work(work.position, work.stream, samples)
                before = wanted.get(slot)
                wanted[slot] = samples if before is None else np.union1d(as_array(before), as_array(samples))
        return missing

    def _slot(self, work: Work) -> Slot:
        if self._store is not None and work.stream not in STORED:
            raise ValueError(
                f"expected a stream of {', '.join(STREAMS)}, got {work.stream.name.lower()}; leave out the store"
            )
        return self.digests[work.position], work.stream

    def _drawn(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Steps:
        """Draw votes and store them as they come, whatever stops it."""
        if not works:
            yield None
            return
        if self._source is None:
            raise MissingVotes(_what_is_missing(self._store, works))
        try:
            chunks = self._source.draw(works, task, progress)
            begin(chunks)
            yield None
            for chunk in chunks:
                self._keep(chunk)
                yield chunk
        except BaseException:
            # Also after Ctrl-C: what was drawn is written, and the next run continues there.
            self._flush()
            raise
        finally:
            # Only now is it known what the votes were drawn with: batches become smaller when memory runs out.
            if self._cache is not None:
                self._cache.record_numerics(self._source.numerics)

    def _keep(self, chunk: VoteChunk) -> None:
        slot = self._slot(chunk.work)
        samples = chunk.work.samples[chunk.start : chunk.start + len(chunk.votes)]
        self._known.put(slot, samples, chunk.votes)
        self.forward_passes += len(chunk.votes)
        self._votes += len(chunk.votes)
        self._seconds += chunk.seconds
        if self._writer is not None:
            self._write(self._writer, slot, samples, chunk)

    def _write(self, writer: PartWriter, slot: Slot, samples: Samples, chunk: VoteChunk) -> None:
        if isinstance(samples, range):
            writer.add(*slot, samples.start, chunk.votes, chunk.seconds)
        else:
            writer.add_scattered(*slot, samples, chunk.votes, chunk.seconds)

    def _flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def _opened(self, store: Path) -> Cache:
        """The cache at the store, or a new one, once it is sure that votes of the source belong there."""
        if self._source is None:
            return Cache.open(store)
        wanted, before = _scattered(self._source), Cache.manifest_at(store)
        if before is not None:
            before.check_context(wanted, allow_numerics=self._allow_numerics)
            if before.samples > 0 and not set(wanted.inputs) <= set(before.inputs):
                raise UnknownInputs(
                    f"expected inputs of the cache at {store}, which promises all votes of its inputs, got others; certify them "
                    "first, on the same store, or use another store"
                )
            # The store's own promises stay: scattered votes neither add to them nor take from them.
            wanted = replace(
                wanted, samples=before.samples, selection_samples=before.selection_samples, alpha=before.alpha,
                certificate=before.certificate, family=before.family, claims=before.claims, plan=before.plan,
            )  # fmt: skip
        return Cache.continue_or_create(wanted, store, wanted.inputs, allow_numerics=self._allow_numerics)

    def _begin_writing(self, store: Path) -> None:
        """Keep other processes from writing until `close`, and read what they have written."""
        # The stack is handed over at the end only: an error on the way releases the lock.
        with ExitStack() as stack:
            stack.enter_context(Cache.locked(store))
            self._cache = self._opened(store)
            self._count_stored()
            self._writer = stack.enter_context(
                self._cache.writing(inputs_per_part=ROWS_PER_PART, before_part=self.check_unchanged)
            )
            self._writing = stack.pop_all()

    def _count_stored(self) -> None:
        """Totals of the store, all parts of which are still to be read."""
        # When the store is opened again, for writing, another process may have added parts: all of them count as unread.
        totals = [] if self._cache is None else [self._cache.totals(stream) for stream in STORED]
        self._votes, self._seconds = sum(votes for votes, _ in totals), sum(seconds for _, seconds in totals)
        self._unread = set() if self._cache is None else set(self._cache.part_names())

    def _read_parts(self, slot: Slot) -> None:
        """Read the parts that hold votes of an input. Each is read once, for all inputs in it."""
        if self._cache is None or not self._unread:
            return
        for name in self._unread.intersection(self._cache.parts_with(*slot)):
            for row in self._cache.part(name)[1]:
                assert row.votes is not None
                self._known.put((row.digest, row.stream), row.samples, row.votes)
            self._unread.discard(name)


def _log_known(task: str, works: Sequence[Work], missing: Iterable[Work]) -> None:
    wanted, new = (sum(len(work.samples) for work in some) for some in (works, missing))
    if new < wanted:
        log.info("%s: %d of %d votes are known already", task, wanted - new, wanted)


def _samples(work: Work) -> Samples:
    """What is wanted; a range with another step than 1 as an array, as everywhere in the cache."""
    samples = work.samples
    return np.array(samples, dtype=np.int64) if isinstance(samples, range) and samples.step != 1 else samples


def _scattered(source: VoteSource) -> Manifest:
    """The manifest of a store that promises no complete votes."""
    if (why := source.identity.nameless) is not None:
        raise ValueError(
            f"expected a model with a name, to keep its votes in a store, got one without: {why}; make its source with identity=..."
        )
    if source.noise is None or source.seed is None:
        raise ValueError(
            f"expected a source that knows its noise and seed, to keep its votes in a store, got {type(source).__name__}; "
            "leave out the store"
        )
    return Manifest(
        model=source.identity, noise=source.noise, seed=source.seed, classes=source.classes, input_shape=source.input_shape,
        selection_samples=0, samples=0, alpha=UNUSED_ALPHA, certificate="two-sided", family=1, numerics=source.numerics,
        inputs=tuple(dict.fromkeys(source.digests)), names=named(source), model_parts=dict(description(source).parts),
    )  # fmt: skip


def _what_is_missing(store: Path | None, works: Sequence[Work]) -> str:
    votes: Counter[str] = Counter()
    for work in works:
        votes[work.stream.name.lower()] += len(work.samples)
    named = " and ".join(f"{count:,} {stream} votes" for stream, count in votes.items())
    return f"{store} lacks {named}; draw them with CachingSource(source, store=...)"
