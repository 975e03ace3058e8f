"""What `select` found: the metric of every candidate against its cost."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recert.choosing.result import Chosen, Entry, Status
from recert.figures.bins import tick_label
from recert.figures.charts import add_legend, shortened
from recert.figures.style import BASELINE, SERIES, new_figure, paper_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

_NAME_PLACES = tuple((x, y, side) for y in (4, -10, 13, -19, 22, -28) for x, side in ((5, "left"), (-5, "right")))
_WINNER, _BELOW = SERIES[2]._replace(marker="D"), SERIES[1]


def draw_choice(chosen: Chosen, path: str | os.PathLike[str]) -> None:
    """Write the figure as .png, .svg or .pdf."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with paper_style():
        choice_figure(chosen).savefig(path)


def choice_figure(chosen: Chosen) -> "Figure":
    """Certified values are claims; predicted ones, hollow and with their spread, are the guesses of the race."""
    with paper_style():
        figure, (axes,) = new_figure(width=4.8, height=3.0)
        axes.axhline(chosen.base, color="0.3", linewidth=1, linestyle="-", label="original, certified")
        axes.axhline(chosen.target, color="0.3", linewidth=1, linestyle="--", label="target")
        best = chosen.pareto
        axes.step(
            [e.cost for e in best], [e.value for e in best], where="post", color="0.8", linewidth=1, linestyle="-", marker="",
            zorder=0, label="Pareto edge",
        )  # fmt: skip
        for entry in chosen.entries:
            _draw_entry(axes, entry)
        axes.set(xlabel=f"cost ({chosen.cost_unit})", ylabel=chosen.metric)
        axes.margins(0.1, 0.12)
        axes.xaxis.set_major_formatter(lambda cost, _: tick_label(cost))
        handles, labels = axes.get_legend_handles_labels()
        add_legend(figure, list(dict(zip(labels, handles, strict=True)).items()))  # each label once
        _add_names(axes, chosen)
    return figure


def _add_names(axes: "Axes", chosen: Chosen) -> None:
    """Beside each point its name, in the place where it covers fewest of the other names, lines and points."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # lays the figure out: places and sizes in pixels are known from here on
    names: dict[tuple[float, float], list[str]] = {}
    for entry in chosen.entries:
        names.setdefault((entry.cost, entry.value), []).append(shortened(entry.name))
    taken = _occupied(axes, chosen)
    for point, same in names.items():
        keywords: dict[str, Any] = {
            "textcoords": "offset points",
            "fontsize": 7,
            "parse_math": False,
            "in_layout": False,
        }
        placed = [axes.annotate(", ".join(same), point, (x, y), ha=side, **keywords) for x, y, side in _NAME_PLACES]
        best = min(placed, key=lambda text: _covered(text.get_window_extent(), axes, taken))
        for text in placed:
            if text is not best:
                text.remove()
        taken.append(best.get_window_extent())


def _occupied(axes: "Axes", chosen: Chosen) -> "list[Bbox]":
    """Points, spreads of predictions and the two horizontal lines, in pixels."""
    from matplotlib.transforms import Bbox

    left, right = axes.get_xlim()
    lines = [((left, value), (right, value)) for value in (chosen.base, chosen.target)]
    for e in chosen.entries:
        low, high = (e.predicted_low, e.predicted_high) if e.certified is None else (e.value, e.value)
        lines.append(((e.cost, low), (e.cost, high)))
    margin = 2 * axes.figure.dpi / 72
    return [Bbox(axes.transData.transform(ends)).padded(margin) for ends in lines]


def _covered(box: "Bbox", axes: "Axes", taken: "list[Bbox]") -> tuple[bool, int]:
    """How bad a place is: whether it sticks out of the axes, and how many things it covers."""
    left, bottom, right, top = axes.bbox.extents
    sticks_out = box.x0 < left or box.x1 > right or box.y0 < bottom or box.y1 > top
    return bool(sticks_out), box.count_overlaps(taken)


def _draw_entry(axes: "Axes", entry: Entry) -> None:
    if entry.certified is None:
        spread = [[entry.predicted - entry.predicted_low], [entry.predicted_high - entry.predicted]]
        axes.errorbar(
            entry.cost, entry.predicted, yerr=spread, linestyle="none", marker="o", color=BASELINE.colour,
            markerfacecolor="white", markeredgewidth=1, linewidth=1, label="predicted (no claim)",
        )  # fmt: skip
        return
    won = entry.status is Status.WINNER
    look, label = (_WINNER, "winner, certified") if won else (_BELOW, "certified, below the target")
    axes.plot(entry.cost, entry.certified, **look.keywords | {"linestyle": "none", "markersize": 5.5}, label=label)
