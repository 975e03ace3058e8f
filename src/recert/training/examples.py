"""The examples that a network is trained on: whole on the device where they fit, else batch by batch as they are needed."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from recert.data import Dataset, Source
from recert.training.card import describe_data

Batch = tuple[Tensor, Tensor]
"""Inputs and labels, on the device."""

SOME = 64
"""Examples of a data set that is not read whole by which it is known again."""


class Examples(ABC):
    """Inputs with labels. `labels` are all of them where they are known without reading the inputs."""

    name: str
    count: int
    shape: tuple[int, ...]
    labels: Tensor | None = None
    classes: int | None = None
    """How many the network knows, once that is known: labels beyond are refused."""
    usual_batch: int | None = None

    @abstractmethod
    def batches(self, order: Tensor, size: int, seed: int = 0) -> Iterator[Batch]:
        """Those at these places in this order, so many at a time; the last batch may be smaller."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """What a card says of them, and what shows that a training goes on with the same ones."""

    def check_labels(self, classes: int) -> None:
        """ValueError if the network knows fewer classes: now where all labels are known, else when they are read."""
        self.classes = classes
        if self.labels is not None:
            self._known(self.labels)

    def _known(self, labels: Tensor) -> Tensor:
        """The labels, if they are ones that the network has."""
        if self.classes is not None and (labels.min() < 0 or labels.max() >= self.classes):
            raise ValueError(
                f"expected labels from 0 to {self.classes - 1}, as the network has {self.classes} outputs, got "
                f"{int(labels.min())} to {int(labels.max())} in {self.name}; number the classes from 0"
            )
        return labels

    def some(self, most: int) -> Tensor:
        """Places of at most so many, evenly spread."""
        return torch.from_numpy(np.unique(np.linspace(0, self.count - 1, min(most, self.count)).astype(np.int64)))


class WholeExamples(Examples):
    """A data set on the device."""

    def __init__(self, data: Dataset, device: torch.device) -> None:
        assert data.labels is not None
        self.data, self.name, self.count, self.shape = data, data.name, len(data), data.inputs.shape[1:]
        self.inputs, self.labels = torch.from_numpy(data.inputs).to(device), torch.from_numpy(data.labels).to(device)

    def batches(self, order: Tensor, size: int, seed: int = 0) -> Iterator[Batch]:
        assert self.labels is not None
        for chosen in torch.split(order.to(self.labels.device), size):
            yield self.inputs[chosen], self.labels[chosen]

    def described(self) -> dict[str, Any]:
        return describe_data(self.data)


class StreamedExamples(Examples):
    """A data set that stays where it is: threads read and decode the next batches while the network learns from this one."""

    def __init__(self, source: Source, device: torch.device) -> None:
        self.source, self.device, self.name, self.count = source, device, source.name, len(source.positions)
        self._first, labels = source.read(source.positions[self.some(SOME).numpy()])
        self.shape, self._first_labels = self._first.shape[1:], labels

    def batches(self, order: Tensor, size: int, seed: int = 0) -> Iterator[Batch]:
        places = [self.source.positions[chosen.cpu().numpy()] for chosen in torch.split(order, size)]
        for inputs, labels in _ahead(self.source.read, places):
            assert labels is not None
            yield _moved(torch.from_numpy(inputs), self._known(torch.from_numpy(labels)), self.device)

    def described(self) -> dict[str, Any]:
        some = Dataset(self.name, self._first, self._first_labels, np.arange(len(self._first)))
        return {**describe_data(some), "count": self.count, "sha256_of": len(some)}


class LoadedExamples(Examples):
    """A data set of torch, read item by item as its loader does it, with whatever random augmentation it has."""

    def __init__(self, loader: DataLoader[Any], device: torch.device) -> None:
        self.loader, self.device = loader, device
        data: Any = loader.dataset
        self.name, self.count, self.usual_batch = type(data).__name__, len(data), loader.batch_size
        try:
            inputs, _ = next(self.batches(torch.arange(min(2, self.count)), 2))
        except TypeError as error:
            raise ValueError(
                f"expected items of an input and its label, as tensors or arrays, in {self.name}, got a TypeError where they are joined to batches: "
                f"{str(error)[:200]}; images are made tensors by transform=torchvision.transforms.ToTensor()"
            ) from error
        self.shape = tuple(inputs.shape[1:])

    def batches(self, order: Tensor, size: int, seed: int = 0) -> Iterator[Batch]:
        old = self.loader
        loader = DataLoader(
            old.dataset,
            batch_sampler=[chosen.tolist() for chosen in torch.split(order.cpu(), size)],
            num_workers=old.num_workers,
            collate_fn=old.collate_fn,
            worker_init_fn=old.worker_init_fn,
            generator=torch.Generator().manual_seed(seed),
        )
        for batch in loader:
            inputs, labels = _pair(batch)
            yield _moved(inputs, self._known(labels), self.device)

    def described(self) -> dict[str, Any]:
        labels = getattr(self.loader.dataset, "targets", None)
        known = hashlib.sha256(np.asarray(labels, np.int64).tobytes()).hexdigest() if labels is not None else None
        return {"name": self.name, "count": self.count, "shape": list(self.shape), "sha256_of_labels": known}


def _ahead(read: Callable[[Any], Any], places: Sequence[Any]) -> Iterator[Any]:
    """What `read` returns for each, in order; a few are read ahead. Threads: decoders and numpy let others run meanwhile."""
    threads = min(8, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Any] = deque()
        try:
            for place in places:
                waiting.append(pool.submit(read, place))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


def _pair(batch: Any) -> Batch:
    """Inputs and labels of a batch of a loader."""
    if not (isinstance(batch, list | tuple) and len(batch) == 2 and all(isinstance(each, Tensor) for each in batch)):
        got = f"{len(batch)} parts" if isinstance(batch, list | tuple) else type(batch).__name__
        raise ValueError(
            f"expected batches of (inputs, labels), both tensors, got {got}; give the DataLoader a collate_fn"
        )
    inputs, labels = batch
    if inputs.dtype != torch.float32:
        raise ValueError(
            f"expected float32 inputs, got {inputs.dtype}; images in 0..255 are divided by 255 (torchvision.transforms.ToTensor does it)"
        )
    return inputs, checked_labels(labels)


def checked_labels(labels: Any) -> Tensor:
    """Labels as int64, or a ValueError that says what they should be."""
    labels = torch.as_tensor(labels) if not isinstance(labels, Tensor) else labels
    if labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool or labels.is_complex():
        kind = str(labels.dtype).removeprefix("torch.")
        raise ValueError(
            f"expected one class number per input, integers of shape (count,), got {kind} of shape {tuple(labels.shape)}; "
            "of one-hot rows pass labels.argmax(1)"
        )
    numbers: Tensor = labels.to(torch.int64)
    return numbers


def _moved(inputs: Tensor, labels: Tensor, device: torch.device) -> Batch:
    if device.type == "cuda":
        inputs, labels = inputs.pin_memory(), labels.pin_memory()
    return inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)


def whole_batches(order: Tensor, size: int) -> Tensor:
    """The order without a smaller last batch: a compiled network would be compiled once more for its shape. Each epoch leaves out others."""
    return order[: len(order) - len(order) % size] if len(order) > size else order


def without_single_rest(order: Tensor, size: int) -> Tensor:
    """The order without a last batch of one example, whose variance batch normalisation cannot take."""
    return order[:-1] if len(order) > 1 and len(order) % size == 1 else order
