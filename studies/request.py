"""What one run of a study is asked for, and when it has to stop."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recert import RecertError
from studies.catalogue import Grid, Study

ALPHA, CACHE_ALPHA = 0.002, 0.001
"""The paper's: alpha + alpha_zeta for a re-certification and its baseline, alpha for the original."""
SELECTION_SAMPLES = 500
IMAGES = 500
"""The paper's test set: so many images, evenly spread; a smaller count takes the first of them."""


class OutOfTime(RecertError):
    """The time that was given is over; what was drawn is in the store: run the same command again."""


@dataclass(frozen=True)
class Clock:
    """Says stop some seconds before the minutes are over, so that everything can be put away."""

    minutes: float | None = None
    started: float = field(default_factory=time.monotonic)
    reserve: float = 8.0

    def check(self) -> None:
        if self.minutes is not None and time.monotonic() - self.started > 60 * self.minutes - self.reserve:
            raise OutOfTime(f"{self.minutes:g} minutes are over")


@dataclass(frozen=True)
class Cell:
    """One entry of a table: a network trained for a noise, changed in one way, with so many cached votes."""

    network: str
    sigma: float
    approximation: str
    samples: int
    count: int

    @property
    def name(self) -> str:
        sigma = f"{self.sigma:g}" if self.sigma % 1 else f"{self.sigma:.1f}"
        return f"{self.network}-{sigma}-{self.approximation.replace(':', '-')}-n{self.samples}"


@dataclass(frozen=True)
class Request:
    """A study, its cells, and how to run it."""

    study: Study
    grid: Grid
    store: Path
    out: Path
    data: str
    device: str = "cpu"
    weights: Path | None = None
    precision: str | None = None
    compiled: bool = False
    batch_size: int | None = None
    seed: int = 0
    draw_only: bool = False
    may_draw: bool = True
    allow_numerics: bool = False
    again: bool = False
    clock: Clock = Clock()
    log: Callable[[str], None] = print
    progress: Callable[[Any], None] | None = None
    votes: Path | None = None
    """A file of votes in place of stores, for studies that can do with it."""

    @property
    def cells(self) -> list[Cell]:
        g = self.grid
        combined = itertools.product(g.networks, g.sigmas, g.samples, g.approximations)
        return [Cell(network, sigma, change, n, g.count) for network, sigma, n, change in combined]
