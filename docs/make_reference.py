"""Makes the reference pages from docstrings and commands.

    python docs/make_reference.py > docs/api.md
    python docs/make_reference.py cli > docs/cli.md

tests/test_docs.py checks that both pages are up to date.
"""

import ast
import dataclasses
import enum
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import typer

import recert
from recert.cli.help import default_of, takes_nothing

WIDTH = 110
MOST_FIELDS = 12  # a result has more: columns, which nobody passes by hand

API_INTRODUCTION = """# Python reference

Made from docstrings by `python docs/make_reference.py > docs/api.md`; a test checks that it is up to date. All names are those of `recert`:
`import recert`, then `recert.certify(...)`. Other modules have names that may change.
"""

CLI_INTRODUCTION = """# Command line

Made from the commands themselves by `python docs/make_reference.py cli > docs/cli.md`; a test checks that it is up to date.

Data goes to stdout, progress and remarks to stderr. Exit codes: 0 done, 1 an error (one line; `--debug` shows the
traceback), 2 an option that is unknown or of the wrong type, 3 a `--require` that is not met, no winner of `select`, or a cache
that an audit does not find genuine, 130 interrupted (the store is kept, the same command continues).
Every command is also reached by `python -m recert`.
"""

GROUPS = {
    "What to call": (
        "certify", "recertify", "certify_by_proxy", "predict", "select", "compare", "audit", "expected_gain", "train", "approximate", "prepare", "draw_votes", "bill",
        "candidates", "save_model", "load_model", "bundle", "check",
    ),
    "What to pass": ("Execution", "Calibration", "Recipe", "StoredVotes", "CachingSource", "Normalize", "Smoothed", "Remote", "Progress"),
    "What comes back": ("Cache", "Certificates", "Certificate", "TrainedModel", "Epoch", "ExpectedGain", "Outcome", "Numerics", "Bill", "RecertError"),
    "Noises": ("Gaussian", "Laplace", "Uniform", "Splitting", "Noise", "Stream", "parse_noise", "register_noise"),
    "Methods of re-certification": ("Irs", "Scratch", "Method", "Strategy", "register_method"),
    "For extensions": ("VoteSource", "Work", "VoteChunk", "open_source", "register_engine", "register_approximation"),
    "Modules": ("bounds", "errors", "metrics"),
}  # fmt: skip


def api() -> str:
    """Every public name, with its signature and docstring. A name that no group has comes under "Other"."""
    public = set(recert.__all__) - {"__version__"}
    grouped = {name for names in GROUPS.values() for name in names}
    sections = {**GROUPS, "Other": tuple(sorted(public - grouped))}
    parts = [API_INTRODUCTION]
    for heading, names in sections.items():
        known = [name for name in names if name in public]
        if known:
            parts += [f"\n## {heading}\n", *(_entry(name) for name in known)]
    return "".join(parts)


def _entry(name: str) -> str:
    thing = getattr(recert, name)
    if inspect.ismodule(thing):
        names = getattr(thing, "__all__", None) or _own_names(thing)
        return f"\n### `recert.{name}`\n\n{_doc(thing)}\n" + _list(_member_of_module(thing, each) for each in names)
    if inspect.isclass(thing):
        return f"\n### `{name}`\n\n{_block(_class_signature(thing))}{_doc(thing)}\n" + _list(_members(thing))
    return f"\n### `{name}`\n\n{_block(_signature(name, thing))}{_doc(thing)}\n"


def _own_names(module: types.ModuleType) -> list[str]:
    """Public functions and classes that a module defines itself, in its order."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and callable(value)
        and (inspect.isclass(value) or inspect.isfunction(value))
    ]


def _list(lines: Iterable[str]) -> str:
    shown = "".join(f"- {line}\n" for line in lines)
    return f"\n{shown}" if shown else ""


def _line(name: str, thing: Any) -> str:
    """A name and the docstring up to its first blank line, on one line."""
    text = " ".join(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].split())
    return f"`{name}`: {text}" if text else f"`{name}`"


def _member_of_module(module: types.ModuleType, name: str) -> str:
    value = getattr(module, name)
    if inspect.isclass(value):
        return _line(name, value)
    return _line(_short_signature(name, value), value) if inspect.isfunction(value) else f"`{name}` = {value!r}"


def _members(thing: type) -> Iterator[str]:
    """Members of an enumeration, properties and methods that a class itself has."""
    if issubclass(thing, enum.Enum):
        yield from (f"`{thing.__name__}.{member.name}` = {member.value!r}" for member in thing)
    for name, value in vars(thing).items():
        if name.startswith("_"):
            continue
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if isinstance(plain, property | cached_property):
            yield _line(name, plain)
        elif inspect.isfunction(plain):
            yield _line(_short_signature(name, plain, skip_first=not isinstance(value, staticmethod)), plain)


def _class_signature(thing: type) -> str:
    """How an instance is made; nothing for what nobody makes by hand."""
    if (
        issubclass(thing, enum.Enum | BaseException)
        or inspect.isabstract(thing)
        or getattr(thing, "_is_protocol", False)
    ):
        return ""
    if not dataclasses.is_dataclass(thing):
        return _signature(thing.__name__, thing.__init__, skip_first=True) if "__init__" in vars(thing) else ""
    shown = [ast.unparse(node) for node in _definition(thing).body if _is_field(node)]
    return _call(thing.__name__, shown, "") if len(shown) <= MOST_FIELDS else ""


def _is_field(node: ast.stmt) -> bool:
    """Whether a line of a dataclass is a field that one passes."""
    if not isinstance(node, ast.AnnAssign):
        return False
    return "ClassVar" not in ast.unparse(node.annotation) and "init=False" not in ast.unparse(node.value or node.target)


def _signature(name: str, function: Any, *, skip_first: bool = False) -> str:
    """A call as the source has it, with types."""
    definition = _definition(function)
    returned = "" if definition.returns is None or name[0].isupper() else f" -> {_unquoted(definition.returns)}"
    return _call(name, _parameters(definition.args, skip_first, typed=True), returned)


def _short_signature(name: str, function: Any, *, skip_first: bool = False) -> str:
    """The same in one line, without types."""
    return f"{name}({', '.join(_parameters(_definition(function).args, skip_first, typed=False))})"


def _call(name: str, parameters: list[str], returned: str) -> str:
    line = f"{name}({', '.join(parameters)}){returned}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in parameters) + f"){returned}"


def _definition(thing: Any) -> Any:
    """The source of a function or class. What it says is the same with all versions of other packages."""
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _parameters(arguments: ast.arguments, skip_first: bool, *, typed: bool) -> list[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    shown = [_parameter(each, default, typed) for each, default in zip(plain, defaults, strict=True)][skip_first:]
    if arguments.vararg is not None:
        shown.append(f"*{_parameter(arguments.vararg, None, typed)}")
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += [
        _parameter(each, value, typed) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return shown + ([] if arguments.kwarg is None else [f"**{_parameter(arguments.kwarg, None, typed)}"])


def _parameter(argument: ast.arg, default: ast.expr | None, typed: bool) -> str:
    type_ = f": {_unquoted(argument.annotation)}" if typed and argument.annotation is not None else ""
    between = " = " if type_ else "="
    return f"{argument.arg}{type_}" + ("" if default is None else f"{between}{ast.unparse(default)}")


def _unquoted(annotation: ast.expr) -> str:
    return (
        annotation.value
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
        else ast.unparse(annotation)
    )


def _block(signature: str) -> str:
    return f"```python\n{signature}\n```\n\n" if signature else ""


def _doc(thing: Any) -> str:
    """The docstring as Markdown; examples of a session become code."""
    text = inspect.cleandoc(thing.__doc__ or "")
    if dataclasses.is_dataclass(thing) and text.startswith(f"{getattr(thing, '__name__', '')}("):
        text = ""  # made by dataclass itself
    return re.sub(r"(?m)^(>>> (?:.|\n)*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text)


def cli() -> str:
    """All commands with their options, defaults and examples."""
    from recert.cli import app

    return CLI_INTRODUCTION + "".join(_commands(typer.main.get_command(app), "recert"))


def _commands(command: Any, path: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _commands(inner, f"{path} {name}")
        return
    yield f"\n## `{path}`\n\n{_without_markup(command.help)}\n\n"
    if command.epilog:
        text = _without_markup(command.epilog)
        yield f"    {text.removeprefix('Example: ')}\n\n" if "\n" not in text else f"{text}\n\n"
    rows = [_option(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        yield "| option | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    if parameter.param_type_name != "argument" and not takes_nothing(parameter):
        names += f" {parameter.metavar}".replace("|", "\\|")
    default = "required" if parameter.required else default_of(parameter)
    return f"| {names} | {default} | {_without_markup(getattr(parameter, 'help', ''))} |\n"


def _without_markup(text: str | None) -> str:
    """Help without rich's markup."""
    return re.sub(r"\[/?b\]", "`", text or "").replace("\\[", "[").replace("|", "\\|").strip()


if __name__ == "__main__":
    print(cli() if sys.argv[1:] == ["cli"] else api(), end="")
