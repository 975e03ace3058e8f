"""A directory of small immutable files, on this disk or behind any fsspec URL. Every write is all or nothing."""

import os
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from recert.errors import StoreBusy

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = "lock"


class Directory:
    """Names to bytes. On a local disk a write is flushed and renamed; on an object store one put is the commit."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        self._files, self._root = fsspec.core.url_to_fs(self.url)

    def __str__(self) -> str:
        return self.url

    @property
    def _local(self) -> bool:
        return isinstance(self._files, LocalFileSystem)

    def names(self) -> list[str]:
        """Names of the files here; none if the directory does not exist."""
        try:
            entries: list[Any] = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted(entry.rstrip("/").rsplit("/", 1)[-1] for entry in entries)

    def read(self, name: str) -> bytes:
        return bytes(self._files.cat_file(self._path(name)))

    def write(self, name: str, data: bytes) -> None:
        """Put a whole file in place, or nothing of it, whenever the process dies."""
        if not self._local:
            self._files.pipe_file(self._path(name), data)
            return
        os.makedirs(self._root, exist_ok=True)
        temporary = self._path(f".{name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path(name))
        except BaseException:
            if os.path.exists(temporary):
                os.remove(temporary)
            raise
        _flush_directory(self._root)

    @contextmanager
    def locked(self) -> "Iterator[None]":
        """Hold the local directory for one writing process; the lock dies with it. Object stores are not locked."""
        if not self._local or os.name != "posix":
            yield
            return
        import fcntl

        os.makedirs(self._root, exist_ok=True)
        with open(self._path(LOCK), "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreBusy(
                    f"another process is writing to {self.url}; wait for it, or use another store"
                ) from None
            yield

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _flush_directory(path: str) -> None:
    """A rename survives a power cut only once its directory is flushed."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
