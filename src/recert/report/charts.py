"""Charts as places of lines, marks and bars; the template draws them. Nothing here knows of certificates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.figures.style import BASELINE, SERIES, Series, series
from recert.report.bins import Bins
from recert.report.scales import Scale

WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 80, 18, 16, 62

Point = tuple[float, float]

_SHAPES = {
    "o": "M-4.2 0a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0 -8.4 0z", "s": "M-3.8 -3.8h7.6v7.6h-7.6z", "^": "M0 -4.8L4.8 3.8H-4.8z",
    "D": "M0 -5L5 0L0 5L-5 0z", "v": "M0 4.8L4.8 -3.8H-4.8z", "P": "M-1.6 -4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
    "X": "M-4.6 -2.8L-2.8 -4.6L0 -1.8L2.8 -4.6L4.6 -2.8L1.8 0L4.6 2.8L2.8 4.6L0 1.8L-2.8 4.6L-4.6 2.8L-1.8 0z",
    "p": "M0 -4.8L4.6 -1.5L2.8 3.9H-2.8L-4.6 -1.5z",
    "*": "M0.0 -5.6L1.5 -2.0L5.3 -1.7L2.4 0.8L3.3 4.5L0.0 2.5L-3.3 4.5L-2.4 0.8L-5.3 -1.7L-1.5 -2.0z",
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How one result is drawn: its class in the style sheet, and what the paper's figures draw it with."""

    style: str
    series: Series

    @classmethod
    def of(cls, number: int, *, baseline: bool = False) -> "Look":
        """The looks of the paper's figures; baselines are grey."""
        look = Series(BASELINE.colour, series(number).dash, BASELINE.marker) if baseline else series(number)
        return cls("base" if baseline else f"s{number % len(SERIES)}", look)

    @property
    def dash(self) -> str:
        return " ".join(f"{2 * length:g}" for length in self.series.dash)

    @property
    def shape(self) -> str:
        return _SHAPES[self.series.marker]


@dataclass(frozen=True)
class Line:
    """A line through places, with marks on it that say what they are."""

    name: str
    look: Look
    path: str
    marks: tuple[tuple[float, float, str], ...] = ()
    band: str = ""


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Arrow:
    """From one place to another at the same height, with a word above it."""

    x: float
    y: float
    end: float
    text: str


@dataclass(frozen=True)
class Chart:
    """What the template needs to draw a chart. `title` and `description` are read out to those who do not see it."""

    title: str
    description: str
    x: Scale
    y: Scale
    x_label: str
    y_label: str
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    x_ticks: tuple[tuple[float, str], ...] | None = None
    percent: bool = False
    """Whether the vertical axis is a share."""


def x_scale(low: float, high: float, *, logarithmic: bool = False) -> Scale:
    return Scale(low, high, LEFT, WIDTH - RIGHT, logarithmic)


def y_scale(low: float, high: float) -> Scale:
    return Scale(low, high, HEIGHT - BOTTOM, TOP)


def path(x: Scale, y: Scale, points: Sequence[Point]) -> str:
    """An SVG path through points.

    >>> path(Scale(0, 1, 0, 10), Scale(0, 1, 10, 0), [(0, 0), (0.5, 1)])
    'M0.0 10.0L5.0 0.0'
    """
    return "M" + "L".join(f"{x(a)} {y(b)}" for a, b in points)


def histogram(values: NDArray[Any], bins: Bins, *, title: str, x_label: str, what: str) -> Chart:
    """Bars of how many values lie in each bin."""
    counts = np.histogram(values, bins.edges)[0]
    x, y = x_scale(0, len(counts)), y_scale(0, max(1.0, float(counts.max())) * 1.06)
    bars = tuple(
        Bar(x(i) + 1, y(count), round(x(i + 1) - x(i) - 2, 2), round(y(0) - y(count), 2), f"{name}: {count} {what}")
        for i, (count, name) in enumerate(zip(counts.tolist(), bins.names, strict=True))
    )
    fullest = int(counts.argmax())
    said = f"{len(values)} {what} in {len(counts)} bars; the fullest, {bins.names[fullest]}, has {counts[fullest]}."
    return Chart(title, said, x, y, x_label, what, bars=bars, x_ticks=bins.ticks(x))
