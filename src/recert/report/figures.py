"""The charts of results: on the page and, for papers, in files."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.figures.bins import Bins, cost_bins, count_bins, share_bins
from recert.figures.charts import Arrow, Chart, Counts, Curve, Point, Texts, cost_chart, histogram_chart, share_chart
from recert.figures.style import BASELINE, Series, paper_style, save, series
from recert.report.gains import context, gains
from recert.report.results import Result
from recert.report.summary import Share, average_radius, right_or_certified, shares_at

GRID = 160
MOST_BASELINE_CURVES = 2


def write_figures(results: Sequence[Result], directory: str | os.PathLike[str]) -> list[Path]:
    """Every chart that the results allow, as PDF, SVG and PNG."""
    shown, styles = drawn_curves(results), looks(results)
    charts = [accuracy_figure(results), cost_figure(results)]
    charts += histogram_figures([results[i] for i in shown], [styles[i] for i in shown])
    with paper_style():
        return [path for chart in charts if chart for path in save(chart.figure, directory, chart.texts.name)]


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
    styles, curves, said = looks(results), [], []
    for place, i in enumerate(drawn_curves(results)):
        shares = accuracy_curve(results[i], results)
        titles = [f"{results[i].name}: {share.value:.1%} at radius {share.radius:.2f}" for share in shares]
        said.append(titles[0])
        # Staggered, so that marks of equal curves do not hide each other.
        marked = {j: titles[j] for j in range(4 + place * 5 % 24, GRID, 24) if shares[j].count}
        band = None if place else ([share.lower for share in shares], [share.upper for share in shares])
        radii, values = [share.radius for share in shares], [share.value for share in shares]
        curves.append(Curve(results[i].name, styles[i], radii, values, marked, band))
    word = "certified inputs" if results[0].labels is None else "certified accuracy"
    title = f"{word.capitalize()} against radius"
    return share_chart(Texts("certified-accuracy", title, "; ".join(said), "ℓ₂ radius", word), curves)


def cost_figure(results: Sequence[Result]) -> Chart | None:
    """Average certified radius against forward passes, with the speed-up where it is known; None for a single result."""
    if len(results) < 2:
        return None
    curves: dict[object, list[Point]] = {}
    said, shown = [], drawn_curves(results)
    left_out = [i for i in range(len(results)) if i not in shown]  # one entry of the legend stands for all of these
    for i, (result, look) in enumerate(zip(results, looks(results), strict=True)):
        cost, radius = max(1.0, result.certificates.mean_forward_passes), average_radius(result)
        name = f"{result.name} (own passes only)" if result.is_proxied else result.name
        if left_out[:1] == [i]:
            name = "from scratch"
        title = f"{result.name}: {radius:.4f} for {cost:,.0f} passes per input"
        said.append(f"{result.name}: {radius:.3f} for {cost:,.0f} passes")
        curves.setdefault(curve_of(result), []).append(
            Point(None if i in left_out[1:] else name, look, cost, radius, title)
        )
    arrows = [Arrow(g.passes, g.needed, g.radius, str(g)) for g in gains(results) if g is not None and g.factor > 1]
    word = "average radius" if results[0].labels is None else "average certified radius"
    title = f"{word.capitalize()} against cost"
    texts = Texts("acr-against-cost", title, "; ".join(said), "forward passes per input", word)
    return cost_chart(texts, list(curves.values()), arrows)


def curve_of(result: Result) -> tuple[object, ...]:
    """What results at several budgets have in common if they are points of one curve: model, noise, certificate, method."""
    return (*context(result), result.certificates.settings.method, result.is_proxied)


@dataclass(frozen=True)
class _Column:
    """What a histogram counts: values of a result, and the bins for the values of all results together."""

    name: str
    title: str
    label: str
    values: Callable[[Result], NDArray[Any]]
    bins: Callable[[NDArray[Any]], Bins]


def _bounds(result: Result) -> NDArray[np.float64]:
    """Lower bounds on the vote of the class, of inputs that votes were spent on."""
    return result.certificates.top_lower[result.certificates.top_lower > 0]


def _flips(result: Result) -> NDArray[np.int64]:
    """Replayed votes that the modified model cast otherwise, of inputs with replayed votes."""
    c = result.certificates
    return (c.lost + c.gained)[c.replayed > 0]


def _passes(result: Result) -> NDArray[np.int64]:
    """Forward passes, where they differ at all."""
    passes = result.certificates.forward_passes
    return passes if np.ptp(passes) else passes[:0]


_COLUMNS = (
    _Column("vote-bounds", "How sure the votes are", "lower bound on the share of votes (p_A)", _bounds, share_bins),
    _Column("flips", "Votes that flipped", "flips per input", _flips, count_bins),
    _Column("forward-passes", "Where the budget went", "forward passes per input", _passes, cost_bins),
)


def histogram_figures(results: Sequence[Result], styles: Sequence[Series]) -> list[Chart]:
    """Bounds, flips and forward passes of these results, as far as they have them, over the same bins."""
    charts = (_histogram_figure(column, results, styles) for column in _COLUMNS)
    return [chart for chart in charts if chart is not None]


def _histogram_figure(column: _Column, results: Sequence[Result], styles: Sequence[Series]) -> Chart | None:
    found = [(result.name, look, column.values(result)) for result, look in zip(results, styles, strict=True)]
    found = [(name, look, values) for name, look, values in found if len(values)]
    if not found:
        return None
    bins = column.bins(np.concatenate([values for _, _, values in found]))
    counted = [Counts(name, look, np.histogram(values, bins.edges)[0].tolist()) for name, look, values in found]
    said = "; ".join(_fullest(each, bins, alone=len(counted) == 1) for each in counted)
    return histogram_chart(Texts(column.name, column.title, said, column.label, "inputs"), bins, counted)


def _fullest(histogram: Counts, bins: Bins, *, alone: bool) -> str:
    most = int(np.argmax(histogram.counts))
    start = "" if alone else f"{histogram.name}: "
    return (
        f"{start}{sum(histogram.counts)} inputs in {len(bins.names)} bars; the fullest, {bins.names[most]}, "
        f"has {histogram.counts[most]}"
    )
