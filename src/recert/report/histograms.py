"""Histograms of results: bounds, flips, passes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recert.figures.chart import Chart, add_legend, tick_label
from recert.figures.style import RECERT, Series, new_figure, paper_style
from recert.report.bins import Bins, cost_bins, count_bins, share_bins
from recert.report.results import Result


def _bounds(result: Result) -> NDArray[np.float64]:
    """Of inputs that votes were spent on."""
    return result.certificates.top_lower[result.certificates.top_lower > 0]


def _flips(result: Result) -> NDArray[np.int64]:
    """Of inputs with replayed votes."""
    c = result.certificates
    return (c.lost + c.gained)[c.replayed > 0]


def _passes(result: Result) -> NDArray[np.int64]:
    """Where they differ at all."""
    passes = result.certificates.forward_passes
    return passes if np.ptp(passes) else passes[:0]


class _Column(NamedTuple):
    """What a histogram counts: values of a result, in bins for the values of all results."""

    name: str
    title: str
    label: str
    values: Callable[[Result], NDArray[Any]]
    bins: Callable[[NDArray[Any]], Bins]


_COLUMNS = (
    _Column("vote-bounds", "How sure the votes are", "lower bound on the share of votes (p_A)", _bounds, share_bins),
    _Column("flips", "Votes that flipped", "flips per input", _flips, count_bins),
    _Column("forward-passes", "Where the budget went", "forward passes per input", _passes, cost_bins),
)


def histogram_figures(results: Sequence[Result], styles: Sequence[Series]) -> list[Chart]:
    """Bounds, flips and forward passes of these results, as far as they have them, each with all results over the same bins."""
    charts = []
    for column in _COLUMNS:
        found = [(r.name, look, column.values(r)) for r, look in zip(results, styles, strict=True)]
        found = [(name, look, values) for name, look, values in found if len(values)]
        charts += [_histogram(column, found)] if found else []
    return charts


def _histogram(column: _Column, found: Sequence[tuple[str, Series, NDArray[Any]]]) -> Chart:
    """Steps over the same bins, with a mark on every step that has inputs; a single histogram is filled."""
    from matplotlib.ticker import MaxNLocator

    bins = column.bins(np.concatenate([values for _, _, values in found]))
    marks, description, legend, alone = {}, [], [], len(found) == 1
    with paper_style():
        figure, (axes,) = new_figure()
        for number, (name, look, values) in enumerate(found):
            counts = np.histogram(values, bins.edges)[0]
            full, keywords, start = np.flatnonzero(counts), look.keywords, "" if alone else f"{name}: "
            axes.stairs(counts, color=look.colour, linestyle=keywords["linestyle"], linewidth=1.4)
            if alone:
                axes.stairs(counts, color=look.colour, fill=True, alpha=0.16, linewidth=0)
            axes.plot(full + 0.5, counts[full], **keywords | {"linestyle": "none", "gid": f"counts-{number}"})
            marks[f"counts-{number}"] = [f"{start}{bins.names[i]}: {counts[i]:,} inputs" for i in full]
            most = f"the fullest, {bins.names[counts.argmax()]}, has {counts.max():,}"
            description.append(f"{start}{len(values):,} inputs in {len(counts)} bars; {most}")
            legend.append((name, axes.plot([], [], **keywords)[0]))
        places, labels = zip(*bins.ticks, strict=True)
        axes.set_xticks(places, labels)
        axes.set(xlabel=column.label, ylabel="inputs", ylim=(0, 1.08 * axes.dataLim.y1))
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.yaxis.set_major_formatter(tick_label)
        add_legend(figure, legend)
    return Chart(column.name, column.title, ". ".join(description) + ".", figure, marks)


def flip_figures(results: Sequence[Result], names: Sequence[str]) -> list[Chart]:
    """Flips per input, one chart for each changed model, all over the same bins and up to the same height; `names` are the charts'."""
    from matplotlib.ticker import MaxNLocator

    counted = [_flips(result) for result in results]
    bins = count_bins(np.concatenate([*counted, np.zeros(0, dtype=np.int64)]))
    heights = [np.histogram(values, bins.edges)[0] for values in counted]
    top = 1.08 * max([1, *(int(height.max()) for height in heights)])
    charts = []
    for result, name, counts in zip(results, names, heights, strict=True):
        with paper_style():
            figure, (axes,) = new_figure(height=1.9)
            bars = axes.bar(np.arange(len(counts)) + 0.5, counts, width=0.86, color=RECERT.colour)
            full = np.flatnonzero(counts)
            for i in full:
                bars[i].set_gid(f"bar-{i}")
            places, labels = zip(*bins.ticks, strict=True)
            axes.set_xticks(places, labels)
            axes.set(xlabel="flips per input", ylabel="inputs", ylim=(0, top))
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.yaxis.set_major_formatter(tick_label)
        said = {f"bar-{i}": [f"{bins.names[i]} flips: {counts[i]:,} inputs"] for i in full}
        text = "; ".join(each for (each,) in said.values()) or "nothing was replayed"
        charts.append(Chart(name, result.name, f"{result.name}: {text}.", figure, said))
    return charts
