"""The charts of results, each drawn in one place: pages show them inline, papers get them as files.

A chart is made from plain values: names, places and looks. Nothing here knows of certificates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recert.figures.bins import Bins, tick_label
from recert.figures.style import Series, new_figure, paper_style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ARROW = {"arrowstyle": "-|>", "shrinkA": 4, "shrinkB": 0, "linewidth": 0.9, "mutation_scale": 7, "color": "black"}
MOST_LETTERS = 44
"""Longer names are shortened in legends, where a line holds no more."""


@dataclass(frozen=True)
class Texts:
    """What a chart is called (`name` in file names), what is said of it to those who do not see it, and its axes."""

    name: str
    title: str
    description: str
    x_label: str
    y_label: str


@dataclass(frozen=True)
class Chart:
    """A figure with its texts. `marks` says what each mark of a part is, in order; parts are artists with that gid."""

    texts: Texts
    figure: "Figure"
    marks: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Curve:
    """A line through points, with marks on some of them: the number of the point, and what it says."""

    name: str
    look: Series
    x: Sequence[float]
    y: Sequence[float]
    marks: Mapping[int, str]
    band: tuple[Sequence[float], Sequence[float]] | None = None


@dataclass(frozen=True)
class Point:
    """A mark of its own. One without a name is not in the legend."""

    name: str | None
    look: Series
    x: float
    y: float
    title: str


@dataclass(frozen=True)
class Arrow:
    """From one place to another at the same height, with a text above it."""

    start: float
    end: float
    y: float
    text: str


@dataclass(frozen=True)
class Counts:
    """How many values lie in each bin."""

    name: str
    look: Series
    counts: Sequence[int]


def share_chart(texts: Texts, curves: Sequence[Curve]) -> Chart:
    """Shares from 0 to 1 against something that starts at 0."""
    with paper_style():
        figure, (axes,) = new_figure()
        for number, curve in enumerate(curves):
            axes.plot(curve.x, curve.y, **curve.look.keywords, markevery=list(curve.marks), gid=f"curve-{number}")
            if curve.band is not None:
                axes.fill_between(curve.x, *curve.band, color=curve.look.colour, alpha=0.16, linewidth=0)
        axes.set(xlim=(0, max(curve.x[-1] for curve in curves)), ylim=(0, 1.02))
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        _label(axes, texts)
        if len(curves) > 1:
            _add_legend(figure, [(curve.name, curve.look) for curve in curves])
    return Chart(texts, figure, {f"curve-{i}": list(curve.marks.values()) for i, curve in enumerate(curves)})


def cost_chart(texts: Texts, curves: Sequence[Sequence[Point]], arrows: Sequence[Arrow]) -> Chart:
    """Points against cost, on a logarithmic axis; the points of one curve are joined by a line."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    points = [point for curve in curves for point in curve]
    with paper_style():
        figure, (axes,) = new_figure()
        axes.set_xscale("log")
        axes.margins(0.12, 0.16)
        for i, curve in enumerate(curves):
            if len(curve) > 1:
                joined = sorted(curve, key=lambda point: point.x)
                keywords = curve[0].look.keywords | {"marker": "", "zorder": 1.9}  # below the marks of other curves
                axes.plot([p.x for p in joined], [p.y for p in joined], **keywords, gid=f"curve-{i}")
        for i, point in enumerate(points):
            axes.plot([point.x], [point.y], **point.look.keywords | {"linestyle": "none"}, gid=f"point-{i}")
        axes.autoscale_view()
        axes.set_ylim(max(0.0, axes.get_ylim()[0]))
        _draw_arrows(axes, arrows)
        low, high = axes.get_xlim()
        # Powers of ten; where they are few, their multiples by 2 and 5, too.
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if high / low > 1e3 else (1, 2, 5), numticks=20))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: tick_label(cost)))
        axes.xaxis.set_minor_locator(NullLocator())
        _label(axes, texts)
        _add_legend(figure, [(point.name, point.look) for point in points if point.name is not None])
    return Chart(texts, figure, {f"point-{i}": [point.title] for i, point in enumerate(points)})


def histogram_chart(texts: Texts, bins: Bins, histograms: Sequence[Counts]) -> Chart:
    """Counts as steps over the same bins, with a mark on every step; a single histogram is filled."""
    from matplotlib.ticker import MaxNLocator

    marks = {}
    with paper_style():
        figure, (axes,) = new_figure()
        for number, histogram in enumerate(histograms):
            keywords = histogram.look.keywords
            colour, part = keywords["color"], f"counts-{number}"
            axes.stairs(histogram.counts, color=colour, linestyle=keywords["linestyle"], linewidth=1.4)
            if len(histograms) == 1:
                axes.stairs(histogram.counts, color=colour, fill=True, alpha=0.16, linewidth=0)
            filled = [i for i, count in enumerate(histogram.counts) if count]
            axes.plot(
                [i + 0.5 for i in filled], [histogram.counts[i] for i in filled], **keywords | {"linestyle": "none"}, gid=part
            )  # fmt: skip
            start = f"{histogram.name}: " if len(histograms) > 1 else ""
            marks[part] = [f"{start}{bins.names[i]}: {histogram.counts[i]} {texts.y_label}" for i in filled]
        places, labels = zip(*bins.ticks, strict=True)
        axes.set_xticks(places, labels)
        axes.set_ylim(0, 1.08 * max(1, *(count for histogram in histograms for count in histogram.counts)))
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        _label(axes, texts)
        if len(histograms) > 1:
            _add_legend(figure, [(histogram.name, histogram.look) for histogram in histograms])
    return Chart(texts, figure, marks)


def shortened(name: str) -> str:
    """A name that fits a legend, in one line: its beginning and its end.

    >>> shortened("a" * 40 + "-auto-500")
    'aaaaaaaaaaaaaaaaaaaaaa…aaaaaaaaaaaa-auto-500'
    """
    line = "".join(letter if letter.isprintable() else " " for letter in name)
    half = MOST_LETTERS // 2
    return line if len(line) <= MOST_LETTERS else f"{line[:half]}…{line[1 - half :]}"


def _label(axes: "Axes", texts: Texts) -> None:
    axes.set(xlabel=texts.x_label, ylabel=texts.y_label)


def _draw_arrows(axes: "Axes", arrows: Sequence[Arrow]) -> None:
    """Of arrows that would cover each other, the first."""
    low, high = axes.get_ylim()
    drawn: list[float] = []
    for arrow in arrows:
        if any(abs(arrow.y - other) <= 0.1 * (high - low) for other in drawn):
            continue
        drawn.append(arrow.y)
        axes.annotate("", (arrow.end, arrow.y), (arrow.start, arrow.y), arrowprops=_ARROW)
        middle = math.sqrt(arrow.start * arrow.end)
        axes.annotate(arrow.text, (middle, arrow.y), (0, 3), textcoords="offset points", ha="center", weight="bold")


def _add_legend(figure: "Figure", entries: Sequence[tuple[str, Series]]) -> None:
    from matplotlib.lines import Line2D

    add_legend(figure, [(shortened(name), Line2D([], [], **look.keywords)) for name, look in entries])


def add_legend(figure: "Figure", entries: "Sequence[tuple[str, Artist]]") -> None:
    """Below the axes, where it covers nothing; the figure grows by its lines."""
    labels = [label for label, _ in entries]
    width, height = figure.get_size_inches()
    # At 7.5 points a letter is about 4.4 points wide, and the line before it 38.
    columns = max(1, min(len(labels), int(72 * width / (38 + 4.4 * max(map(len, labels))))))
    figure.set_figheight(height - 0.1 + 0.16 * math.ceil(len(labels) / columns))
    handles = [handle for _, handle in entries]
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=columns, borderaxespad=0.2)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a name is shown as it is, also one with dollar signs
