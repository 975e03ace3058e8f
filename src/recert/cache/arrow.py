"""Arrow arrays from and to numpy without pandas, which pyarrow's own conversions import where it is installed: a quarter of a second."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers(values: Any, kind: pa.DataType, *, unknown: NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of numbers of one kind; null where a value is unknown."""
    held = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    valid = None if unknown is None else pa.py_buffer(np.packbits(~unknown, bitorder="little"))
    return pa.Array.from_buffers(kind, len(held), [valid, pa.py_buffer(held)])


def texts(values: Sequence[str]) -> pa.Array:
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def digests(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Values of one length each."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(b"".join(values))])


def to_numpy(array: pa.Array) -> NDArray[Any]:
    """The numbers of an array that has no nulls, read-only, in its own memory."""
    if array.null_count:
        raise ValueError("expected an array without nulls")
    return np.from_dlpack(array)


def with_known(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The numbers of an array, and which of them are not null; those that are say nothing."""
    whole = pa.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], offset=array.offset)
    return to_numpy(whole), to_numpy(array.is_valid().cast(pa.uint8())).astype(bool)
