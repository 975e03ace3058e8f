"""Inputs in the forms that people have them in, as one array or tensor: loaders, data sets of torch, lists. Labels are left behind."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

Array = NDArray[np.float32] | torch.Tensor
Inputs = Array | Sequence[Any] | DataLoader[Any] | Dataset[Any] | None
"""What verbs take: the first dimension, or the length, counts the inputs."""

RANDOM_ORDER = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
ITEMS_READ_TWICE = 4
"""Of a data set, to see whether its items are always the same."""


def gathered(inputs: Any) -> Any:
    """The inputs as one array or tensor, or None; what is one already is returned as it is.

    A `DataLoader` and a `Dataset` of torch are read whole; of pairs (input, label) the input is taken. ValueError where
    the order or the items would differ from one reading to the next, and for a generator.
    """
    if inputs is None or isinstance(inputs, np.ndarray | torch.Tensor) or hasattr(inputs, "__array__"):
        return inputs
    if isinstance(inputs, DataLoader):
        _check_order(inputs)
        _check_same_items(inputs.dataset)
        # Without a batch size, or a sampler of batches, it gives single items.
        return _joined([_first(batch, "batches") for batch in _in_order(inputs)], stack=inputs.batch_sampler is None)
    if isinstance(inputs, Dataset):
        _check_same_items(inputs)
        return _joined([_first(item, "items") for item in _in_order(inputs)])
    if isinstance(own := getattr(inputs, "inputs", None), np.ndarray):  # of `recert.data.load_data`
        return own
    if isinstance(inputs, list | tuple):
        return _joined(list(inputs)) if any(_is_array(each) for each in inputs) else inputs
    if isinstance(inputs, Iterator):
        raise ValueError(
            "expected inputs that can be read again, got a generator, which is gone after one reading: a later re-certification or "
            "audit is about the same inputs; collect them first, inputs = numpy.stack(list(generator))"
        )
    raise ValueError(
        f"expected inputs as an array, a tensor, a list of arrays, a DataLoader or a Dataset of torch, got {type(inputs).__name__}; "
        "write inputs = numpy.stack([...])"
    )


def _check_order(loader: DataLoader[Any]) -> None:
    if isinstance(loader.sampler, RANDOM_ORDER) or isinstance(
        getattr(loader.batch_sampler, "sampler", None), RANDOM_ORDER
    ):
        raise ValueError(
            "expected a DataLoader that keeps its order, got one that shuffles: certificates are in the order of the inputs, and no "
            "label would fit; pass DataLoader(dataset, batch_size=..., shuffle=False), or the dataset itself"
        )


def _check_same_items(dataset: Dataset[Any]) -> None:
    """ValueError for a data set with random augmentation: every reading gives other inputs, which no cache knows."""
    if isinstance(dataset, IterableDataset):
        return
    with torch.random.fork_rng(devices=[]):
        for i in range(min(ITEMS_READ_TWICE, _length(dataset))):
            once, again = (np.asarray(_first(dataset[i], "items")) for _ in range(2))
            if not np.array_equal(once, again, equal_nan=once.dtype.kind == "f"):
                raise ValueError(
                    f"expected a data set whose items stay the same, got another item {i} at the second reading; leave random "
                    "augmentation out: a certificate is about one input, and the noise is added here"
                )


def _length(dataset: Dataset[Any]) -> int:
    if not hasattr(dataset, "__len__"):
        raise ValueError(f"expected a data set with a length, got {type(dataset).__name__}; give it __len__")
    return len(dataset)


def _in_order(source: DataLoader[Any] | Dataset[Any]) -> Iterator[Any]:
    """Batches of a loader, or items of a data set; the caller's random state stays as it is, from which a loader takes a seed."""
    with torch.random.fork_rng(devices=[]):
        if isinstance(source, Iterable):
            yield from source
        else:  # not by iteration: an index that is too large raises IndexError in some data sets only
            yield from (source[i] for i in range(_length(source)))


def _first(item: Any, what: str) -> Any:
    """The input of an item or batch, which may be a pair of input and label."""
    value = item[0] if isinstance(item, list | tuple) and len(item) else item
    if _is_array(value):
        return value
    if isinstance(value, dict):
        remedy = f"name the field, inputs = torch.cat([each[{next(iter(value), 'image')!r}] for each in loader])"
    elif type(value).__module__.startswith("PIL."):
        remedy = "give the data set transform=torchvision.transforms.ToTensor()"
    else:
        remedy = "write inputs = torch.stack([...])"
    raise ValueError(f"expected {what} of tensors, alone or before their labels, got {type(value).__name__}; {remedy}")


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | torch.Tensor)


def _joined(parts: list[Any], *, stack: bool = True) -> Any:
    """Inputs, or batches of them, as one tensor if all of them are tensors, else as one array."""
    if not parts:
        raise ValueError("expected at least one input, got none; is the data set empty?")
    tensors = all(isinstance(part, torch.Tensor) for part in parts)
    parts = [part.detach().cpu() if isinstance(part, torch.Tensor) else np.asarray(part) for part in parts]
    shapes = [tuple(part.shape) if stack else tuple(part.shape[1:]) for part in parts]
    for i, (before, shape) in enumerate(pairwise(shapes), 1):
        if shape != before:
            raise ValueError(
                f"expected inputs of one shape, got {before} and then {shape} at place {i}; resize or pad them"
            )
    if tensors:
        return torch.stack(parts) if stack else torch.cat(parts)
    arrays = [np.asarray(part) for part in parts]
    return np.stack(arrays) if stack else np.concatenate(arrays)
