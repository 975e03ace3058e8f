"""`--help`: option names are whole at any width, and options are in panels by what they are for."""

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer import Typer
from typer.core import TyperCommand, TyperGroup

from recert.cli.tables import command_lines, console_like

PANELS = {
    "Essentials": (),
    "Statistics": (
        "alpha", "seed", "selection_samples", "certificate", "at", "plan", "looks", "method", "methods", "family",
        "reuse_threshold", "tolerate", "detect", "baseline_budgets",
    ),
    "Speed": (
        "device", "precision", "channels_last", "compile", "compile_auto", "runtime", "batch_size", "proxy",
        "proxy_transfer", "keep_votes", "votes",
    ),
    "Cluster": ("shard", "engine", "workers", "ray_address"),
    "Trust": ("trust", "identity", "classes", "same_model", "allow_numerics", "public_key"),
    "Output": (
        "format", "out", "require", "radii", "save", "picture", "figures", "all_rows", "dry_run", "debug", "help", "version",
        "install_completion", "show_completion",
    ),
}  # fmt: skip
"""Which options are in which panel. An option has one name everywhere, so it is in one panel everywhere; the others are essential."""
WIDEST = 110
"""Longer lines are hard to read, however wide the terminal is."""


class _Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_of(self, ctx))


class _Group(TyperGroup):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_of(self, ctx))


class App(Typer):
    """An application whose commands all have this help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, no_args_is_help=True, **options)

    def command(self, *names: Any, **options: Any) -> Any:
        return super().command(*names, cls=_Command, **options)


def help_of(command: Any, ctx: Any) -> str:
    """The help of a command as text, as wide as the terminal."""
    console, text = console_like(sys.stdout)
    console.width = min(console.width, WIDEST)
    usage = " ".join(("Usage:", ctx.command_path, *_usage(command)))
    parts: list[RenderableType] = [Text(usage, style="bold"), "", *_paragraphs(command.help or "")]
    if hasattr(command, "commands"):
        parts.append(_panel("Commands", [_about(inner) for inner in command.commands.values() if not inner.hidden]))
    parts += [_panel(name, rows) for name, rows in _panels(command, ctx).items()]
    console.print(Group(*parts))
    if command.epilog:
        intro, _, example = command.epilog.partition(": ")
        console.print(Text(f"{intro}:"))
        for line in command_lines(f"  {example}", console.width):
            console.print(Text(line, style="bold"), soft_wrap=True)
    return text.getvalue()


def _usage(command: Any) -> Iterator[str]:
    yield "[OPTIONS]"
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = _names(parameter).plain
            yield name if parameter.required or name.startswith("[") else f"[{name}]"
    if hasattr(command, "commands"):
        yield "COMMAND [ARGS]..."


def _paragraphs(text: str) -> list[RenderableType]:
    paragraphs = [" ".join(each.split()) for each in inspect.cleandoc(text).partition("\f")[0].split("\n\n")]
    return [Padding(Text.from_markup(each), (0, 0, 1, 0)) for each in paragraphs if each]


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[Text, Text]]]:
    """Rows of names and meanings, by panel. Panels without a row are left out."""
    panels: dict[str, list[tuple[Text, Text]]] = {name: [] for name in PANELS}
    for parameter in command.get_params(ctx):
        if not getattr(parameter, "hidden", False):
            panels.setdefault(panel_of(parameter), []).append((_names(parameter), _meaning(parameter)))
    return {name: rows for name, rows in panels.items() if rows}


def panel_of(parameter: Any) -> str:
    """The panel that the option asks for, or the one that options of its name are in."""
    asked = getattr(parameter, "rich_help_panel", None)
    known = (name for name, options in PANELS.items() if parameter.name in options)
    return asked or next(known, "Essentials")


def _names(parameter: Any) -> Text:
    """`--model, -m MODEL`; what switches it off is on a line of its own."""
    if parameter.param_type_name == "argument":
        several = "..." if parameter.nargs != 1 else ""
        return Text(f"{parameter.metavar or parameter.name.upper()}{several}", style="bold cyan")
    names = Text(", ".join(sorted(parameter.opts, key=len, reverse=True)), style="bold cyan")
    if not takes_nothing(parameter):
        names.append(f" {parameter.metavar or 'VALUE'}", style="not bold yellow")
    return names.append("".join(f",\n{name}" for name in parameter.secondary_opts))


def takes_nothing(parameter: Any) -> bool:
    """Whether an option is a flag, or counts, as --help does."""
    return bool(getattr(parameter, "is_flag", False) or getattr(parameter, "count", False))


def _meaning(parameter: Any) -> Text:
    text = Text.from_markup(getattr(parameter, "help", None) or "")
    if parameter.required:
        return text.append(" [required]", style="red")
    default = default_of(parameter)
    return text.append(f" [default: {default}]", style="dim") if default else text


def default_of(parameter: Any) -> str:
    """What is used if the option is not given, as people say it; empty where there is nothing to say, as for a flag."""
    shown, default = getattr(parameter, "show_default", None), parameter.default
    if isinstance(shown, str):
        return shown
    if default is None or default in ((), []) or callable(default):
        return ""
    if takes_nothing(parameter):
        # Of a flag with one name it is clear; of two names one is the default.
        names = (*parameter.opts[:1], *parameter.secondary_opts[:1])
        return names[0 if default else 1].lstrip("-") if len(names) > 1 else ""
    return str(getattr(default, "value", default))


def _about(command: Any) -> tuple[Text, Text]:
    text = inspect.cleandoc(command.short_help or command.help or "").partition("\n\n")[0]
    return Text(command.name, style="bold cyan"), Text.from_markup(" ".join(text.split()))


def _panel(title: str, rows: list[tuple[Text, Text]]) -> Panel:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    # Names are never cut: what they mean has the rest of the line.
    table.add_column(no_wrap=True, min_width=max(max(map(len, names.plain.split("\n"))) for names, _ in rows))
    table.add_column(ratio=1)
    for row in rows:
        table.add_row(*row)
    return Panel(table, title=f"[bold]{title}[/bold]", title_align="left", border_style="dim")
