"""Counts as bars of text."""

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from recert.cli.output import print_table

WIDTH = 40


@dataclass(frozen=True)
class Bin:
    """Values from `start` up to, but not with, `end`; the last bin has its end, too."""

    start: float
    end: float
    inputs: int


def bins(values: Any, edges: list[float]) -> list[Bin]:
    """How many values lie between neighbouring edges."""
    import numpy as np

    counts, _ = np.histogram(values, edges)
    return [Bin(float(a), float(b), int(n)) for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)]


def draw(title: str, chart: list[Bin]) -> None:
    """A line per bin on stdout."""
    most = max(1, *(b.inputs for b in chart))
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    for b in chart:
        table.add_row(f"{b.start:.3f} to {b.end:.3f}", "█" * round(WIDTH * b.inputs / most), str(b.inputs))
    print_table(table)
