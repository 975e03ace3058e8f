"""The forms that people have training data in: a spec, arrays or tensors with labels, data sets and loaders of torch."""

import os
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from recert.data import Dataset, Source, data_source
from recert.data.dataset import arrays_source, take
from recert.sampling.inputs import checked_inputs
from recert.training.examples import Examples, LoadedExamples, StreamedExamples, WholeExamples, checked_labels

Data = Any
"""A spec such as `folder:DIR`, (inputs, labels) as arrays or tensors, a Dataset of `load_data`, or a Dataset or DataLoader of torch."""

_SHARE_OF_MEMORY = 0.4
_UNKNOWN_MEMORY = 2**31


def examples_of(data: Data, device: torch.device, *, split: str = "train", stream: bool | None = None) -> Examples:
    """The examples of the data: whole on the device if they take less than 40% of its free memory, or as `stream` says."""
    if isinstance(data, str | os.PathLike):
        source = data_source(os.fspath(data), split=split)
        if stream or (stream is None and not _fits(_size(source), torch.device("cpu"))):
            return StreamedExamples(_labelled(source), device)
        return _of_arrays(take(source, 1, None), device, stream)
    if isinstance(data, Dataset):
        return _of_arrays(data, device, stream)
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, list | tuple) and len(data) == 2:
        return _of_arrays(_dataset(*data), device, stream)
    if isinstance(data, DataLoader | TorchDataset):
        return LoadedExamples(_loader(data), device)
    raise ValueError(
        f"expected data to train on as (inputs, labels), a spec such as digits or FILE.npz, or a Dataset or DataLoader of torch, got "
        f"{type(data).__name__}"
    )


def _dataset(inputs: Any, labels: Any) -> Dataset:
    array = checked_inputs(inputs)
    numbers = checked_labels(labels).cpu().numpy()
    if len(array) != len(numbers):
        raise ValueError(f"expected as many labels as inputs, got {len(numbers)} and {len(array)}")
    return Dataset("arrays", array, numbers, np.arange(len(array)))


def _of_arrays(data: Dataset, device: torch.device, stream: bool | None) -> Examples:
    if data.labels is None:
        raise ValueError(f"expected labels to train on, got none in {data.name}; add them to the file")
    on_other_device = device.type != "cpu"
    if stream or (stream is None and on_other_device and not _fits(data.inputs.nbytes, device)):
        positions = np.arange(len(data), dtype=np.int64)
        return StreamedExamples(arrays_source(data.name, data.inputs, data.labels, positions, data.classes), device)
    return WholeExamples(data, device)


def _labelled(source: Source) -> Source:
    if source.read(source.positions[:1])[1] is None:
        raise ValueError(f"expected labels to train on, got none in {source.name}; add them to the file")
    return source


def _loader(data: Any) -> DataLoader[Any]:
    """A loader whose data set can be read in any order: the order is drawn here, so that a training that was stopped goes on with it."""
    loader: DataLoader[Any] = data if isinstance(data, DataLoader) else DataLoader(data)
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__len__"):
        raise ValueError(
            "expected a data set with a length and items by number, got one that is only iterated over; give it __len__ and __getitem__"
        )
    if not isinstance(loader.sampler, SequentialSampler | RandomSampler):
        raise ValueError(
            f"expected a DataLoader that shuffles or keeps the order, got one with a {type(loader.sampler).__name__}; "
            "for a part of the data pass torch.utils.data.Subset"
        )
    return loader


def _size(source: Source) -> int:
    """Bytes that the inputs of a source take as float32, by its first one. One more is needed while they are joined."""
    first, _ = source.read(source.positions[:1])
    return 2 * first.nbytes * len(source.positions)


def _fits(size: int, device: torch.device) -> bool:
    return size < _SHARE_OF_MEMORY * _free_memory(device)


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not on every system
        return _UNKNOWN_MEMORY
