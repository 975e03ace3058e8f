"""The files of stored caches, as they are: for whoever passes a cache on."""

import os
from collections.abc import Iterator

from recert.cache import limits
from recert.cache.cache import Cache
from recert.cache.parts import is_part
from recert.storage import Directory


def store_files(store: str | os.PathLike[str], *, parts: bool = True) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of a sound cache: what it is about, its signature and its looks; with `parts`, its votes."""
    Cache.open(store)  # refused if anything is wrong with it
    directory = Directory(store)
    for name in directory.names():
        if not name.startswith(".") and (parts or not is_part(name)):
            yield name, directory.read(name, limits.PART_BYTES)


def stores_in(folder: str | os.PathLike[str]) -> list[str]:
    """The caches in a folder of caches."""
    names = [name for name in Directory(folder).names() if not name.startswith(".")]
    stores = [f"{os.fspath(folder).rstrip('/')}/{name}" for name in names]
    return [store for store in stores if Cache.manifest_at(store) is not None]
