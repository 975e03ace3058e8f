"""CIFAR-10 (Krizhevsky, 2009) as it is distributed: the binary layout, and the python layout, read without running what a pickle names."""

from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from recert.data.dataset import Source, UnusableData, arrays_source
from recert.data.restricted_pickle import read_plain_pickle

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
PIXELS = 3 * 32 * 32

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def cifar10_source(directory: Path, split: str) -> Source:
    """Images (3, 32, 32) of a split, from `directory` or a child of it, whichever layout is there."""
    folder, suffix = _find(directory)
    read = _binary_batch if suffix else _python_batch
    batches = [read(_existing(folder / f"{name}{suffix}")) for name in BATCHES[split]]
    images = np.concatenate([images for images, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    return arrays_source(f"cifar10 {split}", images, labels, np.arange(len(images), dtype=np.int64), CLASSES)


def _find(directory: Path) -> tuple[Path, str]:
    """The directory that holds the batches, and the suffix of their names; binary before python."""
    if directory.is_dir():
        folders = [directory, *sorted(child for child in directory.iterdir() if child.is_dir())]
        for suffix in (".bin", ""):
            for folder in folders:
                if (folder / f"test_batch{suffix}").is_file():
                    return folder, suffix
    raise UnusableData(
        f"expected CIFAR-10 (cifar-10-batches-bin or cifar-10-batches-py) in {str(directory)!r}, got no test_batch there; "
        "unpack https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz and write cifar10:DIR, or set RECERT_CIFAR10"
    )


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UnusableData(f"expected all batches of CIFAR-10, got none at {path}; unpack the archive again")
    return path


def _binary_batch(path: Path) -> Batch:
    """Records of one label byte and 3,072 pixel bytes."""
    data = np.fromfile(path, np.uint8)
    if len(data) == 0 or len(data) % (1 + PIXELS):
        raise UnusableData(
            f"expected records of {1 + PIXELS} bytes in {path}, got {len(data)} bytes in all; unpack the archive again"
        )
    records = data.reshape(-1, 1 + PIXELS)
    return _checked(records[:, 1:], records[:, 0].astype(np.int64), path)


def _python_batch(path: Path) -> Batch:
    """A dictionary with `data` (count x 3072 bytes) and `labels`."""
    content = read_plain_pickle(path)
    fields: dict[Any, Any] = content if isinstance(content, dict) else {}
    data, labels = fields.get(b"data"), fields.get(b"labels")
    if not _are_images(data) or not _are_numbers(labels) or len(data) != len(labels):
        raise UnusableData(
            f"expected 'data' ({PIXELS} bytes an image) and as many 'labels' in {path}, got something else; "
            "unpack the archive again"
        )
    return _checked(data, np.array(labels, np.int64), path)


def _are_images(data: Any) -> TypeGuard[NDArray[np.uint8]]:
    return isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == PIXELS and len(data) > 0


def _are_numbers(labels: Any) -> TypeGuard[list[int]]:
    return isinstance(labels, list) and all(isinstance(label, int) for label in labels)


def _checked(pixels: NDArray[np.uint8], labels: NDArray[np.int64], path: Path) -> Batch:
    if labels.min() < 0 or labels.max() >= len(CLASSES):
        raise UnusableData(
            f"expected labels from 0 to 9 in {path}, got {labels.min()} to {labels.max()}; is this CIFAR-10?"
        )
    return pixels.reshape(-1, 3, 32, 32), labels
