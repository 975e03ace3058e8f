"""Networks that workers import by name: plain ones, and ones that misbehave for real."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import recert
from recert.engines import open_votes
from recert.models.digits_network import DigitsNetwork
from recert.sampling import VoteSource


def digits_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return DigitsNetwork().eval()


@contextmanager
def on_engine(
    engine: str, model: nn.Module, inputs: np.ndarray, *, noise: recert.Noise, seed: int, **execution: Any
) -> Iterator[VoteSource]:
    """Votes of a model that runs on an engine."""
    with open_votes(
        model, inputs, noise=noise, seed=seed, execution=recert.Execution(engine=engine, **execution)
    ) as source:
        yield source


def digits_inputs(count: int = 5) -> np.ndarray:
    return np.random.default_rng(0).random((count, 1, 8, 8), dtype=np.float32)


class Wrapped(nn.Module):
    """A network with something before it. Marks in a folder tell what has happened, in whatever process."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.inner = digits_network()
        self.folder = str(folder)

    def forward(self, batch: Tensor) -> Tensor:
        answer: Tensor = self.inner(batch)
        return answer

    def first(self, name: str) -> bool:
        """Whether this has not happened before."""
        try:
            os.close(os.open(os.path.join(self.folder, name), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Patient(Wrapped):
    """Takes its time, so that something can happen meanwhile."""

    def forward(self, batch: Tensor) -> Tensor:
        time.sleep(0.02)
        return super().forward(batch)


class Slow(Patient):
    """The same, and leaves the number of its process."""

    def forward(self, batch: Tensor) -> Tensor:
        self.first(f"pid-{os.getpid()}")
        return super().forward(batch)


class ChangesItself(Wrapped):
    """After some calls it answers the opposite."""

    def forward(self, batch: Tensor) -> Tensor:
        calls = self.__dict__["calls"] = self.__dict__.get("calls", 0) + 1
        return super().forward(batch) * (1 if calls < 12 else -1)


class RunsOutOfMemory(Wrapped):
    """In the middle of a run, once, its process may take no more memory than it has, and needs more."""

    def forward(self, batch: Tensor) -> Tensor:
        with open(
            os.path.join(self.folder, f"calls-{os.getpid()}"), "a"
        ) as file:  # in no attribute: the model stays what it is
            file.write(".")
            calls = file.tell()
        if calls == 10 and self.first("out of memory"):
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + 2**20
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        if calls >= 10:
            torch.empty(2**28, dtype=torch.uint8)
        return super().forward(batch)


class RaisesOnBright(Wrapped):
    """Raises when an image that is bright in its first corner is in the batch."""

    def forward(self, batch: Tensor) -> Tensor:
        if (batch[:, 0, 0, 0] > 50).any():
            raise RuntimeError("the image is too bright\nand more about it")
        return super().forward(batch)
