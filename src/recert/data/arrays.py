"""Data in an .npz file: arrays only, read with pickling switched off."""

import tokenize
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.data.dataset import Labels, Source, UnusableData, arrays_source

INPUT_KEYS = ("inputs", "x", "images")
LABEL_KEYS = ("labels", "y")


def npz_source(path: Path) -> Source:
    """All inputs of a file, with labels when it has them."""
    if not path.is_file():
        raise ValueError(f"expected an .npz file, got {str(path)!r}, which does not exist; check the path")
    inputs, labels = _read(path)
    _check_inputs(inputs, path)
    if labels is not None:
        _check_labels(labels, len(inputs), path)
    return arrays_source(path.stem, inputs, labels, np.arange(len(inputs), dtype=np.int64), None)


def _read(path: Path) -> tuple[NDArray[Any], Labels | None]:
    with _opened(path) as file:
        inputs = next((file[key] for key in INPUT_KEYS if key in file), None)
        labels = next((file[key] for key in LABEL_KEYS if key in file), None)
        names = ", ".join(file.files) or "nothing"
    if inputs is None:
        raise UnusableData(f"expected an array named {' or '.join(INPUT_KEYS)} in {path}, got {names}; rename it")
    for array in (inputs, labels):
        _check_plain(array, path)
    return inputs, labels


def plain_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Arrays of a file by name, all of which must be there."""
    with _opened(path) as file:
        found = {name: file[name] for name in names if name in file}
    for name in names:
        if name not in found:
            raise UnusableData(f"expected an array named {name} in {path}, got {', '.join(found) or 'nothing'}")
        _check_plain(found[name], path)
    return found


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file, read without pickling; whatever is wrong with it becomes one error."""
    try:
        with np.load(path, allow_pickle=False) as file:
            yield file
    except (
        ValueError,
        OSError,
        EOFError,
        AttributeError,
        MemoryError,
        tokenize.TokenError,
        zipfile.BadZipFile,
    ) as error:
        raise UnusableData(
            f"expected an .npz file of plain arrays, got {path}, which is not one ({error}); nothing of it was run. "
            "Write it with numpy.savez(FILE, inputs=..., labels=...)"
        ) from None


def _check_plain(array: Any, path: Path) -> None:
    if array is not None and not isinstance(array, np.ndarray):
        raise UnusableData(f"expected plain arrays in {path}, got a member that is none; write it with numpy.savez")


def _check_inputs(inputs: NDArray[Any], path: Path) -> None:
    if np.issubdtype(inputs.dtype, np.integer):
        raise UnusableData(
            f"expected float inputs in {path}, got {inputs.dtype}; for images in 0..255 store "
            "(images / 255).astype('float32'), so that the noise scale is in units of the [0, 1] range"
        )
    if not np.issubdtype(inputs.dtype, np.floating) or inputs.ndim < 2:
        raise UnusableData(
            f"expected float inputs of shape (count, ...) in {path}, got {inputs.dtype} of shape {inputs.shape}; "
            "store them as float32 with one row per input"
        )


def _check_labels(labels: NDArray[Any], count: int, path: Path) -> None:
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        raise UnusableData(
            f"expected {count} integer labels in {path}, got {labels.dtype} of shape {labels.shape}; "
            "store one class number per input"
        )
