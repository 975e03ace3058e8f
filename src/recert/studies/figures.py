"""Figures of the studies, from their JSON files. Needs matplotlib when one is drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recert.figures import BASELINE, new_figure, paper_style, save, series
from recert.studies.results import Result
from recert.studies.tables import NETWORK_NAMES, Found

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = {
    "scratch one-sided": "Cohen", "scratch-cached one-sided": "given class", "irs one-sided": "irs", "series one-sided": "series",
    "paired one-sided": "paired", "auto one-sided": "auto", "auto two-sided": "auto, two-sided",
}  # fmt: skip
PANELS = 3


def names(study: str, results: Path) -> list[str]:
    """Figures that the results of a study give."""
    return list(_wanted(Found(study, results)))


def draw_figures(study: str, results: Path) -> list[Path]:
    """Draw them all into the folder `figures` of the results."""
    drawn = []
    with paper_style():
        for name, draw in _wanted(Found(study, results)).items():
            drawn.append(next(path for path in save(draw(), results / "figures", name) if path.suffix == ".png"))
    return drawn


def _wanted(found: Found) -> dict[str, Callable[[], Any]]:
    if found.study in ("speedup", "headline", "samples", "large-np"):
        return {f"{found.study}-{name}": lambda group=group: _costs(group) for name, group in _groups(found).items()}  # type: ignore[misc]
    if found.study == "distribution" and found.results:
        return {"distribution": lambda: _distribution(found)}
    if found.study == "binomial" and found.results:
        return {"binomial": lambda: _binomial(found.results[0])}
    return {}


def _groups(found: Found) -> dict[str, list[Result]]:
    """Results of one network, sigma and n stand in one figure, a few panels each."""
    groups: dict[str, list[Result]] = {}
    for result in found.results:
        s = result["settings"]
        groups.setdefault(f"{s['network']}-{s['sigma']}-n{s['samples']}", []).append(result)
    split = {}
    for name, group in groups.items():
        for start in range(0, len(group), PANELS):
            split[name + (f"-{start // PANELS + 1}" if len(group) > PANELS else "")] = group[start : start + PANELS]
    return split


def _costs(group: list[Result]) -> Any:
    figure, panels = new_figure(len(group), height=3.2)
    for axes, result in zip(panels, group, strict=True):
        s = result["settings"]
        for number, (name, label) in enumerate(CURVES.items()):
            curve = result["curves"][name]
            look = BASELINE if number == 0 else series(number - 1)
            axes.plot(curve["ACR"], curve["passes"], label=label, **look.keywords)
        axes.set(yscale="log", xlabel="average certified radius", ylabel="forward passes per image")
        axes.set_title(f"{NETWORK_NAMES.get(s['network'], s['network'])}, sigma {s['sigma']}, {s['approximation']}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(7, 3 * len(group)))
    return figure


def _distribution(found: Found) -> Any:
    by_sigma: dict[float, list[Result]] = {}
    for result in found.results:
        by_sigma.setdefault(result["settings"]["sigma"], []).append(result)
    figure, panels = new_figure(len(by_sigma))
    for axes, (sigma, results) in zip(panels, sorted(by_sigma.items()), strict=True):
        for number, result in enumerate(results):
            name = NETWORK_NAMES.get(result["settings"]["network"], result["settings"]["network"])
            axes.stairs(result["shares"], result["edges"], label=name, color=series(number).colour, linewidth=1.2)
        axes.set(xlabel="lower bound on p_A", ylabel="share of inputs")
        axes.set_title(f"sigma {sigma}")
        axes.legend()
    return figure


def _binomial(result: Result) -> Any:
    figure, panels = new_figure(len(result["samples"]))
    for axes, (interval, by_width) in zip(panels, result["samples"].items(), strict=True):
        _needed(axes, result["settings"]["probabilities"], by_width)
        axes.set_title(interval)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _needed(axes: "Axes", probabilities: list[float], by_width: dict[str, list[int]]) -> None:
    for number, (width, samples) in enumerate(by_width.items()):
        axes.plot(probabilities, samples, label=f"width {float(width):.2%}", **series(number).keywords)
    axes.set(xlabel="probability", ylabel="samples needed")
