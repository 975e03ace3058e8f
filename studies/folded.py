"""The studies beside the main one: one sentence each, and below it, folded, tables that are not too long, figures, and links to the rest as CSV."""

from pathlib import Path

from studies.by_sigma import figures_in_view
from studies.captions import picture
from studies.catalogue import STUDIES
from studies.cost_sections import LEGEND
from studies.csv_tables import NAMES, tables_in
from studies.figures import names as figure_names
from studies.sections import SECTIONS
from studies.tables import CHANGE_NAMES, NOT_RUN, Found, table

HEADINGS = {
    "headline": "What does a large cache give? The paper's main figure", "samples": "How does the number of cached votes matter?",
    "large-np": "What if re-certification may spend nearly all that the cache holds?", "disparity": "How many votes does a change flip?",
    "at-radius": "Is the radius at least so large? Decided one by one, by plan, and by others' rules",
    "gamma": "Which threshold suits the paper's method?", "gamma-as-published": "And as the authors' code measures it?", "distribution": "How sure is the original?", "accuracy": "How accurate are the networks?",
    "binomial": "How many samples does an interval need?", "soundness": "Do the bounds hold? Against independent votes of a changed network",
    "coverage": "Do the bounds hold? A hundred caches of the same images", "speedup": "More figures of the tables above",
}  # fmt: skip
MOST_ROWS = 25
NARROW = ("n", "network", "sigma", "change", "paper: IRS", "irs", "auto", "auto ÷ irs", "images")
RENAMED = {
    "paper: IRS": "paper",
    "auto": "recert",
    "auto two-sided": "recert, two-sided",
    "auto ÷ irs": "ratio",
} | CHANGE_NAMES


def folded(results: Path) -> str:
    """All of them."""
    parts = [_study(name, results) for name in HEADINGS]
    return "## What else was measured?\n\n" + "\n".join(parts)


def _study(name: str, results: Path) -> str:
    found = Found(name, results)
    inner = (
        _figures(found, results)
        if name == "speedup"
        else f"{STUDIES[name].sentence}\n\n{_tables(found)}{_figures(found, results)}"
    )
    return f'<details markdown="1">\n<summary>{HEADINGS[name]}</summary>\n\n{inner}\n</details>\n'


def _tables(found: Found) -> str:
    """The study's own words and its short tables; long ones are behind their links."""
    text, links = (
        SECTIONS[found.study](found).replace(LEGEND, "Columns as in the tables above; the CSV file has more.\n"),
        [],
    )
    names = iter(NAMES.get(found.study, (found.study,)))
    for rows in tables_in(text):
        as_text = table(rows[0], rows[1:])
        costs = "µs per pass" in rows[0]
        if costs:
            text = text[: text.index("At the largest budget of each")]
            continue
        links.append(f"[{(name := next(names))}.csv](../{found.folder.name}/tables/{name}.csv)")
        text = text.replace(as_text, _short(rows, links[-1]))
    return f"{text.rstrip()}\n\nAs CSV: {', '.join(links)}.\n"


def _short(rows: list[list[str]], link: str) -> str:
    """A table without cells that were not run and without columns for the few; a link if it is long even so."""
    headers, *cells = rows
    if len(set(headers)) < len(headers):
        raise ValueError(
            f"expected different headings of all columns, got {', '.join(headers)}; rename those that repeat"
        )
    kept = [headers.index(name) for name in (NARROW if "paper: IRS" in headers else headers) if name in headers]
    ran = [[CHANGE_NAMES.get(row[place], row[place]) for place in kept] for row in cells if NOT_RUN not in "".join(row)]
    if not ran or len(ran) > MOST_ROWS:
        return f"{'The table is long' if ran else 'Not run'}: {link}.\n"
    return table([RENAMED.get(headers[place], headers[place]) for place in kept], ran)


def _figures(found: Found, results: Path) -> str:
    """Those that the page does not show already."""
    shown = figures_in_view(found) if found.study == "speedup" else []
    return "".join(picture(name, found) for name in figure_names(found.study, results) if name not in shown)
