"""The table of inputs: as the page shows it first, and packed for the script that shows it for other results."""

import json
import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from recert.report.results import Result


def down(number: float, places: int = 4) -> float:
    """Rounded down, so that what is shown is not larger than what was certified.

    >>> down(0.99999)
    0.9999
    """
    scale = 10**places
    # The product may be rounded up to the next whole number: then what is shown would be larger after all.
    shown: float = math.floor(number * scale) / scale
    return shown if shown <= number else shown - 1 / scale


def first_rows(result: Result, classes: tuple[str, ...] | None) -> list[dict[str, Any]]:
    """The table of inputs as it is before any script runs."""
    columns = _columns(result, classes)
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _columns(result: Result, classes: tuple[str, ...] | None) -> dict[str, list[Any]]:
    c = result.certificates
    predictions = c.prediction.tolist()
    labels = [None] * len(c) if result.labels is None else result.labels.tolist()
    positions = c.index if result.positions is None else result.positions
    return {
        "position": positions.tolist(),
        "digest": [str(digest) for digest in c.input],
        "label": [_class(label, classes) for label in labels],
        "prediction": [_class(p, classes) for p in predictions],
        "verdict": [_verdict(p, label) for p, label in zip(predictions, labels, strict=True)],
        "radius": [down(r) for r in c.radius.tolist()],
        "lower": [down(p) for p in c.top_lower.tolist()],
        "flips": [f"{flips} of {m}" if m else "–" for flips, m in zip((c.lost + c.gained).tolist(), c.replayed.tolist(), strict=True)],
        "passes": c.forward_passes.tolist(),
        "outcome": [str(o) for o in c.outcome],
        "explanation": [str(e) for e in c.explanation],
    }  # fmt: skip


def _class(number: int | None, classes: tuple[str, ...] | None) -> str:
    if number is None or number < 0:
        return "–"
    return classes[number] if classes is not None and number < len(classes) else str(number)


def _verdict(prediction: int, label: int | None) -> str:
    if prediction < 0:
        return "abstained"
    return "predicted" if label is None else "right" if prediction == label else "wrong"


def packed_tables(results: Sequence[Result], classes: tuple[str, ...] | None) -> Markup:
    """The same table for every result, for the script; texts that repeat are stored once."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    tables = []
    for result in results:
        columns = {k: v for k, v in _columns(result, classes).items() if k not in ("position", "digest", "label")}
        tables.append(
            {k: [number(v) if isinstance(v, str) else v for v in values] for k, values in columns.items()}
            | {"texts": [k for k, values in columns.items() if isinstance(values[0], str)]}
        )
    packed = json.dumps({"results": tables, "texts": list(texts)}, separators=(",", ":"))
    # Inside a script element only "<" matters: no text can end the element or open a comment.
    return Markup(packed.replace("<", "\\u003c"))
