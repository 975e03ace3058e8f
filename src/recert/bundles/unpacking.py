"""Opening a bundle, which may come from anybody: its files go into a folder of ours, under names that were checked, and nowhere else."""

import hashlib
import os
import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from recert.bundles.layout import CONTENTS, CONTENTS_BYTES, MOST_FILES, SIGNATURE, Contents, is_allowed
from recert.errors import CorruptBundle

CHUNK = 2**20
LOCAL_HEADER = 30
"""Bytes before each file in a zip, without its name and what else is there, whose lengths are the last two numbers of it."""
FOLDERS = 2
"""Levels of names in a bundle: a folder and its files."""


@dataclass(frozen=True)
class Unpacked:
    """Files of a bundle in a folder of ours, and what is wrong with them: one line each, with the file's name first."""

    folder: Path
    contents: Contents
    problems: tuple[str, ...]


def unpack(bundle: Path, folder: Path) -> Unpacked:
    """Copy the files of a bundle (a zip, or a folder) into an empty folder, and compare them with their hashes.

    CorruptBundle if it is no bundle, or holds what none of ours does: a link, a name that leads out of it, packed data.
    """
    if not bundle.exists():
        raise FileNotFoundError(f"expected a bundle, got {str(bundle)!r}, which does not exist; check the path")
    with _opened(bundle) as files:
        if CONTENTS not in files.sizes:
            raise CorruptBundle(
                f"expected a bundle with a {CONTENTS}, got {bundle} without one; make one with recert bundle"
            )
        if files.sizes[CONTENTS] > CONTENTS_BYTES:
            raise CorruptBundle(
                f"expected at most {CONTENTS_BYTES:,} bytes in {CONTENTS}, got {files.sizes[CONTENTS]:,}"
            )
        hashes: dict[str, str | None] = {name: files.copy(name, folder) for name in sorted(files.sizes)}
    if hashes[CONTENTS] is None:
        raise CorruptBundle(f"{CONTENTS} is damaged; get the bundle anew")
    contents = Contents.from_json((folder / CONTENTS).read_bytes())
    return Unpacked(folder, contents, tuple(_compared(contents, hashes)))


def _compared(contents: Contents, hashes: dict[str, str | None]) -> Iterator[str]:
    for name in sorted(contents.files.keys() | hashes.keys() - {CONTENTS, SIGNATURE}):
        if name not in hashes:
            yield f"{name}: it is missing"
        elif name not in contents.files:
            yield f"{name}: it is not in the list of contents; it was added"
        elif hashes[name] != contents.files[name].sha256:
            yield f"{name}: it was changed (its hash is another)"


class _Files:
    """The files of a bundle by name, with their sizes."""

    sizes: dict[str, int]

    def copy(self, name: str, folder: Path) -> str | None:
        """Copy a file, and return its hash; None if it cannot be read whole."""
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        digest, left = hashlib.sha256(), self.sizes[name]
        try:
            with self.open(name) as source, target.open("xb") as out:
                while left and (chunk := source.read(min(CHUNK, left))):
                    out.write(chunk)
                    digest.update(chunk)
                    left -= len(chunk)
                if left or source.read(1):  # in a zip, the read at the end compares its checksum
                    return None
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError):
            return None
        return digest.hexdigest()

    def open(self, name: str) -> Any:
        raise NotImplementedError


class _ZipFiles(_Files):
    def __init__(self, archive: zipfile.ZipFile, size: int, bundle: Path) -> None:
        self._archive, self.sizes = archive, {}
        for info in archive.infolist():
            _check_name(info.filename, bundle, twice=info.filename in self.sizes)
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                raise CorruptBundle(
                    f"expected files in {bundle}, got {info.filename}, which is a link or something else; do not use it"
                )
            # Ours are never packed: what is packed could be larger than any disk once it is unpacked.
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                raise CorruptBundle(
                    f"expected plain files in {bundle}, got {info.filename}, which is packed or encrypted; do not use it"
                )
            if info.header_offset < 0:
                raise CorruptBundle(f"expected a whole bundle, got {bundle}, whose beginning is cut off; get it anew")
            self.sizes[info.filename] = info.file_size
        if sum(self.sizes.values()) > size:
            raise CorruptBundle(f"expected files that fit into {bundle}, got more bytes than it has; do not use it")
        self._check_gaps(bundle)

    def open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)

    def _check_gaps(self, bundle: Path) -> None:
        """Refuse bytes that belong to no file: a program that unpacks from the front, without the directory, would find other files."""
        file, end = self._archive.fp, 0
        assert file is not None
        for info in sorted(self._archive.infolist(), key=lambda each: each.header_offset):
            file.seek(info.header_offset)
            header = file.read(LOCAL_HEADER)
            if info.header_offset != end or len(header) < LOCAL_HEADER:
                break
            end += LOCAL_HEADER + sum(struct.unpack("<HH", header[-4:])) + info.compress_size
        else:
            if end == self._archive.start_dir:
                return
        raise CorruptBundle(
            f"expected files one behind the other in {bundle}, got others or gaps between them, where something could be hidden; do not use it"
        )


class _FolderFiles(_Files):
    def __init__(self, folder: Path) -> None:
        self._folder, self.sizes = folder, {}
        for name, entry in _entries(folder, folder, FOLDERS):
            _check_name(name, folder, twice=False)
            self.sizes[name] = entry.stat(follow_symlinks=False).st_size

    def open(self, name: str) -> IO[bytes]:
        # Not followed, should it have become a link since.
        return os.fdopen(os.open(self._folder / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb")


def _entries(folder: Path, bundle: Path, levels: int, prefix: str = "") -> "Iterator[tuple[str, os.DirEntry[str]]]":
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False) and levels > 1:
                yield from _entries(Path(entry.path), bundle, levels - 1, f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield f"{prefix}{entry.name}", entry
            else:
                raise CorruptBundle(
                    f"expected files in {bundle}, got {prefix}{ascii(entry.name)[1:-1]}, which is a link or something else; do not use it"
                )


def _check_name(name: str, bundle: Path, *, twice: bool) -> None:
    if not is_allowed(name):
        raise CorruptBundle(f"expected names of a bundle's files in {bundle}, got {ascii(name)[:100]}; do not use it")
    if twice:
        raise CorruptBundle(f"expected every file once in {bundle}, got {name} twice; do not use it")


@contextmanager
def _opened(bundle: Path) -> Iterator[_Files]:
    if bundle.is_dir():
        yield _FolderFiles(bundle)
        return
    try:
        with zipfile.ZipFile(bundle) as archive:
            if len(archive.infolist()) > MOST_FILES:
                raise CorruptBundle(f"expected at most {MOST_FILES:,} files in {bundle}, got more; do not use it")
            yield _ZipFiles(archive, bundle.stat().st_size, bundle)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, UnicodeDecodeError, OverflowError) as error:
        raise CorruptBundle(
            f"expected a bundle (a zip file, or a folder), got {bundle}, which is none or is damaged ({ascii(str(error))[1:100]}); get it anew"
        ) from None
