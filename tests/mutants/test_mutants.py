"""The runner itself: what it changes, in which process, and which survivors it accepts."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants import explained
from tests.mutants.changes import changes_of
from tests.mutants.forks import CRASHED, run_forked
from tests.mutants.live import Live, NotComputable
from tests.mutants.report import Found, keys_in

TOY = '''"""A module to mutate."""
from functools import lru_cache

SHARE = 0.5
ROOT = 1 / (2 - 1)


@lru_cache
def share(alpha: float, sides: int = 2) -> float:
    """Not 3 < 4."""
    if sides < 1:
        raise ValueError(f"expected {1 + 1}")
    return max(alpha / 2, SHARE)


class Box:
    @property
    def size(self) -> int:
        return sum(self._one(i) for i in range(3))

    def _one(self, i: int) -> int:
        return i if i and i != 7 else 0

    def __repr__(self) -> str:
        return str(1 + 1)
'''


def texts(source: str) -> list[str]:
    return [change.text for change in changes_of(source, "toy.py")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b <= c", {"a <= b <= c", "a < b < c"}),
        ("return alpha / 2", {"alpha * 2", "alpha / 3", "alpha"}),
        ("return a + 0.25", {"a - 0.25", "a + 0.5"}),
        ("return a ** b & c", {"a * b & c", "a ** b | c"}),
        ("return not a", {"a"}),
        ("return x if c else y", {"x", "y"}),
        ("return task.selection", {"task.estimation"}),
        ("return np.minimum(floor(a), b)", {"np.maximum(floor(a), b)"}),  # there is no ceil in this module
        ("return any(a)", {"all(a)"}),
        ("return a[:k]", {"a[:k + 1]"}),
    ],
)
def test_operators(line: str, expected: set[str]) -> None:
    old = line.removeprefix("return ")
    assert set(texts(f"def f():\n    {line}")) == {f"`return {old}` -> `return {new}`" for new in expected}


def test_statements() -> None:
    found = texts("def f():\n    if c:\n        return\n    total += one\n    book(total)\n    raise ValueError(1 + 1)")
    assert found == [
        "`if c:` -> `if False:`",
        "`if c:` -> `if True:`",
        "`total += one` -> `total -= one`",
        "`book(total)` -> `pass`",
    ]


def test_names_do_not_depend_on_lines_and_tell_twins_apart() -> None:
    source = "def f(a):\n    g(a > 1)\n    return g(a > 1)"
    keys = [change.key for change in changes_of(source, "toy.py")]
    assert len(set(keys)) == len(keys)
    assert keys == [change.key for change in changes_of("\n\n" + source, "toy.py")]
    assert texts("def f():\n    return [b != c for b in x], [b != c for b in y + z if w]")[-1] != "`b != c` -> `b == c`"


def test_words_annotations_and_defaults_are_left_alone() -> None:
    where = {(change.where, change.line) for change in changes_of(TOY, "toy.py")}
    assert where == {("SHARE", 4), ("ROOT", 5), ("share", 11), ("share", 13), ("Box.size", 19), ("Box._one", 22)}


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    spec = importlib.util.spec_from_file_location("toy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["toy"]


def outcome(toy: ModuleType, text: str, tmp_path: Path) -> int:
    """In a child with the mutant: 1 if the toy behaves differently."""
    live = Live(tmp_path, "toy")
    change = next(change for change in changes_of(TOY, "toy.py") if text in change.text)
    assert toy.share(0.1) == 0.5  # is kept by lru_cache in the parent

    def work(_: str) -> int:
        live.apply(change)
        return int((toy.share(0.1), toy.Box().size) != (0.5, 3))

    [(_, code)] = run_forked(["only"], work, lambda _: tmp_path / "log.txt", 2)
    assert (toy.share(0.1), toy.Box().size) == (0.5, 3)
    return code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("-> `return min(", 1),
        ("-> `return max(alpha * 2", 0),
        ("-> `SHARE = 1.0`", 1),
        ("range(4)", 1),
        ("i and i == 7", 1),
        ("i != 8", 0),
    ],
)
def test_a_live_function_is_changed_in_the_child_only(toy: ModuleType, tmp_path: Path, text: str, code: int) -> None:
    assert outcome(toy, text, tmp_path) == code


def test_a_constant_that_cannot_be_computed(toy: ModuleType, tmp_path: Path) -> None:
    change = next(change for change in changes_of(TOY, "toy.py") if "(2 - 2)" in change.text)
    with pytest.raises(NotComputable, match="ZeroDivisionError"):
        Live(tmp_path, "toy").apply(change)


def test_children_report_how_they_end(tmp_path: Path) -> None:
    def work(job: str) -> int:
        if job == "raise":
            raise RuntimeError
        if job == "signal":
            os.kill(os.getpid(), 9)
        return 7

    codes = dict(run_forked(["raise", "signal", "return"], work, lambda job: tmp_path / job, 2))
    assert codes == {"raise": CRASHED, "signal": -9, "return": 7}


def test_explanations(tmp_path: Path) -> None:
    file = tmp_path / "explained.txt"
    file.write_text("# for people\n\na.py f: `x < y` -> `x <= y` #2  # never equal\nb.py g: `1` -> `2`  # gone\n")
    reasons = explained.read(tmp_path)
    assert reasons == {"a.py f: `x < y` -> `x <= y` #2": "never equal", "b.py g: `1` -> `2`": "gone"}
    mutants = {"a.py f: `x < y` -> `x <= y` #2": 3, "a.py f: `x < y` -> `x <= y`": 2}
    assert explained.stale(reasons, mutants) == ["b.py g: `1` -> `2`"]
    found = Found(dict.fromkeys(mutants, "survived"), mutants, reasons)
    assert found.unexplained == ["a.py f: `x < y` -> `x <= y`"]
    found.write(tmp_path / "report")
    assert sorted(keys_in(tmp_path / "report")) == sorted(mutants)
    whole = {"a.py f:*": "only guides", "c.py *": "gone"}
    assert explained.for_each(whole, mutants) == dict.fromkeys(mutants, "only guides")
    assert explained.stale(whole, mutants) == ["c.py *"]
    file.write_text("a.py f: `x < y` -> `x <= y`\n")
    with pytest.raises(ValueError, match="no reason"):
        explained.read(tmp_path)
