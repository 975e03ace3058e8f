"""The command-line reference as Markdown, made from the commands themselves: python -m recert.cli.reference > docs/cli.md"""

import re
from collections.abc import Iterator
from typing import Any

import typer

INTRODUCTION = """# Command line

Made from the commands themselves by `python -m recert.cli.reference > docs/cli.md`; a test keeps it in step.

Data goes to stdout, progress and remarks to stderr. Exit codes: 0 done, 1 an error (one line; `--debug` shows the
traceback), 2 an option that is unknown or of the wrong type, 3 a `--require` that is not met, no winner of `select`, or a cache
that an audit does not find genuine, 130 interrupted (the store is kept, the same command continues).
Every command is also reached by `python -m recert`.
"""


def reference() -> str:
    """All commands with their options, defaults and examples."""
    from recert.cli import app

    return INTRODUCTION + "".join(_sections(typer.main.get_command(app), "recert"))


def _sections(command: Any, path: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _sections(inner, f"{path} {name}")
        return
    yield f"\n## `{path}`\n\n{_plain(command.help)}\n\n"
    if command.epilog:
        text = _plain(command.epilog)
        yield f"    {text.removeprefix('Example: ')}\n\n" if "\n" not in text else f"{text}\n\n"
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        yield "| option | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _row(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    default = "required" if parameter.required else parameter.default
    shown = "" if default in (None, (), []) else str(getattr(default, "value", default)).lower()
    return f"| {names} | {shown} | {_plain(getattr(parameter, 'help', ''))} |\n"


def _plain(text: str | None) -> str:
    """Help without rich's markup; bars are escaped, since they separate the columns of a table."""
    return re.sub(r"\[/?b\]", "`", text or "").replace("\\[", "[").replace("|", "\\|").strip()


if __name__ == "__main__":
    print(reference(), end="")
