"""What a data set is here: inputs in [0, 1], labels when there are any, and where each input came from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.errors import RecertError

Labels = NDArray[np.int64]
Positions = NDArray[np.int64]


class UnusableData(RecertError):
    """The data cannot be read as it is: the message says why and what to change."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs (count x ...) as float32, labels or None, the position of each in its source, names of the classes."""

    name: str
    inputs: NDArray[np.float32]
    labels: Labels | None
    indices: Positions
    classes: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, eq=False)
class Source:
    """A data set not read yet. `positions` are its inputs in order; `read` returns some of them, with their labels."""

    name: str
    positions: Positions
    read: Callable[[Positions], tuple[NDArray[np.float32], Labels | None]]
    classes: tuple[str, ...] | None = None


def take(source: Source, every: int, count: int | None) -> Dataset:
    """Every k-th input, then the first `count` of those, or all if there are fewer. Only they are read."""
    if every < 1:
        raise ValueError(f"expected every >= 1, got {every}; 20 takes inputs 0, 20, 40, ...")
    if count is not None and count < 1:
        raise ValueError(f"expected count >= 1, got {count}; leave it out to take all inputs")
    chosen = source.positions[::every][:count]
    if len(chosen) == 0:
        raise UnusableData(f"expected at least one input, got none in {source.name}; check the folder or the file")
    inputs, labels = source.read(chosen)
    return Dataset(source.name, inputs, labels, chosen, source.classes)


def arrays_source(
    name: str, inputs: NDArray[Any], labels: Labels | None, positions: Positions, classes: tuple[str, ...] | None
) -> Source:
    """A source over arrays in memory, indexed by position; bytes become [0, 1] only for the inputs that are taken."""

    def read(chosen: Positions) -> tuple[NDArray[np.float32], Labels | None]:
        return unit_range(inputs[chosen]), None if labels is None else labels[chosen].astype(np.int64)

    return Source(name, positions, read, classes)


def unit_range(images: NDArray[Any]) -> NDArray[np.float32]:
    """Bytes as float32 in [0, 1], as every image library does it; floats as they are."""
    if images.dtype == np.uint8:
        return images.astype(np.float32) / np.float32(255)
    return np.ascontiguousarray(images, dtype=np.float32)
