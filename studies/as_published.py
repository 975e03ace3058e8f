"""Speed-ups as the paper's code measures them, beside the paper's cells, in forward passes and in seconds; and where recert is behind."""

from collections.abc import Callable, Iterator
from pathlib import Path

from recert.metrics import Speedup, speedup_by_ratio
from studies.catalogue import APPROXIMATIONS, NETWORKS, SIGMAS
from studies.cost_sections import AUTHORS, COHEN, speedup
from studies.results import Result
from studies.tables import (
    BESIDE,
    CHANGE_NAMES,
    IN_PAPER,
    NETWORK_NAMES,
    Found,
    in_paper,
    number,
    paper,
    reported,
    table,
)

Measure = Callable[[Result | None, str], float | None]
HEADERS = ("change", "paper", "irs", "recert", "irs, seconds", "recert, seconds")
HEADLINE_SIGMA = 1.0
TWINS = ("int8-twin",)
"""Changes whose passes are those of another network: their seconds say nothing."""
TEXT = """The tables above divide areas, in forward passes, over a baseline with 100 selection votes. The authors' code divides times, at 100 evenly spaced
ACRs of the common range, and takes the mean; its baseline has n_p / 100 selection votes. By that measure, on the same votes:
"""
LEGEND = """*irs* and *recert* are one-sided, in forward passes. *Seconds* are those of forward passes, and of planning and bounds at the largest budget, which are
counted at every budget. Bounds are computed on a CPU, beside a pass of some microseconds on a GPU, and weigh much here; for a larger network the two
measures come together. Since then bounds have become faster and run while votes are drawn: [performance](performance.md) has seconds of whole runs. A dash: the twin of int8 takes other seconds than int8, or there is no common range.
"""


def as_published(results: Path) -> str:
    """The section of the page: short in view, tables folded."""
    found = Found("speedup", results)
    lines = [
        line
        for measure, unit in (
            (in_passes, "forward passes"),
            (in_seconds, "seconds, with planning and bounds, without int8"),
        )
        for sigma in reversed(SIGMAS)
        if (line := _ranges(found, str(sigma), measure, unit))
    ]
    network = NETWORKS[-1]
    tables = "".join(
        f"{NETWORK_NAMES[network]}, sigma {sigma}:\n\n{measured_rows(found, network, str(sigma))}\n" for sigma in SIGMAS
    )
    folded = f'<details markdown="1">\n<summary>By the measure of the authors, and in seconds</summary>\n\n{LEGEND}\n{tables}\n</details>\n'
    csv = f"[As CSV](../{results.name}/tables/as-published.csv), for both networks.\n"
    return "\n".join(
        ["## And by the paper's own measure?\n", TEXT, "\n".join(lines) + "\n", behind(results), folded, csv]
    )


def _ranges(found: Found, sigma: str, measure: Measure, unit: str) -> str:
    """The least and the most of all changes of the largest network."""
    results = [found.get(NETWORKS[-1], sigma, change) for change in APPROXIMATIONS]
    auto, irs = (
        [value for result in results if (value := measure(result, f"{method} one-sided")) is not None]
        for method in ("auto", "irs")
    )
    if not auto or not irs:
        return ""
    ours, theirs = (f"{min(values):.2f} to {max(values):.2f}" for values in (auto, irs))
    return f"- {NETWORK_NAMES[NETWORKS[-1]]}, sigma {sigma}, {unit}: recert {ours}, irs {theirs}."


def measured_rows(found: Found, network: str, sigma: str) -> str:
    """The table of a network and a sigma."""
    return table(HEADERS, rows_of(found, network, sigma))


def rows_of(found: Found, network: str, sigma: str) -> list[list[str]]:
    return [cells(found, network, sigma, change) for change in APPROXIMATIONS if found.get(network, sigma, change)]


def cells(found: Found, network: str, sigma: str, change: str) -> list[str]:
    """A row: the paper's cell, irs and recert by its measure."""
    result = found.get(network, sigma, change)
    published = reported(
        paper("speedup")["cells"].get(in_paper(network), {}), sigma, IN_PAPER.get(change, change), form=".2f"
    )
    values = [
        measure(result, f"{method} one-sided") for measure in (in_passes, in_seconds) for method in ("irs", "auto")
    ]
    return [CHANGE_NAMES.get(change, change), published, *(number(value, ".2f", "—") for value in values)]


def in_passes(result: Result | None, method: str) -> float | None:
    """The mean ratio of forward passes, over the authors' baseline."""
    curves = (result or {}).get("curves", {})
    if method not in curves or AUTHORS not in curves:
        return None
    ours, theirs = curves[method], curves[AUTHORS]
    return _value(speedup_by_ratio(ours["passes"], ours["ACR"], theirs["passes"], theirs["ACR"]))


def in_seconds(result: Result | None, method: str) -> float | None:
    """The same of seconds, with planning and bounds; None of a network whose seconds are another one's."""
    if result is None or AUTHORS not in result["curves"] or result["settings"]["approximation"] in TWINS:
        return None
    costs = [_seconds(result, name) for name in (method, AUTHORS)]
    radii = [result["curves"][name]["ACR"] for name in (method, AUTHORS)]
    return _value(speedup_by_ratio(costs[0], radii[0], costs[1], radii[1]))


def _seconds(result: Result, name: str) -> list[float]:
    """Seconds per image at every budget. A budget at which nothing was spent has none."""
    price, computing = (
        result["changed"]["seconds per pass"],
        result["computing seconds"][name] / result["settings"]["images"],
    )
    return [price * passes + computing if passes else 0.0 for passes in result["curves"][name]["passes"]]


def _value(found: Speedup) -> float | None:
    return found.value


def behind(results: Path) -> str:
    """Published cells that are above ours, over Cohen's baseline as in the tables above."""
    lines = [f"- {text}" for text in _behind(results)]
    if not lines:
        return ""
    return (
        (
            "recert is behind what is published in these cells, all of int8, where [the authors' code quantised nothing](#where-do-ours-differ-and-why) and ours does:\n\n"
            if all("int8" in line for line in lines)
            else "recert is behind what is published in these cells:\n\n"
        )
        + "\n".join(lines)
        + "\n"
    )


def _behind(results: Path) -> Iterator[str]:
    for study, result, published in _published(results):
        ours = speedup(result, "auto one-sided", COHEN)
        if ours is not None and ours < published:
            s = result["settings"]
            yield (
                f"{NETWORK_NAMES.get(s['network'], s['network'])}, sigma {s['sigma']}, {CHANGE_NAMES.get(s['approximation'], s['approximation'])}, "
                f"n = {s['samples']:,} ({study}): {ours:.2f} against {published:.2f}; "
                f"by the authors' measure {number(in_passes(result, 'auto one-sided'), '.2f', 'no common range')}."
            )


def _published(results: Path) -> Iterator[tuple[str, Result, float]]:
    """Every result that stands beside a published speed-up."""
    for result in Found("speedup", results).results:
        yield from _beside("speedup", result, paper("speedup")["cells"])
    for result in Found("headline", results).results:
        s = result["settings"]
        cell = paper("headline")["cells"].get(in_paper(s["network"]))
        if cell and s["approximation"] in ("int8", *TWINS) and s["sigma"] == HEADLINE_SIGMA:
            yield "headline", result, cell["speedup"]
    for result in Found("samples", results).results:
        s = result["settings"]
        if s["network"] == NETWORKS[0]:
            yield from _beside("samples", result, {s["network"]: paper("samples")["cells"].get(str(s["samples"]), {})})


def _beside(
    study: str, result: Result, published: dict[str, dict[str, dict[str, float]]]
) -> Iterator[tuple[str, Result, float]]:
    s = result["settings"]
    change = IN_PAPER.get(s["approximation"], s["approximation"])
    value = published.get(in_paper(s["network"]), {}).get(str(s["sigma"]), {}).get(change)
    if value is not None:
        yield study, result, value


def csv_rows(results: Path) -> list[list[str]]:
    """All cells, with headers."""
    found = Found("speedup", results)
    rows = [
        [NETWORK_NAMES[network], str(sigma), *row]
        for network in (*NETWORKS, *BESIDE)
        for sigma in sorted({*SIGMAS, *found.all("sigma")})
        for row in rows_of(found, network, str(sigma))
    ]
    return [["network", "sigma", *HEADERS], *rows]
