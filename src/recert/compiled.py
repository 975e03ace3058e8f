"""Functions compiled by numba and stored on disk, for as long as no file of their package changes."""

import hashlib
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile without the interpreter lock, in strict floating point, and store the machine code on disk.

    numba's own cache knows only the file that defines a function. Machine code contains the functions that it calls, from
    other files too: after a correction in one of these a bound would keep its old value. So the code is stored under a stamp of
    all files in the folder; numba adds its own version.
    """
    return _compiled(function, nogil=True)


def compiled_with_lock(function: Function) -> Function:
    """The same for what takes a few microseconds, and is called again and again: with the interpreter lock, which is not given away.

    To have it back takes up to milliseconds each time where other threads want it as well.
    """
    return _compiled(function, nogil=False)


def _compiled(function: Function, nogil: bool) -> Function:
    try:
        dispatcher: Any = numba.njit(cache=True, nogil=nogil)(function)
    # Kept beside the source, else in the user's cache folder, or where NUMBA_CACHE_DIR says. Nothing there may be written.
    except RuntimeError:
        warn_once()
        return cast(Function, numba.njit(nogil=nogil)(function))
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = folder_stamp(Path(function.__code__.co_filename).parent)
    # Private names of numba. Where a newer numba has others, functions are compiled in every process, which takes seconds: machine
    # code of old source must not be used. Without `py_func` numba is switched off, and there is nothing to store.
    elif hasattr(dispatcher, "py_func"):
        dispatcher = numba.njit(nogil=nogil)(function)
    return cast(Function, dispatcher)


@lru_cache
def warn_once() -> None:
    warnings.warn(
        "machine code can be kept nowhere, so that every process compiles for some 10 seconds; set NUMBA_CACHE_DIR to a folder that "
        "can be written",
        stacklevel=4,
    )


@lru_cache
def folder_stamp(folder: Path) -> str:
    """Digest of all Python files in a folder, by name and content."""
    digest = hashlib.sha256(Path(__file__).read_bytes())  # how functions are compiled
    for file in sorted(folder.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
