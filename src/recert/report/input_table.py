"""The table of inputs: as the page shows it first, packed for the script that shows it for other results, and whole as CSV."""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from recert.report.difference import Difference, counted_radii
from recert.report.results import Result

Ints = NDArray[np.int64]
MOST_ROWS = 1_000
"""Of more inputs the page has the most telling ones, and a CSV beside it has all."""
PLACES = 3
_DIGEST = re.compile("[0-9a-f]{64}")


def down(number: float, places: int = PLACES) -> float:
    """Rounded down, so that what is shown is not larger than what was certified.

    >>> down(0.99999)
    0.999
    """
    scale = 10**places
    # The product may be rounded up to the next whole number: then what is shown would be larger after all.
    shown: float = math.floor(number * scale) / scale
    return shown if shown <= number else shown - 1 / scale


@dataclass(frozen=True)
class Compared:
    """A result, its difference to the original if it has one, and the radius at which inputs are counted."""

    result: Result
    difference: Difference | None
    radius: float


def telling_rows(compared: Sequence[Compared], most: int = MOST_ROWS) -> Ints:
    """Which inputs the page shows: all, or those that changed most in any of the results; in the order that they have."""
    n = len(compared[0].result.certificates)
    if n <= most:
        return np.arange(n)
    differences = [each.difference for each in compared if each.difference is not None]
    happened, loss = np.zeros(n, dtype=bool), np.full(n, -np.inf)
    for each in compared:
        if each.difference is not None:
            happened |= np.array([bool(text) for text in each.difference.what_happened(each.radius)])
            before = each.difference.original.certificates.radius
            loss = np.maximum(loss, before - each.result.certificates.radius)
    if not differences:
        happened = counted_radii(compared[0].result) == 0
    radius = compared[0].result.certificates.radius
    chosen: Ints = np.lexsort((radius, -loss, ~happened))[:most]
    return np.sort(chosen)


def first_rows(compared: Compared, rows: Ints, classes: tuple[str, ...] | None) -> list[dict[str, Any]]:
    """The table of inputs as it is before any script runs: largest losses first. `number` is the place among the rows."""
    columns = _columns(compared, rows, classes)
    columns["number"] = list(range(len(rows)))
    names = list(columns)
    table = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return table if compared.difference is None else sorted(table, key=lambda row: row["change"])


def _columns(compared: Compared, rows: Ints, classes: tuple[str, ...] | None) -> dict[str, list[Any]]:
    result, difference = compared.result, compared.difference
    c = result.certificates
    predictions, radii = c.prediction[rows].tolist(), [down(r) for r in c.radius[rows].tolist()]
    labels = [None] * len(rows) if result.labels is None else result.labels[rows].tolist()
    positions = c.index if result.positions is None else result.positions
    before = None if difference is None else [down(r) for r in difference.original.certificates.radius[rows].tolist()]
    flips, replayed = (c.lost + c.gained)[rows].tolist(), c.replayed[rows].tolist()
    return {
        "position": positions[rows].tolist(),
        "digest": [str(digest) for digest in c.input[rows]],
        "label": [_class(label, classes) for label in labels],
        "prediction": [_class(p, classes) for p in predictions],
        "verdict": [_verdict(p, label) for p, label in zip(predictions, labels, strict=True)],
        "was": [None] * len(rows) if before is None else before,
        "radius": radii,
        "change": [0.0] * len(rows) if before is None else [round(r - b, PLACES) for r, b in zip(radii, before, strict=True)],
        "flips": [f"{k:,} of {m:,}" if m else "–" for k, m in zip(flips, replayed, strict=True)],
        "passes": c.forward_passes[rows].tolist(),
        "outcome": [str(o) for o in c.outcome[rows]],
        "what": what_of(compared, rows),
    }  # fmt: skip


def what_of(compared: Compared, rows: Ints) -> list[str]:
    """What changed of each input, and invalid votes, which a reader who counts votes would miss."""
    difference, n = compared.difference, len(compared.result.certificates)
    texts = [""] * n if difference is None else difference.what_happened(compared.radius)
    invalid = compared.result.certificates.nobody
    return [
        ", ".join(filter(None, (texts[i], f"{invalid[i]:,} invalid votes" if invalid[i] else "")))
        for i in rows.tolist()
    ]


def _class(number: int | None, classes: tuple[str, ...] | None) -> str:
    if number is None or number < 0:
        return "–"
    return classes[number] if classes is not None and number < len(classes) else str(number)


def _verdict(prediction: int, label: int | None) -> str:
    if prediction < 0:
        return "abstained"
    return "predicted" if label is None else "right" if prediction == label else "wrong"


def packed_tables(compared: Sequence[Compared], rows: Ints, classes: tuple[str, ...] | None) -> Markup:
    """The same table for every result, for the script; texts that repeat are stored once."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    tables = []
    for each in compared:
        columns = {
            k: v for k, v in _columns(each, rows, classes).items() if k not in ("position", "digest", "label", "change")
        }
        tables.append(
            {k: [number(v) if isinstance(v, str) else v for v in values] for k, values in columns.items()}
            | {"texts": [k for k, values in columns.items() if isinstance(values[0], str)], "compared": each.difference is not None}
        )  # fmt: skip
    packed = json.dumps({"results": tables, "texts": list(texts)}, separators=(",", ":"))
    # Inside a script element only "<" matters: no text can end the element or open a comment.
    return Markup(packed.replace("<", "\\u003c"))


def inputs_as_csv(compared: Sequence[Compared]) -> bytes:
    """Every input, a row each, with the columns of every result behind each other; radii at full precision."""
    first = compared[0].result
    n = len(first.certificates)
    positions = first.certificates.index if first.positions is None else first.positions
    # Spreadsheets run what begins with "=": a digest is hexadecimal, and every heading begins with a word of ours.
    digests = [str(d) if _DIGEST.fullmatch(str(d)) else "" for d in first.certificates.input]
    columns: dict[str, Sequence[Any]] = {"input": positions.tolist(), "digest": digests}
    if first.labels is not None:
        columns["label"] = first.labels.tolist()
    for number, each in enumerate(compared):
        c, of = each.result.certificates, f"of {each.result.name}"
        of = f"{of} #{number + 1}" if f"radius {of}" in columns else of
        columns |= {f"prediction {of}": c.prediction.tolist(), f"radius {of}": c.radius.tolist()}
        if c.radius_without_flips is not None:
            columns[f"radius without flips {of}"] = c.radius_without_flips.tolist()
        columns[f"outcome {of}"] = [str(outcome) for outcome in c.outcome]
        if each.difference is not None:
            columns[f"change {of}"] = what_of(each, np.arange(n))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()
