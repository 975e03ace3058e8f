"""Votes with a known truth stand in for a network: three classes, each vote drawn by numpy from given probabilities."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from recert.models.identity import ModelIdentity
from recert.noise import Gaussian, Stream
from recert.sampling import ProgressCallback, VoteChunk, Work
from recert.studies.kept import KeptVotes
from recert.studies.request import Clock
from recert.studies.vote_file import About

INPUTS = 12
PROBABILITIES = np.linspace(0.55, 0.999, INPUTS)
FLIPS = 0.02


@dataclass
class Coins:
    """A source whose vote is a function of (input, stream, sample): class 0 with the input's probability, else 1 or 2.

    A changed one moves a vote to the next class with probability FLIPS. Counts how many votes it was asked for.
    """

    changed: bool = False
    limit: int | None = None
    asked: int = 0
    classes: int = 3
    identity: ModelIdentity = field(default_factory=lambda: ModelIdentity("coins", "coins"))
    digests: list[str] = field(default_factory=lambda: [hashlib.sha256(bytes([i])).hexdigest() for i in range(INPUTS)])
    input_shape: tuple[int, ...] = (1,)
    streams: frozenset[Stream] = frozenset(Stream)
    noise: Gaussian | None = None
    seed: int | None = None
    numerics: dict[str, str] = field(default_factory=lambda: {"device": "coins", "dtype": "float32"})

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
            votes = self.truth(work.position, work.stream, int(samples[-1]) + 1)[samples]
            yield VoteChunk(work, 0, votes.astype(np.uint8), 0.0)


def about(coins: Coins, **fields: object) -> About:
    told = About(
        network="coins", approximation="changed" if coins.changed else "original", noise="gaussian:0.5", seed=0, data="coins",
        classes=3, input_shape=(1,), digests=coins.digests, indices=list(range(INPUTS)), labels=[0] * INPUTS, clean=[0] * INPUTS,
        identity={"weights": coins.identity.weights, "structure": str(coins.changed)}, numerics=coins.numerics, description="coins",
    )  # fmt: skip
    return replace(told, **fields)  # type: ignore[arg-type]


Keep = Callable[..., KeptVotes]


def keeping(folder: Path) -> Keep:
    """Makes kept votes of coins, in a file named by whether they are changed."""

    def make(
        coins: Coins | None, *, changed: bool = False, count: int = INPUTS, clock: Clock | None = None, **fields: object
    ) -> KeptVotes:
        path = folder / f"{'changed' if changed else 'original'}.parquet"
        opened = None if coins is None else lambda batch_size: (coins, about(coins, **fields))
        return KeptVotes(path, count, opened, clock or Clock())

    return make


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    return keeping(tmp_path)


@pytest.fixture(scope="module")
def keep_all(tmp_path_factory: pytest.TempPathFactory) -> Keep:
    return keeping(tmp_path_factory.mktemp("votes"))
