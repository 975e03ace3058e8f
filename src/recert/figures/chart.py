"""A figure with its texts, and what all figures share beside the style: legends, short names, labels of ticks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

MOST_LETTERS = 44
"""Longer names are shortened in figures: a line of a legend holds no more."""


@dataclass(frozen=True)
class Chart:
    """A figure, its name in files, and its title and description, which are read out to those who do not see it.

    `marks` says what each mark of a line is, in order, by the gid of the line.
    """

    name: str
    title: str
    description: str
    figure: "Figure"
    marks: Mapping[str, Sequence[str]]


def add_legend(figure: "Figure", entries: "Sequence[tuple[str, Artist]]") -> None:
    """Below the axes, where it covers nothing: the figure grows by its lines. A single entry needs none."""
    if len(entries) < 2:
        return
    labels = [shortened(name) for name, _ in entries]
    width, height = figure.get_size_inches()
    # At 7.5 points a letter is about 4.4 points wide, and the line before it 38.
    columns = max(1, min(len(labels), int(72 * width / (38 + 4.4 * max(map(len, labels))))))
    figure.set_figheight(height - 0.1 + 0.16 * math.ceil(len(labels) / columns))
    handles = [handle for _, handle in entries]
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=columns, borderaxespad=0.2)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a name is shown as it is, also one with dollar signs


def shortened(name: str) -> str:
    """A name in one short line: its beginning and its end.

    >>> shortened("a" * 40 + "-auto-500")
    'aaaaaaaaaaaaaaaaaaaaaa…aaaaaaaaaaaa-auto-500'
    """
    line = "".join(letter if letter.isprintable() else " " for letter in name)
    half = MOST_LETTERS // 2
    return line if len(line) <= MOST_LETTERS else f"{line[:half]}…{line[1 - half :]}"


def tick_label(value: float, _: object = None) -> str:
    """As numbers are written everywhere else: 0.25, 500, 10,000.

    >>> [tick_label(v) for v in (0, 0.25, 500, 10_000, 2_500_000)]
    ['0', '0.25', '500', '10,000', '2,500,000']
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
