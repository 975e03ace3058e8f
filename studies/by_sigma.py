"""How much re-certification saves: a table of six columns for each sigma, the paper's numbers beside ours."""

from pathlib import Path

from studies.captions import picture
from studies.catalogue import APPROXIMATIONS, NETWORKS, SIGMAS
from studies.cost_sections import COHEN, speedup, speedup_text
from studies.figures import names as figure_names
from studies.tables import CHANGE_NAMES, IN_PAPER, NETWORK_NAMES, Found, in_paper, number, paper, reported, table

HEADERS = ("change", "paper", "irs", "recert", "ratio", "images")
INTRODUCTION = """## How many forward passes are saved?

How many times fewer forward passes re-certification takes than certifying the changed network anew, at equal average certified radius (ACR), for a cache of
10,000 votes:

- *paper*: the paper's method, as published;
- *irs*: the same method, run here on our networks;
- *recert*: `method="auto"`, on the same votes;
- *ratio*: recert ÷ irs;
- *images*: the number of images.

All three have one-sided certificates, as the paper has, and are compared with Cohen's Algorithm 1. The line under each table has the default of the
library, two-sided certificates.
"""
CSV = """
[All columns as CSV](../results/tables/speedup.csv): more methods, baselines and the numerics of each cell. [What the
largest budgets bought](../results/tables/costs.csv), in forward passes and milliseconds.
"""


def by_sigma(results: Path) -> str:
    """All of it: the largest network in view, the others folded."""
    found = Found("speedup", results)
    return INTRODUCTION + "".join(_sigma(found, str(sigma)) for sigma in SIGMAS) + CSV


def _sigma(found: Found, sigma: str) -> str:
    *others, shown = NETWORKS
    folded = "".join(
        f'\n<details markdown="1">\n<summary>{NETWORK_NAMES[network]}</summary>\n\n{rows_and_default(found, network, sigma)}\n</details>\n'
        for network in others
    )
    figure = "".join(picture(name, found) for name in figures_in_view(found) if f"-{sigma}-" in name)
    return f"\n### Sigma {sigma}\n\n{NETWORK_NAMES[shown]}:\n\n{rows_and_default(found, shown, sigma)}{figure}{folded}"


def figures_in_view(found: Found) -> list[str]:
    """The first figure of the largest network for each sigma: its quantised forms."""
    names = figure_names("speedup", found.folder)
    of_sigmas = ([name for name in names if name.startswith(f"speedup-{NETWORKS[-1]}-{sigma}-")] for sigma in SIGMAS)
    return [first for first, *_ in filter(None, of_sigmas)]


def rows_and_default(found: Found, network: str, sigma: str) -> str:
    """The table of a network and a sigma, and a line about the library's default."""
    changes = [*APPROXIMATIONS, *(["int8"] if found.get(network, sigma, "int8") else [])]
    rows = [_row(found, network, sigma, change) for change in changes]
    return table(HEADERS, rows) + _default(found, network, sigma)


def _row(found: Found, network: str, sigma: str, change: str) -> list[str]:
    result = found.get(network, sigma, change)
    irs, auto = (speedup(result, f"{method} one-sided", COHEN) for method in ("irs", "auto"))
    published = reported(
        paper("speedup")["cells"].get(in_paper(network), {}), sigma, IN_PAPER.get(change, change), form=".2f"
    )
    return [
        CHANGE_NAMES.get(change, change), published, speedup_text(result, "irs one-sided", COHEN), speedup_text(result, "auto one-sided", COHEN),
        number(auto / irs if auto and irs else None, ".2f", "—"), str(result["settings"]["images"]) if result else "—",
    ]  # fmt: skip


def _default(found: Found, network: str, sigma: str) -> str:
    """What the library's default gives, over both baselines."""
    results = [result for change in APPROXIMATIONS if (result := found.get(network, sigma, change))]
    ranges = []
    for baseline in ("scratch two-sided", COHEN):
        values = [value for result in results if (value := speedup(result, "auto two-sided", baseline)) is not None]
        ranges.append(f"{min(values):.2f} to {max(values):.2f}" if values else None)
    if None in ranges:
        return ""
    return f"\nWith two-sided certificates, the default: {ranges[0]} over a two-sided baseline, {ranges[1]} over Algorithm 1.\n"
