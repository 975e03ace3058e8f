"""`python -m studies`: what it lists, what its help shows, and that any value for any option is answered in words."""

import contextlib
import io
import os
import random
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from studies import STUDIES
from studies.__main__ import app, list_of_studies, main
from tests.fuzz.test_command_line import VALUES

BASE = ["binomial", "--no-figures", "--out", "results"]
TRIED = 25


def call(*arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    before, where = sys.argv, Path.cwd()
    sys.argv = ["studies", *arguments]
    os.chdir(cwd or where)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as stop:
                code = int(stop.code or 0)
            except BaseException:
                traceback.print_exc()
                code = 1
    finally:
        sys.argv = before
        os.chdir(where)
    return code, out.getvalue(), err.getvalue()


def test_without_a_name_the_studies_are_listed() -> None:
    code, out, _ = call()
    assert code == 0
    assert all(f"\n{name} " in f"\n{out}" for name in STUDIES)
    assert max(map(len, list_of_studies(80).splitlines())) <= 80


def test_the_help_shows_examples_and_every_option() -> None:
    code, out, _ = call("--help")
    words = " ".join(out.split())
    assert code == 0
    assert "Example: python -m studies speedup" in words
    for option in ("--draw-only", "--no-draw", "--minutes", "--pack", "--allow-numerics", "--full", "--weights"):
        assert option in words


def test_an_unknown_study_is_one_line() -> None:
    code, out, err = call("nonsense")
    assert (code, out) == (1, "")
    assert err.startswith("error: expected one of the studies disparity, speedup, ")
    assert len(err.splitlines()) == 1


def pairs() -> Iterator[tuple[str, str]]:
    command = typer.main.get_command(app)
    options = [p.opts[0] for p in command.params if p.param_type_name == "option" and not getattr(p, "is_flag", False)]
    every = [(option, value) for option in (*options, "STUDY") for value in VALUES]
    yield from every if os.environ.get("RECERT_FUZZ") == "all" else random.Random(0).sample(every, TRIED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("fuzz")
    assert call(*BASE, cwd=where)[0] == 0
    return where


def test_any_value_for_any_option_is_answered_in_words(folder: Path) -> None:
    wrong = {}
    for option, value in pairs():
        arguments = [value, *BASE[1:]] if option == "STUDY" else [*BASE, f"{option}={value}"]
        code, out, err = call(*arguments, cwd=folder)
        if (
            "Traceback" in err
            or code not in (0, 1, 2)
            or not (out + err).strip()
            or (code == 1 and "error: " not in err)
        ):
            wrong[option, value[:40]] = (code, err[-200:])
    assert wrong == {}
