"""Functions compiled by numba and kept on disk, for as long as no file of their package changes."""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile without the interpreter lock, in strict floating point, and keep the machine code on disk.

    numba's own cache knows only the file that defines a function. Machine code contains the functions that it calls, from
    other files too: after a mend in one of these a bound would keep its old value. So the code is kept under a stamp of all
    files in the folder; numba adds its own version.
    """
    dispatcher: Any = numba.njit(cache=True, nogil=True)(function)
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = folder_stamp(Path(function.__code__.co_filename).parent)
    elif hasattr(
        dispatcher, "py_func"
    ):  # compiled by another numba: rather compile in every process than trust a stale file
        dispatcher = numba.njit(nogil=True)(function)
    return cast(Function, dispatcher)


@lru_cache
def folder_stamp(folder: Path) -> str:
    """Digest of all Python files in a folder, by name and content."""
    digest = hashlib.sha256(Path(__file__).read_bytes())  # how functions are compiled
    for file in sorted(folder.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
