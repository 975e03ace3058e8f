"""Bins of histograms, with names for their bars and ticks under them. Pure."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from recert.figures.chart import tick_label

MOST_TICKS = 6  # labels of more ticks would touch each other in a figure of one column


@dataclass(frozen=True)
class Bins:
    """Edges between bars and a name for each bar. Ticks are at the edges, or under the bars if each bar is a number.

    With `zero` the first bar is of those that are 0: it has its name under it, since an edge there would look like a part of the scale.
    """

    edges: tuple[float, ...]
    names: tuple[str, ...]
    counted: bool = False
    zero: bool = False

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels on an axis where every bar is one unit wide.

        >>> import numpy as np
        >>> cost_bins(np.array([0, 30, 900])).ticks
        [(0.5, 'none'), (2, '50'), (4, '200'), (6, '1,000')]
        """
        if self.zero:
            every = -(-len(self.edges) // MOST_TICKS)
            labelled = range(max(2, every), len(self.edges), every)
            return [(0.5, self.names[0]), *((i, tick_label(self.edges[i])) for i in labelled)]
        places = [i + 0.5 for i in range(len(self.names))] if self.counted else list(range(len(self.edges)))
        labels = self.names if self.counted else [tick_label(edge) for edge in self.edges]
        every = -(-len(labels) // MOST_TICKS)
        return list(zip(places, labels, strict=True))[::every]


def _between(edges: list[float]) -> tuple[str, ...]:
    return tuple(f"{tick_label(low)} to {tick_label(high)}" for low, high in pairwise(edges))


def share_bins(_: NDArray[Any]) -> Bins:
    """Twenty bars from 0 to 1, whatever the values."""
    edges = [i / 20 for i in range(21)]
    return Bins(tuple(edges), _between(edges))


def count_bins(values: NDArray[Any]) -> Bins:
    """One bar for every number if the largest is at most 12; else bars that double in width.

    >>> import numpy as np
    >>> import numpy as np
    >>> count_bins(np.array([0, 3])).names
    ('0', '1', '2', '3')
    >>> count_bins(np.array([0, 40])).names
    ('0', '1', '2', '3–4', '5–8', '9–16', '17–32', '33–64')
    """
    most = int(values.max(initial=0))
    tops = list(range(most + 1))
    if most > 12:
        tops = [0, *(2**i for i in range(most.bit_length() + 1))]
        tops = tops[: 1 + next(i for i, top in enumerate(tops) if top >= most)]
    lows = [0, *(top + 1 for top in tops[:-1])]
    names = [str(low) if low == top else f"{low}–{top}" for low, top in zip(lows, tops, strict=True)]
    return Bins((*(low - 0.5 for low in lows), tops[-1] + 0.5), tuple(names), counted=True)


def cost_bins(values: NDArray[Any]) -> Bins:
    """Bars between round numbers, wider where the numbers are larger; inputs that cost nothing have a bar of their own.

    >>> import numpy as np
    >>> import numpy as np
    >>> cost_bins(np.array([0, 30, 900])).edges
    (0.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
    >>> cost_bins(np.array([95, 98, 103])).edges
    (95.0, 96.0, 97.0, 98.0, 99.0, 100.0, 101.0, 102.0, 103.0)
    """
    spent = values[values > 0]
    low, high = (float(spent.min()), float(spent.max())) if len(spent) else (1.0, 1.0)
    ladder = [unit * 10.0**exponent for exponent in range(19) for unit in (1, 2, 5)]
    first = max(i for i, edge in enumerate(ladder) if edge <= max(low, 1))
    last = next(i for i, edge in enumerate(ladder) if edge > high or (edge == high and i > first))
    edges = ladder[first : last + 1]
    if len(edges) < 6:  # a narrow range is shown evenly
        from matplotlib.ticker import MaxNLocator

        even = MaxNLocator(12, steps=[1, 2, 5, 10], integer=True).tick_values(low, high)
        edges = sorted({max(1.0, float(edge)) for edge in even})  # 0 is left to inputs that cost nothing
    return _with_zero(edges, bool((values == 0).any()))


def _with_zero(edges: list[float], zero: bool) -> Bins:
    if not zero:
        return Bins(tuple(edges), _between(edges))
    return Bins((0.0, *edges), ("none", *_between(edges)), zero=True)
