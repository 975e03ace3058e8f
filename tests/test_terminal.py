"""What a person sees in a terminal of 80 columns: nothing that matters is cut, in the help and in the tables of every command."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text

from recert.choosing.summary_text import text_picture
from recert.cli import app
from recert.cli.demo import CHANGES
from recert.cli.help import PANELS, panel_of, takes_nothing
from recert.cli.tables import Column, at_words, print_columns
from tests.choosing.test_result import CHOSEN
from tests.test_cli import Finished, recert

WIDTH = 80
SCREEN = 50
DIGITS = ["--model", "digits", "--data", "digits", "--count", "6"]


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, and every group of commands, with the words that call it."""
    command = typer.main.get_command(app) if command is None else command
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


COMMANDS = dict(commands())


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


# ---- help ----


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_cuts_no_word(path: tuple[str, ...]) -> None:
    command, text = COMMANDS[path], recert(*path, "--help").stdout
    table, _, _ = text.partition("Example:\n")
    assert all(len(line) <= WIDTH for line in table.splitlines())
    assert "…" not in text
    words = set(re.sub(r"[│╭╮╰╯─]", " ", text).split())
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            if name.startswith("-"):
                assert {name, f"{name},"} & words, name
        assert set(Text.from_markup(parameter.help or "").plain.split()) <= words
    for name in getattr(command, "commands", {}):
        assert name in words


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_options_have_a_placeholder_and_flags_have_none(path: tuple[str, ...]) -> None:
    lines = [line[2:-1] for line in recert(*path, "--help").stdout.splitlines() if line.startswith("│ -")]
    for option in COMMANDS[path].params:
        if option.param_type_name == "option":
            (line,) = (line for line in lines if re.match(rf"{option.opts[0]}\b(?!-)", line))
            assert " VALUE" not in line, "say what it takes: typer.Option(metavar=...)"
            assert bool(re.match(r"-[-\w]+(, -[-\w]+)* [A-Z][A-Z/,.]*  ", line)) != takes_nothing(option), line


def test_panels_are_of_options_that_there_are() -> None:
    known = {parameter.name for command in COMMANDS.values() for parameter in command.params} | {"help"}
    assert known >= {name for options in PANELS.values() for name in options}
    text = recert("certify", "--help").stdout
    places = [text.index(f" {name} ─") for name in PANELS]
    assert places == sorted(places)
    assert {panel_of(p) for p in COMMANDS["certify",].params} == set(PANELS)


def test_help_of_certify_fits_two_screens() -> None:
    assert len(recert("certify", "--help").stdout.splitlines()) <= 2 * SCREEN


@pytest.mark.parametrize("arguments", [["certify", "--help"], ["models"], ["cache", "show", "{cache}"]])
def test_a_terminal_without_unicode_is_drawn_for_in_plain_characters(arguments: list[str], folder: Path) -> None:
    call = [sys.executable, "-m", "recert", *(word.format(cache=folder / "cache") for word in arguments)]
    run = subprocess.run(call, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.decode("ascii").splitlines()) > 5


# ---- tables ----


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache, and a bundle of what was made from it."""
    where = tmp_path_factory.mktemp("terminal")
    store, model, result = str(where / "cache"), str(where / "int8.onnx"), str(where / "int8.parquet")
    for call in (
        ["certify", *DIGITS, "--samples", "400", "--store", store],
        ["compress", "--model", "digits", "-a", "int8", "--data", "digits", "-o", model],
        ["recertify", "--model", model, *DIGITS[2:], "--store", store, "--samples", "60", "-o", result],
        ["bundle", result, "--model", model, "--cache", store, "-o", str(where / "int8.recert")],
    ):
        run = recert(*call)
        assert run.returncode == 0, run.stderr
    return where


def calls(folder: Path) -> dict[tuple[str, ...], list[str]]:
    """Arguments for every command that prints a table."""
    cache = ["--store", str(folder / "cache")]
    return {
        ("certify",): [*DIGITS, *cache, "--samples", "400"],
        ("predict",): [*DIGITS, "--samples", "50"],
        ("recertify",): [*DIGITS, *cache, "--samples", "60", "-a", "prune:0.3+int8[!conv1]"],
        ("compare",): [*DIGITS, *cache, "-a", "prune:0.3+int8", "--budgets", "10%", "--baseline-budgets", "50%"],
        ("select",): [
            *DIGITS,
            *cache,
            "-c",
            "prune:0.35,prune:0.3+bf16-weights",
            "--tolerance",
            "1",
            "--samples",
            "60",
        ],
        ("compress",): ["--model", "digits", "-a", "prune:0.3+int8", "--data", "digits", "-o", str(folder / "x.onnx")],
        ("check",): [str(folder / "int8.recert")],
        ("train",): ["--model", "digits", "--data", "digits", "--epochs", "1", "--out", str(folder / "networks")],
        ("models",): [],
        ("approximations",): [],
        ("cache", "show"): [str(folder / "cache")],
        ("cache", "audit"): [str(folder / "cache"), *DIGITS],
    }


PRINT_TABLES = [path for path, command in COMMANDS.items() if "format" in {p.name for p in command.params}]


def first_column(path: tuple[str, ...], run: Finished) -> set[str]:
    """What the first column must have, from the same as JSON."""
    found = json.loads(run.stdout)
    if path == ("select",):
        return {entry["name"] for entry in found["candidates"]}
    if path == ("check",):
        return {found["sentence"].split()[0]}
    if path == ("cache", "show"):
        return {name.replace("_", " ") for name, value in found[0].items() if not isinstance(value, list)}
    if path == ("cache", "audit"):
        return {"inputs with wrong votes", "tolerated share of wrong votes"}
    return {next(iter(row.values())) for row in found}


@pytest.mark.parametrize("path", PRINT_TABLES, ids=" ".join)
def test_tables_cut_no_name_and_no_number(path: tuple[str, ...], folder: Path) -> None:
    run = recert(*path, *calls(folder)[path])
    assert run.returncode == 0, run.stderr
    assert "…" not in run.stdout
    # A sentence on the first line is broken at words in a terminal only.
    begins_with_sentence = path in (("check",), ("cache", "audit"))
    assert all(len(line) <= WIDTH for line in run.stdout.splitlines()[begins_with_sentence:])
    names = first_column(path, recert(*path, *calls(folder)[path], "-f", "json"))
    assert names <= {line[: len(name)] for name in names for line in run.stdout.splitlines()}


def test_the_table_of_the_demo_is_whole(folder: Path) -> None:
    run = recert("demo", "--store", str(folder / "demo"), "--samples", "1000", "--count", "4")
    assert run.returncode == 0, run.stderr
    assert all(len(line) <= WIDTH for line in run.stdout.splitlines())
    assert [line.split()[0] for line in run.stdout.splitlines()[-len(CHANGES) :]] == list(CHANGES)
    assert "lack of width" not in run.stderr


def test_unimportant_columns_go_first_and_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [
        Column("model", ("digits", "int8")),
        *(Column(name, ("0.5", "0.25")) for name in ("ACR", "seconds", "b")),
    ]
    monkeypatch.setenv("COLUMNS", "20")
    assert print_columns(columns, least=("seconds",)) == ["seconds"]
    assert capsys.readouterr().out.split() == [
        "model",
        "ACR",
        "b",
        "─" * 18,
        "digits",
        "0.5",
        "0.5",
        "int8",
        "0.25",
        "0.25",
    ]
    monkeypatch.setenv("COLUMNS", "7")
    assert print_columns(columns, least=("seconds",)) == ["seconds", "b", "ACR"]
    assert capsys.readouterr().out.split() == ["model", "──────", "digits", "int8"]


def test_a_long_name_leaves_room_for_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    name = "runs/" + "a-very-long-folder/" * 6 + "network.safetensors"
    assert print_columns([Column("model", (name,)), Column("ACR", ("0.5",)), Column("what", ("",))]) == []
    out = capsys.readouterr().out
    assert all(len(line) <= WIDTH for line in out.splitlines())
    assert "".join(out.split()[4:]).replace("0.5", "", 1) == name


def test_prose_takes_the_rest_of_the_line_and_breaks_at_words(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a network of your own, with weights in a file, which is code, and is run by design, and a " + 40 * "x"
    print_columns([Column("form", ("FILE",)), Column("meaning", (text,), prose=True)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "".join(line[6:].replace(" ", "") for line in lines[2:]) == text.replace(" ", "")
    assert {word for line in lines[2:] for word in line[6:].split()} >= set(text.split()[:-1])


@pytest.mark.parametrize(("width", "heading"), [(16, 4), (18, 3), (26, 2), (80, 1)])
def test_headings_take_one_line_where_there_is_room(
    width: int, heading: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of "passes per input, mean" beside six characters: least 6; passes per / input, mean; the whole is 22."""
    monkeypatch.setenv("COLUMNS", str(width))
    print_columns([Column("change", ("int8",)), Column("passes per input, mean", ("505",))])
    assert len(capsys.readouterr().out.splitlines()) == heading + 2


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_picture_of_a_choice_fits(width: int) -> None:
    entries = tuple(replace(entry, name=f"{entry.name}, prune:0.35+int8") for entry in CHOSEN.entries)
    _, *lines = text_picture(replace(CHOSEN, entries=entries), width).splitlines()
    assert max(map(len, lines)) <= width
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize("width", range(3, 60))
def test_remarks_break_between_words(width: int) -> None:
    text = "wrote runs/a-long-path/certificates.parquet and its card"
    lines = [line.plain for line in at_words(Text(text), width)]
    assert " ".join(lines) == text
    assert all(len(line) <= width or " " not in line for line in lines)
