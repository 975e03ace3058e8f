"""A pickle reader that can build byte arrays, text, numbers, lists and dictionaries, and nothing else.

A pickle names functions and calls them. Here every name is looked up in the table below, whose entries only rebuild an
array of bytes; any other name is refused before it is imported or called.
"""

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from recert.data.dataset import UnusableData


def read_plain_pickle(path: Path) -> Any:
    """The content of a pickle of plain data; text of Python 2 comes as bytes."""
    try:
        with path.open("rb") as file:
            return _finished(_PlainUnpickler(file, encoding="bytes").load())
    except UnusableData as error:
        raise UnusableData(
            f"expected plain arrays and lists in {path}, got {error}; nothing of it was run. "
            "Take the file from the official archive"
        ) from None
    except Exception as error:  # an untrusted file can fail in any way, and each means that it is no such file
        raise UnusableData(
            f"expected a pickle of plain arrays and lists, got {path}, which is not one ({type(error).__name__}); "
            "take the file from the official archive"
        ) from None


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnusableData(f"the Python object {module}.{name}")
        return _ALLOWED[module, name]


class _ByteArray:
    """In place of numpy's ndarray while a pickle is read: takes its state, and `_finished` replaces it by the array."""

    def __init__(self) -> None:
        self.array = np.zeros(0, np.uint8)

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, column_major, data = state
        if not (isinstance(dtype, _ByteType) and isinstance(data, bytes) and len(data) == math.prod(shape)):
            raise UnusableData("an array of something other than bytes")
        self.array = np.frombuffer(data, np.uint8).reshape(shape, order="F" if column_major else "C")


class _ByteType:
    """In place of numpy's dtype('uint8'); what else its state says (byte order, fields) does not matter for bytes."""

    def __setstate__(self, state: Any) -> None:
        pass


def _reconstruct(_kind: Any, _shape: Any, _typecode: Any) -> _ByteArray:
    return _ByteArray()


def _dtype(code: Any, *_flags: Any) -> _ByteType:
    if code not in (b"u1", "u1"):
        raise UnusableData(f"an array of type {code!r}")
    return _ByteType()


def _encode(text: Any, _encoding: Any = None) -> bytes:
    """How Python 3 writes bytes in an old protocol."""
    return str(text).encode("latin1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _ByteArray,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
}


def _finished(content: Any) -> Any:
    """The content with every _ByteArray replaced by its array, one level down, which is where CIFAR-10 has them."""
    if isinstance(content, dict):
        return {key: value.array if isinstance(value, _ByteArray) else value for key, value in content.items()}
    return content
