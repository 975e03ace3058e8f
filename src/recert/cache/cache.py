"""The cache: certify once, keep every vote, re-certify from the votes."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recert.cache import limits, parts
from recert.cache.batches import Batches
from recert.cache.certifying import certificates_of, certified_of, settings_of, table_of
from recert.cache.checking import STREAMS, examine, named_first
from recert.cache.looks import Inputs, Looks, Size, has_a_name, note_size, sizes_seen
from recert.cache.manifest import MANIFEST, SIGNATURE, Manifest
from recert.cache.recovery import cut_parts, last_good_manifest, put_manifest, read_manifest
from recert.cache.requiring import require_equal_votes, require_inputs, require_promise
from recert.cache.signatures import signed_manifest, wanted_key
from recert.cache.votes import VoteTable
from recert.cache.writer import INPUTS_PER_PART, PartWriter
from recert.certificates import Certificates, Settings
from recert.errors import CorruptCache, UnusableModel
from recert.interrupts import uninterrupted
from recert.models.numerics import Numerics
from recert.noise import Stream
from recert.noise.keys import LARGEST_SAMPLE
from recert.storage import Directory
from recert.votes import Votes


class Cache:
    """Votes of one model under one noise. `digests` are the inputs that this view of it is about, in order."""

    def __init__(
        self, manifest: Manifest, directory: Directory | None = None, digests: Sequence[str] | None = None
    ) -> None:
        self.manifest = manifest
        self.digests = tuple(manifest.inputs if digests is None else digests)
        self.rows_sent: int | None = None
        """Of a function: how many rows it was given for the votes that `certify` drew now, what checks and attempts that failed took included."""
        self._directory = directory
        self._cut: tuple[str, ...] = ()
        self._changed = False
        self._table = VoteTable(directory, manifest.context, manifest.classes)

    def __repr__(self) -> str:
        m = self.manifest
        where = "in memory" if self._directory is None else f"at {self._directory}"
        each = f"about {m.samples} votes each, by plan {m.plan}" if m.plan else f"{m.samples} votes each"
        votes = each if self.promises_votes else "scattered votes"
        return f"<Cache {where}: {len(self.digests)} inputs, {votes}, {m.noise.spec}, seed {m.seed}>"

    def _repr_html_(self) -> str:
        return table_of(self, "in memory" if self._directory is None else str(self._directory))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, public_key: str | os.PathLike[str] | None = None) -> Self:
        """A stored cache, from a local path or any fsspec URL. Every part is checked against its own hash.

        With a public key (a PEM file), or one that the environment variable RECERT_PUBLIC_KEY names, a cache is refused
        unless the key's owner signed all of it.
        """
        return cls._read(Directory(path), wanted_key(public_key))

    @classmethod
    def just_written(cls, path: str | os.PathLike[str]) -> Self:
        """A cache that this process wrote, read back: nobody can have signed it yet."""
        return cls._read(Directory(path), None)

    @classmethod
    def _read(cls, directory: Directory, public_key: Path | None) -> Self:
        names = directory.names()
        if MANIFEST not in names:
            there = f"{len(names)} other files" if names else "nothing there"
            raise FileNotFoundError(f"expected a cache with a {MANIFEST} at {directory}, got {there}; check the path")
        manifest = last_good_manifest(directory) if public_key is None else signed_manifest(directory, public_key)
        if manifest is None:
            raise CorruptCache(f"{directory} holds no votes yet; run the same certify again")
        cache, missing = cls._opened(directory, manifest)
        if missing:
            raise CorruptCache(
                f"{directory} lacks {missing[0]}; restore it, or run the same certify again, which draws its votes anew"
            )
        return cache

    @classmethod
    def _opened(cls, directory: Directory, manifest: Manifest, *, cut: Sequence[str] = ()) -> tuple[Self, list[str]]:
        """The cache without parts that are gone or `cut`, and the names of those that are gone."""
        names = directory.names()
        missing = sorted(set(manifest.parts) - set(names))
        cache = cls(replace(manifest, parts=tuple(name for name in manifest.parts if name not in missing)), directory)
        cache._cut = tuple(cut)
        # Parts that the manifest does not name are read as well: a killed run wrote them after its last manifest.
        cache._table.add_stored(named_first(cache.manifest, [name for name in names if name not in cut]), _refused)
        return cache, missing

    @classmethod
    def continue_or_create(
        cls,
        wanted: Manifest,
        store: str | os.PathLike[str] | None,
        digests: Sequence[str],
        *,
        allow_numerics: bool,
        same_model: bool | None = None,
    ) -> Self:
        """The cache at `store`, grown to what is wanted, or a new one; in memory if there is no store."""
        if store is None:
            return cls(wanted, None, digests)
        directory = Directory(store)
        known = last_good_manifest(directory)
        if known is not None:
            cache, missing = cls._opened(directory, known, cut=cut_parts(directory, known))
            cache.manifest.check_context(wanted, allow_numerics=allow_numerics, same_model=same_model)
            if missing:
                warnings.warn(
                    f"{directory} lacks {len(missing)} of its parts; their votes are drawn again", stacklevel=3
                )
            if cache._cut:
                warnings.warn(
                    f"{len(cache._cut)} parts of {directory} are cut off and not used; their votes are drawn again",
                    stacklevel=3,
                )
            cache.manifest = cache.manifest.extended(wanted)
        elif any(map(parts.is_part, directory.names())):
            # A new manifest would make these parts look like parts of the new cache.
            raise CorruptCache(
                f"{directory} holds parts of a cache but no {MANIFEST}; restore it, or use another store"
            )
        else:
            cache = cls(wanted, directory)
        cache.digests = tuple(digests)
        return cache

    @staticmethod
    def locked(store: str | os.PathLike[str] | None) -> AbstractContextManager[None]:
        """Hold a store from before it is read until its last write: two processes must not grow it at once."""
        return nullcontext() if store is None else Directory(store).locked()

    @staticmethod
    def manifest_at(store: str | os.PathLike[str]) -> Manifest | None:
        """The manifest of the cache at `store`; None if there is no cache."""
        return last_good_manifest(Directory(store))

    def missing(self) -> list[tuple[str, Stream, range]]:
        """Votes that are still to be drawn: (input, stream, sample range), each input once."""
        return [
            (digest, stream, gap)
            for digest in dict.fromkeys(self.digests)
            for stream in STREAMS
            for gap in self._table.missing(digest, stream, self.manifest.wanted_of(digest, stream))
        ]

    def to_be_planned(self) -> list[str]:
        """Inputs of this view whose estimation votes are still to be shared out, each once."""
        return [digest for digest in dict.fromkeys(self.digests) if not self.manifest.is_planned(digest)]

    def share_out(self, numbers: Mapping[str, int]) -> None:
        """Fix how many estimation votes some inputs get. The next `writing` records it before it lets a vote be written."""
        self.manifest = self.manifest.with_planned(numbers)

    def require_equal_votes(self, purpose: str) -> None:
        """IncompleteCache unless every input has as many estimation votes, with what to do about it."""
        require_equal_votes(self, purpose)

    @property
    def promises_votes(self) -> bool:
        """Whether every input has, or is still to get, all votes that certify it; not so for a store of scattered votes."""
        return self.manifest.samples > 0

    def totals(self, stream: Stream) -> tuple[int, float]:
        """Votes of a stream over all inputs, and the seconds that they took."""
        return self._table.totals(stream)

    @contextmanager
    def writing(
        self, inputs_per_part: int = INPUTS_PER_PART, before_part: Callable[[], None] = lambda: None
    ) -> Iterator[PartWriter]:
        """A writer for new votes. What was drawn, and how, is written even if drawing fails; at the end the manifest names all parts.

        `before_part` is called before a part is written; if it raises, because the model is not what it was, the part is not.
        """

        def close(rows: list[parts.Row]) -> None:
            before_part()
            if self._directory is None:
                self._table.add(rows, None)
            else:
                self._write_part(rows)

        if self._directory is None:
            writer = PartWriter(self.manifest.classes, close)
            yield writer
            writer.flush()
            return
        for name in self._cut:  # the manifest below names every part that is there
            self._directory.remove(name)
        self._cut = ()
        # Before the first part: a run that is killed later leaves a store that can be continued.
        self._write_manifest()
        writer = PartWriter(self.manifest.classes, close, inputs_per_part=inputs_per_part)
        try:
            yield writer
        finally:
            with uninterrupted():
                try:
                    writer.flush()
                except UnusableModel:  # nothing was put: what is there is whole, as it may not be after other errors
                    self._write_manifest()
                    raise
                self._write_manifest()  # also after a failed run: it records what the votes were drawn with

    def record_numerics(self, numerics: Numerics) -> None:
        """Note numerics that votes were really drawn with, beside those noted before."""
        self.manifest = replace(self.manifest, numerics=self.manifest.numerics.joined(numerics))

    def note_look(self) -> None:
        """Note in this process with how many votes they were looked at; a store notes it in its manifest as well."""
        m = self.manifest
        if has_a_name(m.model):
            note_size(m.context, Size(m.samples, m.selection_samples, Inputs.of(m.inputs), m.plan))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of votes at which the same votes were looked at, smallest first."""
        m = self.manifest
        if self._directory is not None:
            return m.looks
        return sizes_seen(m.context, Inputs.of(m.inputs)) or m.looks

    def remember_names(self, **names: str) -> None:
        """Note what a person calls the model and the data, for messages and tables: never trusted, no context.

        A signed store keeps the names that were signed, unless votes or settings were added to it since it was opened.
        """
        names = {kind: name[: limits.TEXT] for kind, name in names.items()}
        with nullcontext() if self._directory is None else self._directory.locked():
            # Another process may have grown the store since it was opened: its manifest is read again, under the lock.
            known = self.manifest if self._directory is None else read_manifest(self._directory)
            named = replace(known, names={**known.names, **names})
            if self._directory is not None and not self._changed and SIGNATURE in self._directory.names():
                if named != known:
                    warnings.warn(
                        f"{self._directory} is signed and unchanged, so that it keeps the names it has", stacklevel=2
                    )
                return
            self.manifest = named
            if self._directory is not None:
                self._write_manifest()

    def certify(self, *, alpha: float | None = None, certificate: str | None = None) -> Certificates:
        """Certificates from the votes, at any alpha: the votes do not depend on it."""
        return certificates_of(self, self._table.seconds, alpha=alpha, certificate=certificate)

    def certified(self, *, alpha: float, certificate: str) -> NDArray[np.bool_]:
        """Which inputs `certify` certifies, and nothing else about them."""
        return certified_of(self, alpha=alpha, certificate=certificate)

    @property
    def certificates(self) -> Certificates:
        """Certificates at the alpha that the cache was made with."""
        return self.certify()

    def settings(self, *, method: str, certificate: str, alpha: float, error: float | None = None) -> Settings:
        """Settings of certificates that are drawn from this cache alone."""
        return settings_of(self, method=method, certificate=certificate, alpha=alpha, error=error)

    @property
    def batches(self) -> Batches:
        """Which batch sizes were found fastest, on which machines."""
        return Batches(self._directory, self.manifest.numerics)

    @property
    def looks(self) -> Looks:
        """Which re-certifications were made from these votes so far."""
        return Looks(self._directory, self.manifest.context)

    def counts(self, stream: Stream) -> NDArray[np.int64]:
        """Votes per class: inputs x classes."""
        self._require_promise()
        m = self.manifest
        wanted = (
            [m.wanted_of(digest, stream) for digest in self.digests]
            if m.plan
            else [m.wanted(stream)] * len(self.digests)
        )
        return self._table.counts_of(self.digests, stream, wanted, m.classes)

    def selection_counts(self, digests: Sequence[str]) -> NDArray[np.int64]:
        """Selection votes per class of some inputs, inputs x classes, whether or not they have their other votes."""
        n, classes = self.manifest.selection_samples, self.manifest.classes
        counts = [self._table.counts(digest, Stream.SELECTION, n, classes) for digest in digests]
        return np.array(counts, dtype=np.int64).reshape(-1, classes)

    def votes(self, digest: str, stream: Stream = Stream.ESTIMATION) -> Votes:
        """All votes of one input, in sample order."""
        self._require_promise()
        return self._table.votes(digest, stream, self.manifest.wanted_of(digest, stream))

    def each_votes(self, digests: Sequence[str]) -> Iterator[tuple[int, Votes]]:
        """All estimation votes of many inputs, with their places among these, in the order in which they are stored: every part is
        read once. To be read only, and not to be kept: they may be a part's own memory."""
        self._require_promise()
        self.require_equal_votes("to read them together")
        n, order = self.manifest.samples, list(range(len(digests)))
        if self._directory is not None:
            order.sort(key=lambda i: self._table.parts_with(digests[i], Stream.ESTIMATION))
        for i in order:
            yield i, self._table.votes(digests[i], Stream.ESTIMATION, n, copy=False)

    def stored_rows(self, digest: str, stream: Stream) -> list[parts.Row]:
        """All rows of one input, with their votes, whether it has all of them or not."""
        return self._table.known(digest, stream, 0, LARGEST_SAMPLE + 1)

    def parts_with(self, digest: str, stream: Stream) -> list[str]:
        """Names of the stored parts that hold votes of one input."""
        return self._table.parts_with(digest, stream)

    def part_names(self) -> list[str]:
        """Names of the stored parts, in order; none in memory."""
        return [] if self._directory is None else list(filter(parts.is_part, self._directory.names()))

    def part(self, name: str) -> tuple[bytes, list[parts.Row]]:
        """The bytes of a stored part, checked, and its rows with their votes."""
        assert self._directory is not None
        data = self._directory.read(name, limits.PART_BYTES)
        return data, parts.decode(name, data, self.manifest.context, self.manifest.classes)

    def about(self, digests: Sequence[str]) -> "Cache":
        """The same cache, viewed for other inputs. Inputs that it does not hold are named."""
        self._require_promise()  # a view is used to certify, replay or audit all votes of these inputs
        require_inputs(self, digests)
        view = Cache(self.manifest, self._directory, digests)
        view._table = self._table
        return view

    @property
    def store(self) -> str | None:
        """Where it is stored, a path on this disk or a URL; None in memory."""
        return None if self._directory is None else self._directory.local or self._directory.url

    @property
    def stored_bytes(self) -> int:
        """Size of the parts on disk."""
        return sum(self._directory.size(name) for name in self.part_names()) if self._directory else 0

    def verify(self) -> list[str]:
        """What is wrong with the stored cache, one line each; an empty list is a sound cache."""
        return [] if self._directory is None else self.diagnose(self._directory.url)

    @classmethod
    def diagnose(cls, path: str | os.PathLike[str]) -> list[str]:
        """Read every part of a stored cache in full, however damaged it is, and say what is wrong, one line each."""
        return list(examine(path).problems)

    def _require_promise(self) -> None:
        require_promise(self)

    def _write_part(self, rows: list[parts.Row]) -> None:
        assert self._directory is not None
        name, data = parts.encode(rows, self.manifest.classes, self.manifest.context)
        self._directory.write(name, data)
        self._table.add(rows, name)

    def _write_manifest(self) -> None:
        assert self._directory is not None
        names = self._directory.names()
        self.manifest = replace(self.manifest, parts=tuple(filter(parts.is_part, names)))
        # Not written if nothing changed: a run that draws nothing leaves the store, and its signature, as it is.
        changed = put_manifest(self._directory, self.manifest)
        if changed and not self._changed and SIGNATURE in names:
            warnings.warn(
                f"{self._directory} has changed, and its signature is void; sign again: recert cache sign", stacklevel=3
            )
        self._changed |= changed


def _refused(error: CorruptCache) -> None:
    """A cache with a part that is wrong is not opened."""
    raise error
