"""Tables that fit: names and numbers are whole at any width, headings and prose wrap at words, unimportant columns are left out."""

import io
import itertools
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from recert.cli.streams import printing

WIDTH_WITHOUT_TERMINAL = 160
GAP = 2
NARROWEST_PROSE, LONGEST_WORD = 16, 30
_NUMBER = re.compile(r"[-><]*[ 0-9.,]*[%x]?")


@dataclass(frozen=True)
class Column:
    """A column of texts. Prose wraps at words; everything else is shown whole."""

    name: str
    cells: tuple[str, ...]
    prose: bool = False

    @property
    def left(self) -> bool:
        """Whether it is no column of numbers."""
        return self.prose or not all(_NUMBER.fullmatch(cell) for cell in self.cells)

    @property
    def least(self) -> int:
        """The width below which something would be cut."""
        heading = max((cell_len(word) for word in self.name.split()), default=0)
        if not self.prose:
            return max(heading, *(cell_len(line) for cell in self.cells for line in cell.split("\n")))
        longest = max((cell_len(word) for cell in self.cells for word in cell.split()), default=0)
        return max(heading, min(longest, LONGEST_WORD), min(NARROWEST_PROSE, self.most))

    @property
    def most(self) -> int:
        """The width that prose takes without a break."""
        return max(map(cell_len, (self.name, *self.cells)))


def stdout_width() -> int:
    """Of the terminal, or of what COLUMNS says in its place; a file or a pipe has room."""
    if sys.stdout.isatty():
        return Console(file=sys.stdout).width
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) else WIDTH_WITHOUT_TERMINAL


def print_columns(columns: Sequence[Column], *, title: str | None = None, least: Sequence[str] = ()) -> list[str]:
    """Print a table on stdout as wide as it is, and return the names of columns that had no room.

    The first column always has room. The others go in the order of `least`, then from the right.
    """
    width = stdout_width()
    shown = [_folded(columns[0], max(width // 2, NARROWEST_PROSE)), *columns[1:]]
    left_out: list[str] = []
    while len(shown) > 1 and _taken(shown) > width:
        names = [column.name for column in shown[1:]]
        goes = next((name for name in least if name in names), names[-1])
        left_out.append(goes)
        shown = [column for column in shown if column.name != goes or column is shown[0]]
    console, text = console_like(sys.stdout, width=max(width, _taken(shown)))
    for line in ["", *textwrap.wrap(title, width)] if title else []:
        console.print(Text(line, style="italic"), soft_wrap=True)
    console.print(_table(shown, width))
    with printing():
        print(text.getvalue().rstrip("\n"))
    return left_out


def _folded(names: Column, width: int) -> Column:
    """Long names, such as paths, on several lines, so that numbers have room beside them."""
    return replace(names, cells=tuple("\n".join(textwrap.wrap(name, width)) for name in names.cells))


def _taken(columns: Sequence[Column]) -> int:
    return sum(column.least + GAP for column in columns) - GAP


def _table(columns: Sequence[Column], width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, GAP - 1, 0, 0), pad_edge=False, header_style="bold")
    for column, size in zip(columns, _widths(columns, width), strict=True):
        table.add_column(
            Text("\n".join(_lines(column.name, size))),
            width=size,
            no_wrap=not column.prose,
            overflow="fold",
            justify="left" if column.left else "right",
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """The least widths, and what is left of the line for prose, then for fewer lines of headings."""
    sizes = [column.least for column in columns]
    spare = max(0, width - _taken(columns))
    for i, column in enumerate(columns):
        if column.prose:  # of several, the first takes what it needs
            wide = min(column.most - sizes[i], spare)
            sizes[i], spare = sizes[i] + wide, spare - wide
    while True:
        tallest = max(len(_lines(column.name, size)) for column, size in zip(columns, sizes, strict=True))
        if tallest == 1:
            return sizes
        wider = [
            size if len(_lines(column.name, size)) < tallest else _with_fewer_lines(column.name, tallest)
            for column, size in zip(columns, sizes, strict=True)
        ]
        spare -= sum(wider) - sum(sizes)
        if spare < 0:
            return sizes
        sizes = wider


def _with_fewer_lines(name: str, lines: int) -> int:
    """The least width at which a heading has fewer lines."""
    return next(size for size in range(1, cell_len(name) + 1) if len(_lines(name, size)) < lines)


def _lines(name: str, size: int) -> list[str]:
    # Its longest word is no longer than the column; a width that cuts it would seem to take more lines than it has.
    return textwrap.wrap(name, max(size, *map(cell_len, name.split())), break_on_hyphens=False) if name else [""]


def at_words(text: Text, width: int) -> list[Text]:
    """The lines of a text that is broken between words. What is longer than a line, such as a path, is left whole.

    >>> [line.plain for line in at_words(Text("to be or not to be"), 8)]
    ['to be or', 'not to', 'be']
    """
    breaks, taken = list[int](), 0
    for word in re.finditer(r"\S+\s*", text.plain):
        if taken and taken + cell_len(word[0].rstrip()) > width:
            breaks.append(word.start())
            taken = 0
        taken += cell_len(word[0])
    lines = list(text.divide(breaks))
    for line in lines:
        line.rstrip()
    return lines


def command_lines(command: str, width: int) -> list[str]:
    """A command that can be copied, on as many lines as it takes, broken before options only.

    >>> for line in command_lines("  recert certify --model digits --data digits --require 'acr >= 0.4'", 40):
    ...     print(line.strip())
    recert certify --model digits \\
    --data digits \\
    --require 'acr >= 0.4'
    """
    indent = command[: len(command) - len(command.lstrip())]
    words = re.findall(r"(?:'[^']*'|\S)+", command)
    starts = [i for i, word in enumerate(words) if not i or word.startswith("-")]
    lines = [""]
    for start, end in itertools.pairwise([*starts, len(words)]):
        part = " ".join(words[start:end])
        if lines[-1] and cell_len(f"{lines[-1]} {part}") + len(" \\") > width:
            lines[-1] += " \\"
            lines.append(f"{indent}  {part}")
        else:
            lines[-1] = f"{lines[-1]} {part}" if lines[-1] else f"{indent}{part}"
    return lines


class Written(io.StringIO):
    """Text on its way to a stream. rich draws with plain characters where the stream's encoding has no others, and ends the process
    where the reader of a stream has left: so it writes here, and the text is printed with care."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._of_stream = getattr(stream, "encoding", None) or "utf-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._of_stream


def console_like(stream: TextIO, **options: Any) -> tuple[Console, Written]:
    """A console that writes as it would on the stream, and what it has written."""
    text = Written(stream)
    # Without emoji: a model mynets:factory:... is no picture of a factory.
    console = Console(
        file=text, force_terminal=True if stream.isatty() else None, emoji=False, highlight=False, **options
    )
    return console, text
