"""Metric against cost, as a figure or as text: certified values are claims, predicted ones are the race's guesses."""

import os
from pathlib import Path
from typing import Any

from recert.choosing.result import Chosen, Entry, Status

WIDTH = 40


def draw(chosen: Chosen, path: str | os.PathLike[str]) -> None:
    """Write a figure (.png, .svg or .pdf) of the metric against the cost of every candidate."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("drawing needs matplotlib: pip install 'recert[plot]'; text_picture needs nothing") from None
    figure, axes = plt.subplots(figsize=(7, 4.2))
    axes.axhline(chosen.base, color="0.3", linewidth=1, label="original, certified")
    axes.axhline(chosen.target, color="0.3", linewidth=1, linestyle="--", label="target")
    for entry in chosen.entries:
        _point(axes, entry)
    _edge(axes, chosen)
    axes.set(xlabel=f"cost ({chosen.cost_unit})", ylabel=chosen.metric)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(*_one_of_each(axes), frameon=False, fontsize=8)
    figure.tight_layout()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def _point(axes: Any, entry: Entry) -> None:
    if entry.certified is None:
        spread = [[entry.predicted - entry.predicted_low], [entry.predicted_high - entry.predicted]]
        axes.errorbar(
            entry.cost,
            entry.predicted,
            yerr=spread,
            fmt="o",
            color="0.55",
            mfc="white",
            ms=5,
            lw=1,
            label="predicted (no claim)",
        )
    else:
        won = entry.status is Status.WINNER
        colour, label = ("tab:green", "winner, certified") if won else ("tab:red", "certified, below the target")
        axes.plot(entry.cost, entry.certified, marker="D" if won else "s", ls="", color=colour, ms=7, label=label)
    at = entry.predicted if entry.certified is None else entry.certified
    axes.annotate(entry.name, (entry.cost, at), xytext=(5, 4), textcoords="offset points", fontsize=7)


def _edge(axes: Any, chosen: Chosen) -> None:
    """The candidates that no cheaper one is better than, joined by a line."""
    best = pareto(chosen)
    axes.step(
        [e.cost for e in best],
        [_value(e) for e in best],
        where="post",
        color="0.8",
        lw=1,
        zorder=0,
        label="Pareto edge",
    )


def _one_of_each(axes: Any) -> tuple[list[Any], list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    first = dict(reversed(list(zip(labels, handles, strict=True))))
    return list(first.values()), list(first)


def pareto(chosen: Chosen) -> list[Entry]:
    """Entries that are better than every cheaper one, in order of cost; by certified values where there are any."""
    best: list[Entry] = []
    for entry in chosen.entries:
        if not best or _value(entry) > _value(best[-1]):
            best = [*(e for e in best if e.cost < entry.cost), entry]
    return best


def text_picture(chosen: Chosen) -> str:
    """One line per candidate, in order of cost: certified (#) or predicted (o) metric on a scale with the target (|)."""
    values = [chosen.base, chosen.target, *(_value(entry) for entry in chosen.entries)]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    edge = {entry.name for entry in pareto(chosen)}
    width = max(len(entry.name) for entry in chosen.entries)
    lines = [
        f"{chosen.metric} from {low:.3f} to {high:.3f}; | target, # certified, o predicted (no claim), * on the Pareto edge"
    ]
    for entry in chosen.entries:
        cells = ["."] * WIDTH
        cells[round((chosen.target - low) / span * (WIDTH - 1))] = "|"
        cells[round((_value(entry) - low) / span * (WIDTH - 1))] = "o" if entry.certified is None else "#"
        mark = "*" if entry.name in edge else " "
        lines.append(f"{entry.name:{width}} {entry.cost:12,.6g} {mark} {''.join(cells)} {_value(entry):.3f}")
    return "\n".join(lines)


def _value(entry: Entry) -> float:
    return entry.predicted if entry.certified is None else entry.certified
