"""Counts as bars of text."""

import sys
from dataclasses import dataclass
from typing import Any

from recert.cli.streams import printing

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
    block = "█" if (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf") else "#"
    with printing():
        print(f"\n{title}")
        for b in chart:
            print(f"{b.start:.3f} to {b.end:.3f}  {block * round(WIDTH * b.inputs / most):{WIDTH}}  {b.inputs:,}")
