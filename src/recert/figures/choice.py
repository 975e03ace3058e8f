"""What `select` found: the metric of every candidate against its cost."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from recert.choosing.result import Chosen, Entry, Status
from recert.figures.charts import as_written, shortened
from recert.figures.style import BASELINE, SERIES, new_figure, paper_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
        as_written(
            axes.annotate(shortened(e.name), (e.cost, e.value), (5, 4), textcoords="offset points", fontsize=7)
            for e in chosen.entries
        )
        axes.set(xlabel=f"cost ({chosen.cost_unit})", ylabel=chosen.metric)
        handles, labels = axes.get_legend_handles_labels()
        once = dict(zip(reversed(labels), reversed(handles), strict=True))
        figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=3)
    return figure


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
