"""The charts of results. Each is drawn here only: the page shows them, and `--figures` writes the same as files for papers."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recert.figures.chart import Chart, add_legend, tick_label
from recert.figures.style import BASELINE, Series, new_figure, paper_style, save, series
from recert.report.bins import Bins, cost_bins, count_bins, share_bins
from recert.report.gains import Gain, context, gains
from recert.report.results import Result
from recert.report.summary import Share, average_radius, right_or_certified, shares_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = 160  # radii of a curve: in a figure of one column they are about as close as a line is wide
MOST_BASELINE_CURVES = 2  # more would cover the curves that they are compared with
_ARROW = {"arrowstyle": "-|>", "shrinkA": 4, "shrinkB": 0, "linewidth": 0.9, "mutation_scale": 7, "color": "black"}


def write_figures(results: Sequence[Result], directory: str | os.PathLike[str]) -> list[Path]:
    """Every chart that the results allow, as PDF, SVG and PNG."""
    shown, styles = drawn_curves(results), looks(results)
    charts = [accuracy_figure(results), cost_figure(results)]
    charts += histogram_figures([results[i] for i in shown], [styles[i] for i in shown])
    with paper_style():
        return [path for chart in charts if chart for path in save(chart.figure, directory, chart.name)]


def looks(results: Sequence[Result]) -> list[Series]:
    """One look for each result, in every chart the same. Baselines are grey, and differ only where each has a curve."""
    curves = set(drawn_curves(results))
    numbers = {False: 0, True: 0}
    given = []
    for i, result in enumerate(results):
        baseline = result.is_baseline and not all(r.is_baseline for r in results)
        look = series(numbers[baseline])
        given.append(look._replace(colour=BASELINE.colour, marker=BASELINE.marker) if baseline else look)
        numbers[baseline] += i in curves
    return given


def drawn_curves(results: Sequence[Result]) -> list[int]:
    """Results with a curve of their own: baselines only where they are few."""
    baselines = sum(result.is_baseline for result in results)
    everything = baselines <= MOST_BASELINE_CURVES or baselines == len(results)
    return [i for i, result in enumerate(results) if everything or not result.is_baseline]


def accuracy_curve(result: Result, results: Sequence[Result]) -> tuple[Share, ...]:
    """Certified accuracy of one of the results, at radii up to a little beyond the largest of all."""
    farthest = 1.03 * max(1e-3, *(float(r.certificates.radius.max()) for r in results))
    return shares_at(right_or_certified(result), result.certificates.radius, np.linspace(0, farthest, GRID).tolist())


def accuracy_figure(results: Sequence[Result]) -> Chart:
    """Certified accuracy against radius; the first result with its 95% intervals."""
    styles, marks, description, legend = looks(results), {}, [], []
    with paper_style():
        figure, (axes,) = new_figure()
        for place, i in enumerate(drawn_curves(results)):
            shares = accuracy_curve(results[i], results)
            radii = [share.radius for share in shares]
            texts = [f"{results[i].name}: {share.value:.1%} at radius {share.radius:.2f}" for share in shares]
            # Staggered, so that marks of equal curves do not hide each other.
            marked = [j for j in range(4 + place * 5 % 24, GRID, 24) if shares[j].count]
            keywords = styles[i].keywords | {"markevery": marked, "gid": f"curve-{place}"}
            (line,) = axes.plot(radii, [share.value for share in shares], **keywords)
            legend.append((results[i].name, line))
            marks[f"curve-{place}"] = [texts[j] for j in marked]
            description.append(texts[0])
            # Of the first only: intervals of several curves would cover each other.
            if not place:
                band = [s.lower for s in shares], [s.upper for s in shares]
                axes.fill_between(radii, *band, color=styles[i].colour, alpha=0.16, linewidth=0)
        word = "certified inputs" if results[0].labels is None else "certified accuracy"
        axes.set(xlabel="ℓ₂ radius", ylabel=word, xlim=(0, radii[-1]), ylim=(0, 1.02))
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        add_legend(figure, legend)
    title = f"{word.capitalize()} against radius"
    return Chart("certified-accuracy", title, "; ".join(description), figure, marks)


def cost_figure(results: Sequence[Result]) -> Chart | None:
    """Average certified radius against forward passes, with the speed-up where it is known; None for a single result."""
    if len(results) < 2:
        return None
    from matplotlib.ticker import LogLocator, NullLocator

    costs = [max(1.0, result.certificates.mean_forward_passes) for result in results]
    radii, styles, marks, legend = [average_radius(r) for r in results], looks(results), {}, []
    shown = drawn_curves(results)
    with paper_style():
        figure, (axes,) = new_figure()
        axes.set_xscale("log")
        axes.margins(0.12, 0.16)
        for i, result in enumerate(results):
            (mark,) = axes.plot(costs[i], radii[i], **styles[i].keywords, gid=f"point-{i}")
            marks[f"point-{i}"] = [f"{result.name}: {radii[i]:.4f} for {costs[i]:,.0f} passes per input"]
            if i in shown:
                legend.append((f"{result.name} (own passes only)" if result.is_proxied else result.name, mark))
        if len(shown) < len(results):
            legend.append(("from scratch", mark))  # all that have no curve of their own look like the last
        for number, members in enumerate(curves(results)):
            joined = sorted(members, key=lambda i: costs[i])
            keywords = styles[members[0]].keywords | {"marker": "", "zorder": 1.9}  # below all marks
            axes.plot([costs[i] for i in joined], [radii[i] for i in joined], **keywords, gid=f"curve-{number}")
        # Limits are fixed before the arrows are drawn: arrows that would overlap are found by their distance in the axes.
        axes.autoscale_view()
        axes.set_ylim(max(0.0, axes.get_ylim()[0]))
        _draw_gains(axes, gains(results))
        low, high = axes.get_xlim()
        # Powers of ten; where they are few, their multiples by 2 and 5, too.
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if high / low > 1e3 else (1, 2, 5), numticks=20))
        axes.xaxis.set_major_formatter(tick_label)
        axes.xaxis.set_minor_locator(NullLocator())
        word = "average radius" if results[0].labels is None else "average certified radius"
        axes.set(xlabel="forward passes per input", ylabel=word)
        add_legend(figure, legend)
    texts = [f"{r.name}: {radius:.3f} for {cost:,.0f} passes" for r, radius, cost in zip(results, radii, costs, strict=True)]  # fmt: skip
    return Chart("acr-against-cost", f"{word.capitalize()} against cost", "; ".join(texts), figure, marks)


def curves(results: Sequence[Result]) -> list[list[int]]:
    """Results that are points of one curve: of one model, noise, kind of certificate, alpha and method, at several budgets."""
    groups: dict[object, list[int]] = {}
    for i, result in enumerate(results):
        # Of a certification by proxy, most passes are of another network: its cost is not on the same scale.
        groups.setdefault((context(result), result.certificates.settings.method, result.is_proxied), []).append(i)
    return [members for members in groups.values() if len(members) > 1]


def _draw_gains(axes: "Axes", saved: Sequence[Gain | None]) -> None:
    """An arrow from each result to the baseline at the same radius; of arrows that would cover each other, the first."""
    low, high = axes.get_ylim()
    drawn: list[float] = []
    for gain in saved:
        if gain is None or gain.factor <= 1 or any(abs(gain.radius - other) <= 0.1 * (high - low) for other in drawn):
            continue
        drawn.append(gain.radius)
        axes.annotate("", (gain.needed, gain.radius), (gain.passes, gain.radius), arrowprops=_ARROW)
        middle = (float(np.sqrt(gain.needed * gain.passes)), gain.radius)
        axes.annotate(str(gain), middle, (0, 3), textcoords="offset points", ha="center", weight="bold")


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
    """Bounds, flips and forward passes of these results, as far as they have them."""
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
            marks[f"counts-{number}"] = [f"{start}{bins.names[i]}: {counts[i]} inputs" for i in full]
            most = f"the fullest, {bins.names[counts.argmax()]}, has {counts.max()}"
            description.append(f"{start}{len(values)} inputs in {len(counts)} bars; {most}")
            legend.append((name, axes.plot([], [], **keywords)[0]))
        places, labels = zip(*bins.ticks, strict=True)
        axes.set_xticks(places, labels)
        axes.set(xlabel=column.label, ylabel="inputs", ylim=(0, 1.08 * axes.dataLim.y1))
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        add_legend(figure, legend)
    return Chart(column.name, column.title, ". ".join(description) + ".", figure, marks)
