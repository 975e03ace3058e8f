"""What one run of a study is asked for, and when it has to stop."""

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recert import Gaussian, Noise, RecertError, parse_noise
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
    sigma: float | str
    """Of Gaussian noise; or the spec of another noise."""
    approximation: str
    samples: int
    count: int

    @property
    def name(self) -> str:
        return f"{self.network}-{_short_text(self.sigma)}-{self.approximation.replace(':', '-')}-n{self.samples}"

    @property
    def noise(self) -> Noise:
        return noise_of(self.sigma)


def noise_of(sigma: float | str) -> Noise:
    """Gaussian noise of this sigma, or the noise of a spec."""
    return parse_noise(sigma) if isinstance(sigma, str) else Gaussian(sigma)


def noise_words(sigma: float | str) -> str:
    """As captions name it.

    >>> noise_words(0.25), noise_words("laplace:0.35")
    ('sigma 0.25', 'laplace:0.35')
    """
    return sigma if isinstance(sigma, str) else f"sigma {sigma}"


def sigma_text(sigma: float | str) -> str:
    """As weights and stores are named; other noises as `recert train` names their weights.

    >>> sigma_text(1), sigma_text(0.25), sigma_text("gaussian:0.5:grid=1/16")
    ('1.0', '0.25', 'gaussian-0.5-grid-1-16')
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", sigma) if isinstance(sigma, str) else str(float(sigma))


def _short_text(sigma: float | str) -> str:
    return f"{sigma:g}" if isinstance(sigma, float) and sigma % 1 else sigma_text(sigma)


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
