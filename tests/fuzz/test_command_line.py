"""Any value for any option: exit code 0 to 3 and output or one line of ours, never a traceback.

A sample of all pairs of option and value is tried; RECERT_FUZZ=all tries every one of them.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest
import typer

from recert.cli import app
from tests.cache.stores import make
from tests.test_cli import recert

SMALL = ["--model", "digits", "--data", "digits", "--count", "2"]
ONCE = ["--samples", "40", "--alpha", "0.05"]
CALLS: dict[tuple[str, ...], list[str]] = {
    ("certify",): [*SMALL, *ONCE, "--store", "new"],
    ("predict",): [*SMALL, "--samples", "30"],
    ("recertify",): [*SMALL, *ONCE, "--store", "run", "--approximation", "bf16-weights"],
    ("compare",): [*SMALL, "--store", "run", "--approximation", "bf16-weights", "--budgets", "30", "--baseline-budgets", "30", "--methods", "series"],
    ("select",): [*SMALL, "--store", "run", "--candidates", "bf16-weights,prune:0.1"],
    ("report",): ["result.parquet", "--out", "page.html"],
    ("train",): ["--model", "digits", "--data", "digits", "--epochs", "1", "--device", "cpu", "--out", "networks"],
    ("models",): [],
    ("approximations",): [],
    ("cache", "show"): ["run"],
    ("cache", "verify"): ["run"],
    ("cache", "export"): ["run", "x.csv"],
    ("cache", "merge"): ["merged", "run"],
    ("cache", "audit"): ["run", *SMALL],
    ("cache", "sign"): ["run", "--key", "key.pem"],
}  # fmt: skip
VALUES = [
    "", " ", "x", "-1", "0", "1", "2", "1.5", "nan", "inf", "-inf", "1e400", "1e-400", "9" * 30, "0x10", "٣", "\x00", "\udcff", "💥", "[/b]",
    "[bold", "../..", "/", ".", "/dev/null", "nowhere/at/all", "a:b", "a:b:c@d", ":", "@", "=", ",", ",,", "1,2", "1/2", "2/1", "%", "5%", "x" * 5000,
    "gaussian:0.5", "gaussian:", "gaussian:nan", "laplace:1", "digits", "digits:1e9", "digits@/dev/null", "folder:/", "cifar10:.", "os:system", "sys:exit",
    "prune:0.1", "prune:2", "int8:x", "acr", "accuracy:x", "acr>=0.1", "acr>=", "accuracy:0.5>=nan", "\n", "{}", "a'b\"c", "cuda:99", "meta", "mps", "x.csv", "x.parquet", "x.tsv",
]  # fmt: skip
LEFT_OUT = {("--engine", "ray"), ("--data", "folder:/"), ("--data", "/")}  # start a cluster, read the whole disk
LEFT_OUT |= {("--epochs", "9" * 30)}  # is what it says
LEFT_OUT |= {("--model", "os:system")}  # a factory is code that the user asks for
TRIED = 60


def options(command: tuple[str, ...]) -> list[str]:
    found: Any = typer.main.get_command(app)
    for word in command:
        found = found.commands[word]
    return [p.opts[0] for p in found.params if p.param_type_name == "option" and not p.is_flag]


def pairs() -> list[tuple[tuple[str, ...], str, str]]:
    every = [
        (command, option, value)
        for command, base in CALLS.items()
        for option in (
            *options(command),
            *(w for w in base if not w.startswith("-") and w in ("run", "merged", "x.csv", "result.parquet")),
        )
        for value in VALUES
        if (option, value) not in LEFT_OUT
    ]
    if os.environ.get("RECERT_FUZZ") == "all":
        return every
    return random.Random(0).sample(every, TRIED)


def with_value(base: list[str], option: str, value: str) -> list[str]:
    if option.startswith("--"):
        return [*base, f"{option}={value}"]
    return [value if word == option else word for word in base]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("fuzz")
    written = ["--store", str(where / "run"), "--out", str(where / "result.parquet")]
    assert recert("certify", *SMALL, *ONCE, *written).returncode == 0
    recert("cache", "keygen", str(where / "key.pem"))
    make(where / "another")
    return where


def judge(folder: Path, command: tuple[str, ...], option: str, value: str) -> str | None:
    """What is wrong with the answer, if anything."""
    run = recert(*command, *with_value(CALLS[command], option, value), cwd=folder)
    if "Traceback" in run.stderr:
        return " ".join(run.stderr.strip().splitlines()[-1:])
    if run.returncode not in (0, 1, 2, 3):
        return f"exit code {run.returncode}"
    if not (run.stdout + run.stderr).strip():
        return "nothing was said"
    if run.returncode == 1 and "error: " not in run.stderr and command != ("cache", "verify"):
        return "no error line"
    return None


def test_any_value_for_any_option(folder: Path) -> None:
    wrong = {}
    for command, option, value in pairs():
        found = judge(folder, command, option, value)
        if found:
            wrong[" ".join(command), option, value[:40]] = found
    assert wrong == {}
