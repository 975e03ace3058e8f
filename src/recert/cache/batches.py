"""The fastest batch size on each machine, kept beside the votes: found once by timing, used by every later command.

It is part of no claim and of no signature. Whoever changes the file changes how fast votes are drawn, and which batch size is
recorded with them.
"""

import hashlib
import json
from contextlib import suppress

from recert.cache import strict_json
from recert.cache.limits import BATCH
from recert.models.numerics import Numerics
from recert.storage import Directory

BATCHES = "_batches.json"  # a leading underscore: readers of Parquet folders pass over it
_LARGEST = 2**14  # bytes
_MOST = 64
_WHERE = ("device", "processor")
_FOUND_LATER = ("batch_size", "memory_format")


class Batches:
    """Batch sizes for re-certifying from one cache: that of its votes on the same kind of machine, else one that was found before."""

    def __init__(self, directory: Directory | None, numerics: Numerics) -> None:
        self._directory, self._cached = directory, numerics
        self._here: dict[str, int] = {}

    def size(self, numerics: Numerics | None) -> int | None:
        """For a network that computes so; None if it must be timed. The cache's own if nothing is known of the network."""
        if numerics is not None and numerics.unpadded:  # a function: what a service takes is known of a service only
            return self._cached.batch_size if self._cached.unpadded else None
        if numerics is None or self._is_of_votes(numerics):
            return self._cached.batch_size
        return {**self._stored(), **self._here}.get(_key(numerics))

    def note(self, numerics: Numerics) -> None:
        """Keep the batch size that was found, where that is possible: what nobody asked for must not fail."""
        size, key = numerics.batch_size, _key(numerics)
        if size is None or numerics.unpadded or self._is_of_votes(numerics) or self.size(numerics) == size:
            return
        self._here[key] = size
        if self._directory is None or self._directory.url.startswith(("http://", "https://")):
            return
        known = list({**self._stored(), **self._here}.items())[-_MOST:]
        with suppress(Exception):  # of any kind of storage
            self._directory.write(BATCHES, (json.dumps(dict(known), indent=1) + "\n").encode())

    def _is_of_votes(self, numerics: Numerics) -> bool:
        """Whether the cached votes were drawn on such a machine, as far as that is recorded."""
        known = {name: self._cached.values.get(name) for name in _WHERE}
        return all(seen is None or {*numerics.values.get(name, ())} <= {*seen} for name, seen in known.items())

    def _stored(self) -> dict[str, int]:
        """What the file says; nothing where there is none, or one that is not ours."""
        if self._directory is None:
            return {}
        try:
            found = strict_json.parse(self._directory.read(BATCHES, _LARGEST))
            return {key: size for key, size in found.items() if type(size) is int and 1 <= size <= BATCH}
        except Exception:  # a file that tells nothing is like no file
            return {}


def _key(numerics: Numerics) -> str:
    """How a network computes and on what, without what is found only when it runs."""
    known = {name: text for name, text in numerics.to_text().items() if name not in _FOUND_LATER}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]
