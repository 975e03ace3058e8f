"""A directory of small immutable files, on this disk or behind any fsspec URL. On a disk every write is all or nothing."""

import errno
import os
import stat
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from recert.errors import CorruptCache, StoreBusy

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = ".lock"  # a leading dot or underscore: readers of Parquet folders pass over such files


class Directory:
    """Names to bytes. On a local disk a write is flushed and renamed; on an object store one put is the commit."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        if not isinstance(url, str | os.PathLike):
            raise ValueError(f"expected a folder or a URL for a store, got {type(url).__name__}")
        self.url = os.fspath(url)
        if not self.url.strip():  # fsspec would take the current folder
            raise ValueError(
                f"expected a folder or a URL for a store, got {self.url!r}; for the current folder say '.'"
            )
        self._files, self._root = fsspec.core.url_to_fs(self.url)

    def __str__(self) -> str:
        return self.url

    @property
    def local(self) -> str | None:
        """The path on this disk, or None behind a URL."""
        return str(self._root) if isinstance(self._files, LocalFileSystem) else None

    def names(self) -> list[str]:
        """Names of the files here; none if the directory does not exist."""
        try:
            if self.local is not None and os.path.isdir(self._root):
                return sorted(os.listdir(self._root))
            entries: list[Any] = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted(entry.rstrip("/").rsplit("/", 1)[-1] for entry in entries)

    def read(self, name: str, largest: int | None = None) -> bytes:
        """A whole file. More than `largest` bytes, or something that is not a file, is refused before it is read."""
        path = self._path(name)
        if self.local is not None:
            about = os.stat(path)
            if not stat.S_ISREG(about.st_mode):  # a device or a pipe would never end
                raise CorruptCache(f"expected {name} in {self.url} to be a file, got something else; remove it")
            size = about.st_size
        else:
            size = self._files.size(path) or 0
        if largest is not None and size > largest:
            raise CorruptCache(
                f"expected at most {largest:,} bytes in {name}, got {size:,}; no cache of ours is so large"
            )
        if self.local is None:
            return bytes(self._files.cat_file(path))
        # Not by way of fsspec, which takes several times as long for a small file.
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def size(self, name: str) -> int:
        return int(self._files.size(self._path(name)) or 0)

    def remove(self, name: str) -> None:
        self._files.rm_file(self._path(name))

    def write(self, name: str, data: bytes) -> None:
        """Put a whole file in place. On a disk it is all or nothing, whenever the process dies; a put may be cut."""
        if self.local is None:
            self._files.pipe_file(self._path(name), data)
            return
        with self._explained():
            os.makedirs(self._root, exist_ok=True)
            replace_file(self._path(name), data)

    @contextmanager
    def locked(self) -> "Iterator[None]":
        """Hold the local directory for one writing process; the lock dies with it. Object stores are not locked."""
        if self.local is None or os.name != "posix":
            yield
            return
        import fcntl

        with self._explained():
            os.makedirs(self._root, exist_ok=True)
            held = os.open(self._path(LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreBusy(
                    f"another process is writing to {self.url}; wait for it, or use another store"
                ) from None
            yield
        finally:
            os.close(held)

    @contextmanager
    def _explained(self) -> "Iterator[None]":
        """Errors of writing, in words: which store, and what to do."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise PermissionError(
                    f"{self.url} can be read but not written ({error.strerror}); copy it to where you may write, or use another store"
                ) from error
            if error.errno in (errno.ENOTDIR, errno.EEXIST):
                raise NotADirectoryError(f"expected a folder for the store at {self.url}, got a file") from error
            raise

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Put a user's file in place of what is there, or leave that as it is, when the process dies or the disk fills up."""
    before = os.stat(path) if os.path.exists(path) else None
    if before is not None and not stat.S_ISREG(before.st_mode):  # a pipe or a device has nothing to lose, and must stay
        with open(path, "wb") as file:
            file.write(data)
        return
    # A link is followed, so that the file that it names is replaced and not the link.
    replace_file(os.path.realpath(path), data, mode=None if before is None else stat.S_IMODE(before.st_mode))


def replace_file(path: str, data: bytes, mode: int | None = None) -> None:
    """Write beside, flush, rename. Whatever is at `path` is replaced, links too: one in a store may lead anywhere."""
    folder, name = os.path.split(path)
    # Not the whole name: together they could be longer than a file system allows.
    temporary = os.path.join(folder, f".{name[:40]}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise
    flush_directory(folder)


def flush_directory(path: str) -> None:
    """A rename survives a power cut only once its directory is flushed."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
