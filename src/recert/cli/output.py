"""How results are printed: a table for people, JSON and CSV for programs."""

import csv
import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.errors import MarkupError
from rich.table import Table

from recert.cli.options import Format

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recert.certificates import Certificates

Row = dict[str, Any]


def say(line: str = "") -> None:
    """A remark, on stderr: stdout is for data."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        console.print(line)
    except MarkupError:  # a path or a name with brackets in it
        console.print(line, markup=False)


def say_drawn(drawn: int, passes: int, inputs: int) -> None:
    """What of the cost was spent now, where votes had been kept."""
    say(
        f"{passes / inputs:,.0f} forward passes per input, of which {drawn / inputs:,.0f} were made now; the others were kept from before"
    )


def summary(name: str, result: "Certificates", labels: "NDArray[np.int64] | None", radii: Sequence[float]) -> Row:
    """One row of numbers about certificates. Without labels, shares are of certified inputs, right or not."""
    known = result.prediction if labels is None else labels
    word = "certified" if labels is None else "accuracy"
    accuracies = result.certified_accuracy(known, list(radii))
    return {
        "model": name,
        "method": result.settings.method,
        "ACR": result.average_certified_radius(known),
        **{f"{word} at {r:g}": float(a) for r, a in zip(radii, accuracies, strict=True)},
        "abstained": result.abstention_rate,
        "passes per input": result.mean_forward_passes,
        **({"proxy passes": float(result.settings.proxy["passes per input"])} if result.settings.proxy else {}),
        "seconds": float(result.seconds.sum()) + float((result.settings.proxy or {}).get("seconds", 0.0)),
    }


def show(rows: Sequence[Row], form: Format, *, title: str | None = None) -> None:
    """Print rows on stdout in the format asked for."""
    if form is Format.JSON:
        print(json.dumps(list(rows), indent=1))
    elif form is Format.CSV:
        writer = csv.DictWriter(sys.stdout, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    else:
        table = Table(title=title, title_justify="left")
        for name, value in rows[0].items():
            table.add_column(name, justify="left" if isinstance(value, str) else "right")
        for row in rows:
            table.add_row(*(_cell(name, value) for name, value in row.items()))
        # Into a file or a pipe, rich would break lines at 80 columns: a table of numbers needs more.
        Console(width=None if sys.stdout.isatty() else 160).print(table)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float):
        if "accuracy" in name or "certified" in name or name in ("abstained", "flips"):
            return f"{value:.1%}"
        if "passes" in name:
            return f"{value:,.0f}"
        return f"{value:.1f}" if name == "seconds" else f"{_rounded_down(value):.4f}"
    return "-" if value is None else str(value)


def _rounded_down(value: float) -> float:
    """To four digits; what is shown is never more than what is claimed."""
    return math.floor(value * 10_000) / 10_000 if math.isfinite(value) else value


def check_output(path: Path | None) -> None:
    """Refuse a file that could not be written before any work is done for it."""
    if path is not None and path.suffix not in (".parquet", ".csv", ".tsv"):
        raise ValueError(f"expected an output file ending in .parquet, .csv or .tsv, got {path.name!r}")


def write(result: "Certificates", path: Path, labels: "NDArray[np.int64] | None", indices: Any) -> None:
    """Write a row per input, in the format that the file's name asks for. Parquet has all that a report needs."""
    check_output(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        # The report shows which command made a result, so that it can be repeated.
        from recert.report import Result, write_result

        command = shlex.join(["recert", *sys.argv[1:]])
        write_result(Result(path.stem, result, labels, indices, command), path)
    elif path.suffix == ".csv":
        result.to_csv(path)
    else:
        if labels is None:
            raise ValueError(
                "expected labels for the .tsv log, got data without labels; write .parquet or .csv instead"
            )
        result.to_tsv(path, labels, idx=indices)
    say(f"wrote {len(result)} rows to {path}")
