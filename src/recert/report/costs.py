"""Charts of cost: passes as bars, and the average certified radius against passes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recert.figures.chart import Chart, add_legend, shortened, tick_label
from recert.figures.style import BASELINE, RECERT, new_figure, paper_style
from recert.report.difference import original_of
from recert.report.gains import Gain, context, gains
from recert.report.looks import drawn_curves, looks
from recert.report.results import Result
from recert.report.summary import average_radius

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

_ARROW = {"arrowstyle": "-|>", "shrinkA": 4, "shrinkB": 0, "linewidth": 0.9, "mutation_scale": 7, "color": "black"}
_BAR = 0.3


def passes_figure(results: Sequence[Result]) -> Chart | None:
    """Forward passes of each changed model as bars, and below each what it would have taken otherwise; None without changed models."""
    changed = [(r, gain) for r, gain in zip(results, gains(results), strict=True) if r.is_changed]
    if not changed:
        return None
    said: list[str] = []
    legend: dict[str, Any] = {}
    with paper_style():
        figure, (axes,) = new_figure(height=0.7 + 0.55 * len(changed))
        for row, (result, gain) in enumerate(changed):
            passes = result.certificates.mean_forward_passes
            others, text, name = _instead(result, gain, results)
            title = axes.annotate(
                shortened(result.name), (0, row - _BAR), (2, 1), textcoords="offset points", va="bottom"
            )
            title.set_parse_math(False)
            bar = axes.barh(row - _BAR / 2, passes, _BAR, color=RECERT.colour)
            legend.setdefault("re-certification", bar)
            _at_end(axes, passes, row - _BAR / 2, f"{passes:,.0f}", bold=True)
            said.append(f"{result.name}: {passes:,.0f} passes per input")
            if others is not None:
                bar = axes.barh(row + _BAR / 2, others, _BAR, color=BASELINE.colour)
                legend.setdefault(name, bar)
                _at_end(axes, others, row + _BAR / 2, text)
                said[-1] += f", {name} {text}"
        axes.set_yticks([])
        # Names above the bars and not beside them: a long one would leave no room for the bars.
        axes.set_ylim(len(changed) - 0.6, -0.8)
        axes.margins(x=0.26)  # for the numbers at the ends of the bars
        axes.set_xlim(left=0)
        axes.set_xlabel("forward passes per input")
        axes.xaxis.set_major_locator(_few_ticks())
        axes.xaxis.set_major_formatter(tick_label)
        add_legend(figure, list(legend.items()))
    return Chart("passes", "Forward passes", "; ".join(said), figure, {})


def _instead(result: Result, gain: Gain | None, results: Sequence[Result]) -> tuple[float | None, str, str]:
    """What the same radius takes to certify anew; where that was not measured, what the original took."""
    if gain is not None:
        text = f"{'> ' * gain.at_least}{gain.needed:,.0f} ({gain})"
        return gain.needed, text, "certifying anew, for the same average radius"
    original = original_of(result, results)
    passes = None if original is None else original.certificates.mean_forward_passes
    return passes, "" if passes is None else f"{passes:,.0f}", "the original"


def _at_end(axes: "Axes", x: float, y: float, text: str, *, bold: bool = False) -> None:
    weight = "bold" if bold else "normal"
    axes.annotate(text, (x, y), (3, 0), textcoords="offset points", va="center", fontsize=7.5, weight=weight)


def _few_ticks() -> "MaxNLocator":
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)


def cost_figure(results: Sequence[Result]) -> Chart | None:
    """Average certified radius against forward passes, with the speed-up where it is known; None where all cost the same."""
    if len({result.certificates.mean_forward_passes for result in results}) < 2:
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
            legend.append(("certified anew", mark))  # all that have no curve of their own look like the last
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
