"""The charts of a page as figures for papers, in the project's style."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recert.figures import Series, new_figure, paper_style, save
from recert.report.bins import Bins, cost_bins, count_bins, share_bins
from recert.report.gains import context, gains
from recert.report.results import Result
from recert.report.scales import log_ticks, tick_label
from recert.report.summary import average_radius
from recert.report.views import AccuracyCurve, drawn_curves, farthest_radius, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_figures(results: Sequence[Result], directory: str | os.PathLike[str]) -> list[Path]:
    """Every figure that the results allow, as PDF, SVG and PNG."""
    files: list[Path] = []
    for name, draw in _FIGURES.items():
        with paper_style():
            figure, (axes,) = new_figure()
            if draw(axes, results):
                files += save(figure, directory, name)
    return files


def _styles(results: Sequence[Result]) -> list[Series]:
    return [look.series for look in looks(results)]


def _accuracy(axes: "Axes", results: Sequence[Result]) -> bool:
    """Certified accuracy against radius."""
    high, styles, chosen = farthest_radius(results), _styles(results), drawn_curves(results)
    for place, i in enumerate(chosen):
        shares = AccuracyCurve.of(results[i], high).shares
        radii = [share.radius for share in shares]
        axes.plot(
            radii, [share.value for share in shares], label=results[i].name, **styles[i].keywords, markevery=(4 + 5 * place % 24, 24)
        )  # fmt: skip
        if not place:
            axes.fill_between(
                radii, [s.lower for s in shares], [s.upper for s in shares], color=styles[i].colour, alpha=0.13, linewidth=0
            )  # fmt: skip
    word = "certified inputs" if results[0].labels is None else "certified accuracy"
    axes.set(xlabel=r"$\ell_2$ radius", ylabel=word, xlim=(0, high), ylim=(0, 1))
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    _legend(axes, len(chosen))
    return True


def _cost(axes: "Axes", results: Sequence[Result]) -> bool:
    """Average certified radius against forward passes, with the speed-up where it is known."""
    if len(results) < 2:
        return False
    costs = [max(1.0, result.certificates.mean_forward_passes) for result in results]
    radii, styles = [average_radius(result) for result in results], _styles(results)
    groups: dict[object, list[int]] = {}
    for i, result in enumerate(results):
        own = None if result.is_baseline else i  # only baselines of one model are one line
        groups.setdefault((context(result), result.certificates.settings.method, own), []).append(i)
    named_baseline = False
    for members in groups.values():
        members.sort(key=lambda i: costs[i])
        first = results[members[0]]
        label = first.name if not first.is_baseline else None if named_baseline else "from scratch"
        label = f"{label} (own passes only)" if first.is_proxied else label
        named_baseline |= first.is_baseline
        keywords = styles[members[0]].keywords | ({"linestyle": "-"} if first.is_baseline else {})
        axes.plot([costs[i] for i in members], [radii[i] for i in members], label=label, **keywords)
    _mark_gains(axes, results)
    word = "average radius" if results[0].labels is None else "average certified radius"
    axes.set(xscale="log", xlabel="forward passes per input", ylabel=word)
    axes.margins(0.12, 0.16)
    ticks = log_ticks(*axes.get_xlim())
    axes.set_xticks(ticks, [tick_label(tick) for tick in ticks])
    axes.minorticks_off()
    axes.legend(loc="lower right")
    return True


def _mark_gains(axes: "Axes", results: Sequence[Result]) -> None:
    """An arrow from each result to the baseline at the same radius; of arrows that would cover each other, the first."""
    radii = [average_radius(result) for result in results]
    apart = 0.08 * (max(radii) - min(radii))
    marked: list[float] = []
    for gain in gains(results):
        if gain is None or gain.factor <= 1 or any(abs(gain.radius - other) <= apart for other in marked):
            continue
        marked.append(gain.radius)
        arrow = {"arrowstyle": "->", "shrinkA": 4, "shrinkB": 1, "linewidth": 0.9}
        axes.annotate("", (gain.needed, gain.radius), (gain.passes, gain.radius), arrowprops=arrow)
        middle = float(np.sqrt(gain.needed * gain.passes))
        axes.annotate(
            str(gain), (middle, gain.radius), (0, 3), textcoords="offset points", ha="center", fontweight="bold"
        )


def _bounds(axes: "Axes", results: Sequence[Result]) -> bool:
    """Lower bounds on the vote of the class, as the share of inputs up to each."""
    return _distribution(
        axes, results, lambda r: r.certificates.top_lower[r.certificates.top_lower > 0], "lower bound on the vote of the class", share_bins
    )  # fmt: skip


def _flips(axes: "Axes", results: Sequence[Result]) -> bool:
    """Flipped votes per input."""
    return _distribution(
        axes, results, lambda r: (r.certificates.lost + r.certificates.gained)[r.certificates.replayed > 0], "flipped votes per input", count_bins
    )  # fmt: skip


def _passes(axes: "Axes", results: Sequence[Result]) -> bool:
    """Forward passes per input."""
    return _distribution(axes, results, lambda r: r.certificates.forward_passes, "forward passes per input", cost_bins)


def _distribution(
    axes: "Axes", results: Sequence[Result], column: Callable[[Result], np.ndarray], label: str, bins: Callable[..., Bins]
) -> bool:  # fmt: skip
    """Histograms of all results over the same bins, side by side as steps."""
    styles, shown = _styles(results), [i for i in drawn_curves(results) if len(column(results[i]))]
    everything = [column(results[i]) for i in shown]
    if not everything or np.ptp(np.concatenate(everything)) == 0:
        return False
    chosen = share_bins() if bins is share_bins else bins(np.concatenate(everything))
    for i, values in zip(shown, everything, strict=True):
        counts = np.histogram(values, chosen.edges)[0]
        places, keywords = np.arange(len(counts)) + 0.5, styles[i].keywords
        axes.stairs(counts, color=keywords["color"], linestyle=keywords["linestyle"], linewidth=1.4)
        axes.plot(places[counts > 0], counts[counts > 0], **keywords | {"linestyle": "none"})
        axes.plot([], [], label=results[i].name, **keywords)
    ticks = chosen.ticks(lambda place: place)
    axes.set_xticks([place for place, _ in ticks], [text for _, text in ticks])
    axes.set(xlabel=label, ylabel="inputs", ylim=(0, None))
    _legend(axes, len(shown))
    return True


def _legend(axes: "Axes", lines: int) -> None:
    if lines > 1:
        axes.legend()


_FIGURES = {
    "certified-accuracy": _accuracy,
    "acr-against-cost": _cost,
    "vote-bounds": _bounds,
    "flips": _flips,
    "forward-passes": _passes,
}
