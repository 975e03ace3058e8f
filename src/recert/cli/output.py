"""How results are printed: a table for people, JSON and CSV for programs."""

import csv
import json
import math
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.errors import MarkupError
from rich.text import Text

from recert.cli.options import Format
from recert.cli.streams import discard, printing
from recert.cli.tables import Column, at_words, command_lines, console_like, print_columns, stdout_width

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recert.certificates import Certificates

Row = dict[str, Any]
RESULTS = (".parquet", ".csv", ".tsv")


def say(line: str = "", *, markup: bool = True) -> None:
    """A remark, on stderr: stdout is for data. In a terminal it is broken at words, in a log it is one line.

    Lines that begin with blanks are commands, which people copy: they are broken as a shell allows it.
    """
    console, text = console_like(sys.stderr)
    for each in line.split("\n"):
        try:
            said = Text.from_markup(each, emoji=False) if markup else Text(each)
        except MarkupError:  # a path or a name with brackets in it
            said = Text(each)
        if not sys.stderr.isatty():
            parts = [said]
        elif each.startswith("  "):
            parts = [Text(line) for line in command_lines(said.plain, console.width)]
        else:
            parts = at_words(said, console.width)
        for part in parts:
            console.print(part, soft_wrap=True)
    try:
        print(text.getvalue(), end="", file=sys.stderr, flush=True)
    except OSError:  # nobody hears it; the work goes on
        discard(sys.stderr)


def say_drawn(drawn: int, passes: int, inputs: int) -> None:
    """What of the cost was spent now, where votes had been kept."""
    say(f"{passes / inputs:,.0f} forward passes per input: {drawn / inputs:,.0f} made now, the others kept from before")


def say_rows_sent(rows: int | None) -> None:
    """What a function was sent, all in all; nothing of a network."""
    if rows is not None:
        say(f"the function was given {rows:,} rows, checks and repeated requests included")


def summary(name: str, result: "Certificates", labels: "NDArray[np.int64] | None", radii: Sequence[float]) -> Row:
    """One row of numbers about certificates. Without labels, shares are of certified inputs, right or not."""
    known = result.prediction if labels is None else labels
    word = "certified" if labels is None else "accuracy"
    if (
        decided := result.settings.at
    ):  # each input has the largest of these that was shown: no other radius says anything
        shown = result.certified_accuracy(known, list(decided))
        return {
            "model": name,
            **{f"{word} at {r:g}": float(a) for r, a in zip(decided, shown, strict=True)},
            "out of reach": float((result.outcome == "radius-out-of-reach").mean()),
            "undecided": float((result.outcome == "undecided").mean()),
            "passes per input": result.mean_forward_passes,
            "seconds": float(result.seconds.sum()),
        }
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


def show(
    rows: Sequence[Row],
    form: Format,
    *,
    title: str | None = None,
    prose: Sequence[str] = (),
    least: Sequence[str] = ("seconds",),
) -> None:
    """Print rows on stdout in the format asked for. In a narrow terminal columns of prose wrap, and `least` important ones go first."""
    if form is Format.JSON:
        print_json(list(rows))
    elif form is Format.CSV:
        with printing():
            writer = csv.DictWriter(sys.stdout, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        columns = [
            Column(
                name,
                tuple(cell(name, row.get(name)) for row in rows),
                prose=name in prose,
            )
            for name in rows[0]
        ]
        if gone := print_columns(columns, title=title, least=least):
            say(f"not shown for lack of width: {', '.join(gone)}; widen the terminal, or give --format json")


def show_sentence(sentence: str) -> None:
    """A result that is said in a sentence, on stdout, broken at words where that is a terminal."""
    lines = at_words(Text(sentence), stdout_width()) if sys.stdout.isatty() else [Text(sentence)]
    with printing():
        print(*(line.plain for line in lines), sep="\n")


def print_json(value: Any) -> None:
    with printing():
        print(json.dumps(value, indent=1))


def cell(name: str, value: Any) -> str:
    """A value as people read it, by the name of its column."""
    if isinstance(value, float):
        if "accuracy" in name or "certified" in name or name in ("abstained", "flips", "out of reach", "undecided"):
            return f"{value:.1%}"
        if "passes" in name:
            return f"{value:,.0f}"
        if name.startswith("times fewer"):
            return f"{value:.1f}"
        return _seconds(value) if "seconds" in name else f"{_rounded_down(value):.3f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)


def _seconds(value: float) -> str:
    """With two digits where there are so few that one after the point says nothing.

    >>> _seconds(12.34), _seconds(0.0214), _seconds(0.0)
    ('12.3', '0.021', '0.0')
    """
    return f"{value:.1f}" if value >= 1 or value < 0.001 else f"{value:.2g}"


def _rounded_down(value: float) -> float:
    """To three digits; what is shown is never more than what is claimed."""
    return math.floor(value * 1_000) / 1_000 if math.isfinite(value) else value


def check_output(path: Path | None, endings: Sequence[str] | None = RESULTS) -> None:
    """Refuse a file that could not be written before any work is done for it."""
    if path is None:
        return
    if endings is not None and path.suffix not in endings:
        known = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise ValueError(f"expected an output file ending in {known}, got {path.name!r}")
    if path.is_dir():
        raise IsADirectoryError(f"expected a file to write, got the folder {path}; add the name of a file")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"expected a file that may be written, got {path}, which may not; choose another name")
    if not path.exists() or stat.S_ISREG(path.stat().st_mode):
        check_folder((Path(os.path.realpath(path)) if path.is_symlink() else path).parent)


def check_folder(folder: Path | None) -> None:
    """Refuse a folder that can neither be made nor written to."""
    if folder is None:
        return
    whole = folder.absolute()
    there = next(each for each in (whole, *whole.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise NotADirectoryError(f"expected a folder to write to, got {there}, which is a file; choose another folder")
    # Tried and not asked for: file systems and limits may forbid what the mode of a folder allows.
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise PermissionError(
            f"expected a folder that can be written, got {there} ({error.strerror}); choose another"
        ) from error


def check_log(path: Path | None, labels: "NDArray[np.int64] | None") -> None:
    """Refuse a log of inputs without labels."""
    if path is not None and path.suffix == ".tsv" and labels is None:
        raise ValueError("expected labels for the .tsv log, got data without labels; write .parquet or .csv instead")


def command_line() -> str:
    """The command that is running, as it can be given again."""
    return shlex.join(["recert", *sys.argv[1:]])


def write(result: "Certificates", path: Path, labels: "NDArray[np.int64] | None", indices: Any, **about: Any) -> None:
    """Write a row per input, in the format that the file's name asks for. Parquet has all that a report needs: `about` are fields
    of its `Result`."""
    check_output(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        # The report shows which command made a result, so that it can be repeated.
        from recert.report import Result, write_result

        write_result(Result(path.stem, result, labels, indices, command_line(), **about), path)
    elif path.suffix == ".csv":
        result.to_csv(path, labels)
    else:
        check_log(path, labels)
        assert labels is not None
        result.to_tsv(path, labels, idx=indices)
    say(f"wrote {len(result)} rows to {path}")
