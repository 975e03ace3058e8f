"""Data sets of torchvision that are already on disk. Nothing is downloaded."""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.data.dataset import Labels, Positions, Source, UnusableData, unit_range
from recert.extras import import_extra
from recert.models.weights_only import weights_only_loads


def torchvision_source(rest: str, split: str) -> Source:
    """The data set `NAME:DIR`, constructed as torchvision's own documentation does."""
    name, colon, directory = rest.partition(":")
    if not colon or not directory:
        raise ValueError(f"expected torchvision:NAME:DIR, got 'torchvision:{rest}'; for example torchvision:MNIST:data")
    if name.lower() == "cifar10":
        raise ValueError(
            f"expected cifar10:{directory}, got torchvision:{rest}; recert reads CIFAR-10 itself, without pickle"
        )
    dataset = _opened(name, directory, split)

    def read(chosen: Positions) -> tuple[NDArray[np.float32], Labels | None]:
        items = [dataset[int(i)] for i in chosen]
        return _stacked([image for image, _ in items], name), np.array([label for _, label in items], np.int64)

    classes = getattr(dataset, "classes", None)
    names = tuple(str(each) for each in classes) if classes else None
    return Source(f"{name} {split}", np.arange(len(dataset), dtype=np.int64), read, names)


def _opened(name: str, directory: str, split: str) -> Any:
    datasets = import_extra("torchvision.datasets", extra="vision", purpose="a data set of torchvision")
    kind = getattr(datasets, name, None)
    if kind is None:
        raise ValueError(f"expected a data set of torchvision, got {name!r}; names are as in torchvision.datasets")
    parameters = inspect.signature(kind).parameters
    options = (
        {"train": split == "train"} if "train" in parameters else {"split": split} if "split" in parameters else {}
    )
    try:
        with weights_only_loads():
            return kind(root=directory, **options)
    except Exception as error:  # not downloaded, another split name, a broken file: torchvision has no common class
        raise UnusableData(
            f"expected {name} in {directory!r}, got an error from torchvision ({error}); download it there first"
        ) from None


def _stacked(images: list[Any], name: str) -> NDArray[np.float32]:
    arrays = [np.asarray(image) for image in images]
    if len({array.shape for array in arrays}) != 1 or arrays[0].dtype != np.uint8:
        raise UnusableData(
            f"expected images of one size in {name}, got several; store them resized in a folder or .npz"
        )
    stacked = np.stack(arrays)
    return unit_range(stacked[:, None] if stacked.ndim == 3 else np.ascontiguousarray(stacked.transpose(0, 3, 1, 2)))
