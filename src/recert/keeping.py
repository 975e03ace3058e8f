"""Votes of changed models, kept beside the cache that they are replayed from: each is drawn once, whoever asks for it again."""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict

from recert.cache import Cache
from recert.cache.looks import has_a_name
from recert.cache.samples import Samples
from recert.cache.votes import Slot
from recert.cache.writer import PartWriter
from recert.caching import CachingSource, Path
from recert.errors import UnusableModel
from recert.sampling.work import VoteChunk, VoteSource

Keep = bool | str | os.PathLike[str]
"""Whether votes of a changed model are kept: True, beside the cache where that is possible; False, not at all; or a folder."""

SUFFIX = ".replays"
"""Of the folder beside the cache. Not inside: whoever ships the cache ships the original's votes only."""


class Keeping:
    """Where one verb keeps the votes that it draws. Every model, with every numerics, has a folder of its own there."""

    def __init__(self, cache: Cache, keep: Keep = True) -> None:
        if not isinstance(keep, bool) and (not isinstance(keep, str | os.PathLike) or not os.fspath(keep).strip()):
            raise ValueError(f"expected keep to be True, False or a folder for votes, got {keep!r}")
        self._store, self._keep, self._told = cache.store, keep, False
        self._opened: set[str] = set()

    @property
    def folder(self) -> str | None:
        """The folder of all models; None if nothing is to be kept, or the cache is in memory."""
        if not isinstance(self._keep, bool):
            return os.fspath(self._keep)
        return f"{self._store.rstrip('/')}{SUFFIX}" if self._keep and self._store is not None else None

    def caching(self, source: VoteSource) -> CachingSource:
        """The source with its votes kept, in memory at least."""
        return self.of(source) or CachingSource(source)

    def of(self, source: VoteSource) -> "KeptVotes | None":
        """The source with its votes kept; None if they are not, or cannot be, or the source keeps them by itself."""
        if self.folder is None:
            return None
        asked_for = not isinstance(self._keep, bool)
        if isinstance(source, CachingSource):
            if asked_for:
                raise ValueError(
                    f"expected no folder to keep votes in with a CachingSource, which has its own, got {self.folder}"
                )
            return None
        if not asked_for and (not has_a_name(source.identity) or source.noise is None or source.seed is None):
            return None
        try:
            return self._kept(source, f"{self.folder}/{folder_name(source)}")
        except Exception as error:  # of any kind of storage: what nobody asked for must not fail
            if asked_for:
                raise
            self.tell(error)
            return None

    def _kept(self, source: VoteSource, store: str) -> "KeptVotes | None":
        if store in self._opened:  # of two candidates that are the same model, one writes
            return None
        if store.startswith(("http://", "https://")) or "::" in store:  # fsspec would send files to the web server
            raise OSError(f"nothing can be written to {self.folder}")
        self._opened.add(store)
        return KeptVotes(source, store, self.tell)

    def tell(self, error: Exception) -> None:
        """One warning, however many models there are."""
        if not self._told:
            warnings.warn(
                "votes of the changed model are not kept, and are drawn again the next time, unless keep=... (--votes) names another "
                f"folder: {error}",
                stacklevel=4,
            )
        self._told = True


class KeptVotes(CachingSource):
    """A `CachingSource` that goes on without its store, with a warning, once that fails: a result matters more than its votes."""

    def __init__(self, source: VoteSource, store: str, tell: Callable[[Exception], None]) -> None:
        super().__init__(source, store=store)
        self._tell = tell

    def close(self) -> None:
        with self._forgiving():
            super().close()

    def _begin_writing(self, store: Path) -> None:
        with self._forgiving():
            super()._begin_writing(store)

    def _write(self, writer: PartWriter, slot: Slot, samples: Samples, chunk: VoteChunk) -> None:
        with self._forgiving():
            super()._write(writer, slot, samples, chunk)

    def _flush(self) -> None:
        with self._forgiving():
            super()._flush()

    def _read_parts(self, slot: Slot) -> None:
        with self._forgiving():
            super()._read_parts(slot)

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except UnusableModel:  # this is about the votes themselves
            raise
        except Exception as error:  # of any kind of storage
            # What was read stays known. Nothing more is read: what is drawn instead must not meet votes of the store in it.
            self._store, self._writer, self._unread = None, None, set()
            with suppress(Exception):
                self._writing.close()
            self._tell(error)


def folder_name(source: VoteSource) -> str:
    """By all that votes depend on: two models, or two ways to compute one, never share a folder."""
    numerics = {name: sorted(values) for name, values in source.numerics.values.items()}
    if (
        source.numerics.unpadded
    ):  # batches are of many lengths: with another limit nothing that was paid for is asked again
        numerics.pop("batch_size", None)
    noise = None if source.noise is None else source.noise.spec
    about = [asdict(source.identity), noise, source.seed, source.classes, list(source.input_shape), numerics]
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=int).encode()).hexdigest()[:32]
