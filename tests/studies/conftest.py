"""Votes with a known truth stand in for a network: three classes, each vote drawn by numpy from given probabilities."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recert
from recert.models.identity import ModelIdentity
from recert.models.numerics import Numerics
from recert.noise import Stream
from recert.sampling import ProgressCallback, VoteChunk, Work
from studies.request import Clock
from studies.stores import About, StudyVotes

INPUTS = 12
PROBABILITIES = np.linspace(0.55, 0.999, INPUTS)
FLIPS = 0.02


@dataclass
class Coins:
    """A source whose vote is a function of (input, stream, sample): class 0 with the input's probability, else 1 or 2.

    A changed one moves a vote to the next class with probability FLIPS. Counts how many votes it was asked for, and which.
    """

    changed: bool = False
    limit: int | None = None
    asked: int = 0
    drawn: dict[tuple[int, Stream], set[int]] = field(default_factory=dict)
    classes: int = 3
    noise: recert.Gaussian = field(default_factory=lambda: recert.Gaussian(0.5))
    seed: int = 0
    weights: str = "coins"
    digests: list[str] = field(default_factory=lambda: [hashlib.sha256(bytes([i])).hexdigest() for i in range(INPUTS)])
    input_shape: tuple[int, ...] = (1,)
    streams: frozenset[Stream] = frozenset(Stream)
    numerics: Numerics = field(default_factory=lambda: Numerics.from_text({"device": "coins", "dtype": "float32"}))

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(self.weights, str(self.changed))

    def truth(self, position: int, stream: Stream, size: int) -> np.ndarray:
        draws = np.random.default_rng([position, int(stream)]).random((size, 3))
        votes = np.where(draws[:, 0] < PROBABILITIES[position], 0, 1 + (draws[:, 1] < 0.5))
        return (votes + (self.changed & (draws[:, 2] < FLIPS))) % 3

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        for work in works:
            samples = np.asarray(work.samples)
            self.asked += len(samples)
            if self.limit is not None and self.asked > self.limit:
                raise KeyboardInterrupt
            self.drawn.setdefault((work.position, work.stream), set()).update(samples.tolist())
            votes = self.truth(work.position, work.stream, int(samples[-1]) + 1)[samples]
            yield VoteChunk(work, 0, votes.astype(np.uint8), 0.0)


def about(coins: Coins) -> About:
    count = len(coins.digests)
    return About(
        network="coins", approximation="changed" if coins.changed else "original", noise=coins.noise.spec, seed=coins.seed,
        data="coins", digests=coins.digests, indices=list(range(count)), labels=[0] * count, clean=[0] * count, description="coins",
    )  # fmt: skip


OpenStore = Callable[..., StudyVotes]


def stores_in(folder: Path) -> OpenStore:
    """Opens votes of coins, in a store named by whether they are changed."""

    def open_store(
        coins: Coins | None, *, changed: bool = False, count: int = INPUTS, clock: Clock | None = None, **options: Any
    ) -> StudyVotes:
        path = folder / ("changed" if changed else "original")
        opened = None if coins is None else lambda batch_size: (coins, about(coins))
        return StudyVotes(path, count=count, open_network=opened, clock=clock or Clock(), **options)

    return open_store


@pytest.fixture
def open_store(tmp_path: Path) -> OpenStore:
    return stores_in(tmp_path)


@pytest.fixture(scope="module")
def open_store_of_module(tmp_path_factory: pytest.TempPathFactory) -> OpenStore:
    return stores_in(tmp_path_factory.mktemp("votes"))
