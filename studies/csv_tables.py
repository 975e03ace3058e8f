"""Every table of every study as a CSV file: the page of results shows the few that most people want."""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from studies.as_published import csv_rows
from studies.cost_sections import COHEN
from studies.results import Result
from studies.sections import SECTIONS
from studies.tables import NETWORK_NAMES, Found, describe_numerics

NAMES = {
    "headline": ("headline", "headline-seconds"), "disparity": ("disparity", "disparity-table-1"), "gamma": ("gamma", "share-above-gamma"),
    "accuracy": ("accuracy-standard", "accuracy-smoothed"), "at-radius": ("at-radius", "at-radius-equal-share"),
}  # fmt: skip
"""Files of the studies that have several tables; the others have one, with the name of the study."""
IN_BRACKETS = {"large-np": "passes", "accuracy": "paper", "at-radius": "passes"}
"""What stands in brackets in cells with two numbers: a column of its own here."""
TWO_NUMBERS = re.compile(r"(.+) \((.+)\)")
METHODS = ("irs one-sided", "auto one-sided", "auto two-sided", COHEN)
Row = list[str]


def csv_files(results: Path) -> dict[str, str]:
    """Texts of all files, by name."""
    files = {}
    for study, section in SECTIONS.items():
        tables = [rows for rows in tables_in(section(Found(study, results))) if "µs per pass" not in rows[0]]
        names = NAMES.get(study, (study,))
        if len(tables) > len(names):
            raise ValueError(
                f"expected a file name for each of the {len(tables)} tables of {study}, got {len(names)}; add them to NAMES"
            )
        for name, rows in zip(names, tables, strict=False):  # a table that waits for results has its name already
            files[f"{name}.csv"] = as_csv(separated(rows, IN_BRACKETS.get(study)))
    return files | {"costs.csv": as_csv(costs(results)), "as-published.csv": as_csv(csv_rows(results))}


def tables_in(text: str) -> list[list[Row]]:
    """All tables of a Markdown text.

    >>> tables_in("Text.\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\nMore.")
    [[['a', 'b'], ['1', '2']]]
    """
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.M):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        found.append([rows[0], *rows[2:]])
    return found


def separated(rows: list[Row], second: str | None) -> list[Row]:
    """Cells like "0.42 (100)" in two columns.

    >>> separated([["n", "irs"], ["1", "0.42 (100)"], ["2", "—"]], "passes")
    [['n', 'irs', 'irs, passes'], ['1', '0.42', '100'], ['2', '—', '']]
    """
    if second is None:
        return rows
    columns = []
    for header, *cells in zip(*rows, strict=True):
        pairs = [TWO_NUMBERS.fullmatch(cell) for cell in cells]
        if header == "network" or not any(pairs):
            columns.append([header, *cells])
            continue
        columns.append([header, *(pair[1] if pair else cell for pair, cell in zip(pairs, cells, strict=True))])
        columns.append([f"{header}, {second}", *(pair[2] if pair else "" for pair in pairs)])
    return [list(row) for row in zip(*columns, strict=True)]


def costs(results: Path) -> list[Row]:
    """What the largest budget of each method bought, in forward passes and in seconds."""
    rows = [[
        "study", "network", "sigma", "change", "n", "method", "budget", "ACR", "forward passes per image", "ms of forward passes per image",
        "ms of planning and bounds per image", "ACR of the original", "µs per pass", "images", "numerics",
    ]]  # fmt: skip
    for study in ("speedup", "headline", "samples", "large-np"):
        for result in Found(study, results).results:
            rows += [_cost(study, result, method) for method in METHODS]
    return rows


def _cost(study: str, result: Result, method: str) -> Row:
    s, price, curve = result["settings"], result["changed"]["seconds per pass"], result["curves"][method]
    passes, computing = curve["passes"][-1], result["computing seconds"][method] / s["images"]
    return [
        study, NETWORK_NAMES.get(s["network"], s["network"]), str(s["sigma"]), s["approximation"], str(s["samples"]), method,
        str(curve["budgets"][-1]), f"{curve['ACR'][-1]:.4f}", f"{passes:.0f}", f"{1e3 * price * passes:.2f}", f"{1e3 * computing:.2f}",
        f"{result['original']['ACR'][method.split()[-1]]:.4f}", f"{1e6 * price:.2f}", str(s["images"]),
        describe_numerics(result["changed"]["numerics"]),
    ]  # fmt: skip


def as_csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write_csv_files(results: Path) -> list[Path]:
    """Put them all into the folder `tables` of the results, and nothing else."""
    folder = results / "tables"
    folder.mkdir(exist_ok=True)
    files = csv_files(results)
    for old in folder.glob("*.csv"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]
