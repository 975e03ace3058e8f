"""Figures of the studies, from their JSON files. Needs matplotlib when one is drawn."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recert.figures import BASELINE, RECERT, new_figure, paper_style, save, series
from studies.catalogue import APPROXIMATIONS
from studies.request import noise_words
from studies.results import Result
from studies.tables import SHORT_NAMES, Found

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ONE_SIDED = {
    "scratch one-sided": "Cohen", "scratch-cached one-sided": "given class", "irs one-sided": "irs", "series one-sided": "series",
    "paired one-sided": "paired", "auto one-sided": "recert",
}  # fmt: skip
TWO_SIDED = {"scratch two-sided": "Cohen", "scratch-cached two-sided": "given class", "auto two-sided": "recert"}
CURVES = ONE_SIDED | {"auto two-sided": "recert, two-sided"}
_THIN, _BOLD = {"linewidth": 0.9, "markersize": 2.4}, {"linewidth": 2.2}
LOOKS = {
    "Cohen": BASELINE.keywords, "given class": BASELINE._replace(dash=(4, 2), marker="").keywords,
    "irs": series(1).keywords | _THIN, "series": series(2).keywords | _THIN, "paired": series(3).keywords | _THIN,
    "recert": RECERT.keywords | _BOLD, "recert, two-sided": RECERT._replace(dash=(2.4, 1), marker="s").keywords | _BOLD,
}  # fmt: skip
"""Recert is bold and blue, baselines are grey, other methods are thin: as in reports."""
PANELS = 3


def names(study: str, results: Path) -> list[str]:
    """Figures that the results of a study give."""
    return list(_wanted(Found(study, results)))


def draw_figures(study: str, results: Path) -> list[Path]:
    """Draw them all into the folder `figures` of the results."""
    drawn = []
    with paper_style():
        for name, draw in _wanted(Found(study, results)).items():
            drawn.append(next(path for path in save(draw(), results / "figures", name) if path.suffix == ".svg"))
    return drawn


def _wanted(found: Found) -> dict[str, Callable[[], Any]]:
    if found.study in ("speedup", "headline", "samples", "large-np"):
        return {f"{found.study}-{name}": partial(_costs, group) for name, group in panels_by_figure(found).items()}
    if found.study == "distribution" and found.results:
        return {"distribution": lambda: _distribution(found)}
    if found.study == "binomial" and found.results:
        return {"binomial": lambda: _binomial(found.results[0])}
    return {}


def panels_by_figure(found: Found) -> dict[str, list[Result]]:
    """Results of one network, sigma and n stand in one figure, a few panels each, quantised ones before pruned ones."""
    place = {change: number for number, change in enumerate(APPROXIMATIONS)}
    together: dict[str, list[Result]] = {}
    for result in sorted(found.results, key=lambda r: place.get(_change(r), len(place))):
        s = result["settings"]
        together.setdefault(f"{s['network']}-{s['sigma']}-n{s['samples']}", []).append(result)
    split = {}
    for name, group in sorted(together.items()):
        shown = _shown(group)
        for start in range(0, len(shown), PANELS):
            split[name + (f"-{start // PANELS + 1}" if len(shown) > PANELS else "")] = shown[start : start + PANELS]
    return split


def _shown(group: list[Result]) -> list[Result]:
    """Rounded weights give the curves of computing in that type: where there are both, one panel is enough."""
    there = {_change(result) for result in group}
    return [r for r in group if _change(r).removesuffix("-weights") not in there - {_change(r)}]


def _change(result: Result) -> str:
    return str(result["settings"]["approximation"])


def _costs(group: list[Result]) -> Any:
    """A panel for each result; a result that stands alone has two, for both kinds of certificates."""
    alone = [(group[0], ONE_SIDED, ", one-sided"), (group[0], TWO_SIDED, ", two-sided")]
    wanted = alone if len(group) == 1 else [(result, CURVES, "") for result in group]
    figure, panels = new_figure(len(wanted), height=3.2)
    for axes, (result, curves, kind) in zip(panels, wanted, strict=True):
        s = result["settings"]
        for name, label in curves.items():
            curve = result["curves"][name]
            axes.plot(curve["passes"], curve["ACR"], label=label, **LOOKS[label])
        axes.set(xscale="log", xlabel="forward passes per image", ylabel="average certified radius")
        axes.xaxis.set_major_formatter(_tick)
        axes.set_title(
            f"{SHORT_NAMES.get(s['network'], s['network'])}, {noise_words(s['sigma'])}, {s['approximation']}{kind}"
        )
    if len(group) == 1:
        price = 1e3 * group[0]["changed"]["seconds per pass"]
        seconds = panels[-1].secondary_xaxis("top", functions=(lambda passes: price * passes, lambda ms: ms / price))
        seconds.set_xlabel("milliseconds per image")
        seconds.xaxis.set_major_formatter(_tick)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(CURVES))
    return figure


def _tick(value: float, _: object) -> str:
    """100, 1,000: as numbers are written everywhere else."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _distribution(found: Found) -> Any:
    by_sigma: dict[float | str, list[Result]] = {}
    for result in found.results:
        by_sigma.setdefault(result["settings"]["sigma"], []).append(result)
    figure, panels = new_figure(len(by_sigma))
    for axes, (sigma, results) in zip(panels, sorted(by_sigma.items(), key=lambda item: str(item[0])), strict=True):
        for number, result in enumerate(results):
            name = SHORT_NAMES.get(result["settings"]["network"], result["settings"]["network"])
            axes.stairs(result["shares"], result["edges"], label=name, color=series(number).colour, linewidth=1.2)
        axes.set(xlabel="lower bound on p_A", ylabel="share of inputs")
        axes.set_title(noise_words(sigma))
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
