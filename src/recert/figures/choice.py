"""What `select` found: the metric of every candidate against its cost."""

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recert.choosing.result import Chosen, Entry, Status
from recert.figures.chart import add_legend, shortened, tick_label
from recert.figures.style import BASELINE, SERIES, new_figure, paper_style
from recert.storage import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

_NAME_PLACES = sorted(
    ((x, y) for y in range(-70, 71, 5) for x in (5, -5, 18, -18, 36, -36, 60, -60)),
    key=lambda place: (np.hypot(*place), place),
)
"""Where a name may begin (or end, to the left) in points from its mark, and the nearest first."""
_BESIDE = 16
"""A name that stands farther away, in points, is joined to its mark by a line."""


def draw_choice(chosen: Chosen, path: str | os.PathLike[str]) -> None:
    """Write the figure as .png, .svg or .pdf."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with paper_style():
        drawn = io.BytesIO()
        choice_figure(chosen).savefig(drawn, format=Path(path).suffix.removeprefix(".") or None)
        write_whole(path, drawn.getvalue())


def choice_figure(chosen: Chosen) -> "Figure":
    """Certified values are claims; predicted ones, hollow and with their spread, are the guesses of the race."""
    line: dict[str, Any] = {"color": "0.3", "linewidth": 1, "marker": ""}
    with paper_style():
        figure, (axes,) = new_figure(width=4.8, height=3.0)
        axes.axhline(chosen.base, **line, linestyle="-", label="original, certified")
        axes.axhline(chosen.target, **line, linestyle="--", label="target")
        costs, values = zip(*((entry.cost, entry.value) for entry in chosen.pareto), strict=True)
        step = line | {"color": "0.8", "linestyle": "-", "zorder": 0}
        axes.step(costs, values, where="post", **step, label="Pareto edge")
        for entry in chosen.entries:
            _draw_entry(axes, entry)
        axes.set(xlabel=f"cost ({chosen.cost_unit})", ylabel=chosen.metric)
        axes.margins(0.1, 0.12)
        axes.xaxis.set_major_formatter(tick_label)
        handles, labels = axes.get_legend_handles_labels()
        add_legend(figure, list(dict(zip(labels, handles, strict=True)).items()))  # each label once
        _add_names(figure, axes, chosen)
    return figure


def _draw_entry(axes: "Axes", entry: Entry) -> None:
    if entry.certified is None:
        spread = [[entry.predicted - entry.predicted_low], [entry.predicted_high - entry.predicted]]
        hollow = {"marker": "o", "markerfacecolor": "white", "markeredgewidth": 1, "color": BASELINE.colour}
        look: dict[str, Any] = hollow | {"linestyle": "none", "linewidth": 1, "label": "predicted (no claim)"}
        axes.errorbar(entry.cost, entry.predicted, yerr=spread, **look)
    elif entry.status is Status.WINNER:
        axes.plot(entry.cost, entry.certified, "D", color=SERIES[2].colour, markersize=5.5, label="winner, certified")
    else:
        label = "certified, below the target"
        axes.plot(entry.cost, entry.certified, "s", color=SERIES[1].colour, markersize=5.5, label=label)


def _add_names(figure: "Figure", axes: "Axes", chosen: Chosen) -> None:
    """Beside each point its name, in the place where it covers fewest of the other names, lines and points."""
    figure.draw_without_rendering()  # lays the figure out: places and sizes in pixels are known from here on
    names: dict[tuple[float, float], list[str]] = {}
    for entry in chosen.entries:
        names.setdefault((entry.cost, entry.value), []).append(shortened(entry.name))
    taken = _drawn(axes, chosen)
    # A name with few points near it has more places to choose from: those with many are placed first.
    for point, same in sorted(names.items(), key=lambda item: -_neighbours(axes, item[0], names)):
        taken.append(_add_name(axes, point, ", ".join(same), taken))


def _add_name(axes: "Axes", point: tuple[float, float], name: str, taken: "list[Bbox]") -> "Bbox":
    """The name of a point in the best place that is left, and the box that it then covers."""
    options: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "parse_math": False, "in_layout": False}
    text = axes.annotate(name, point, (5, 0), va="center", **options)
    size = text.get_window_extent()
    text.remove()
    boxes = {place: _box(axes, point, place, size) for place in _NAME_PLACES}
    x, y = min(_NAME_PLACES, key=lambda place: _covered(boxes[place], axes, taken))  # of equal ones the nearest
    line = {
        "arrowstyle": "-",
        "color": "0.5",
        "linewidth": 0.5,
        "shrinkA": 1,
        "shrinkB": 2,
        "relpos": (float(x < 0), 0.5),
    }
    joined: dict[str, Any] = {"arrowprops": line} if np.hypot(x, y) > _BESIDE else {}
    axes.annotate(name, point, (x, y), ha="left" if x > 0 else "right", va="center", **options, **joined)
    return boxes[x, y]


def _box(axes: "Axes", point: tuple[float, float], place: tuple[int, int], size: "Bbox") -> "Bbox":
    """What a name of this size covers in a place, in pixels, with a little room around it."""
    from matplotlib.transforms import Bbox

    x, y = axes.transData.transform(point) + np.array(place) * axes.figure.dpi / 72
    left = x if place[0] > 0 else x - size.width
    return Bbox.from_bounds(left, y - size.height / 2, size.width, size.height).padded(axes.figure.dpi / 72)


def _neighbours(axes: "Axes", point: tuple[float, float], others: "Iterable[tuple[float, float]]") -> int:
    """How many points are near, in pixels of the figure."""
    here = axes.transData.transform(point)
    return sum(np.hypot(*(axes.transData.transform(other) - here)) < axes.figure.dpi / 2 for other in others)


def _covered(box: "Bbox", axes: "Axes", taken: "list[Bbox]") -> tuple[bool, int]:
    """How bad a place is: whether it sticks out of the axes, and how many things it covers."""
    inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
    return not inside, box.count_overlaps(taken)


def _drawn(axes: "Axes", chosen: Chosen) -> "list[Bbox]":
    """The two horizontal lines, points and spreads of predictions, in pixels."""
    from matplotlib.transforms import Bbox

    lines = [[(x, value) for x in axes.get_xlim()] for value in (chosen.base, chosen.target)]
    for entry in chosen.entries:
        ends = (entry.predicted_low, entry.predicted_high) if entry.certified is None else (entry.certified,) * 2
        lines.append([(entry.cost, end) for end in ends])
        lines.append(
            [(entry.cost, entry.value)] * 2
        )  # the mark, which names must not cover even where its spread is covered
    return [Bbox(axes.transData.transform(line)).padded(2 * axes.figure.dpi / 72) for line in lines]
