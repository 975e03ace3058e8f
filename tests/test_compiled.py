"""Machine code that is kept on disk follows every file of its package, not only the one that defines a function."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import recert
from recert.compiled import folder_stamp

PROGRAM = """
from recert.bounds._paired_search import Votes, cost_and_slopes
print(cost_and_slopes(Votes(3, 10, 1.0), 0.2)[1], list(cost_and_slopes.stats.cache_hits.values()))
"""


def run(folder: Path, **more: str) -> tuple[float, bool]:
    """The slope of a cost, which calls `point_probability` of another file; and whether it came from the disk."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "PYTHONPATH": str(folder), **more}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (CANNOT_KEEP in done.stderr) == (more.get("HOME") == NOWHERE)
    slope, hits = done.stdout.split(" ", 1)
    return float(slope), "1" in hits


CANNOT_KEEP = "machine code can be kept nowhere"
NOWHERE = "/proc/nowhere"


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    """A folder with the package, beside whose source nothing can be written, whoever tries: a file is in the way."""
    copied(tmp_path)
    for folder in ("bounds", "noise"):
        (tmp_path / "recert" / folder / "__pycache__").write_text("")
    return tmp_path


def test_code_is_kept_in_the_folder_of_the_user_where_the_package_cannot_be_written(fixed: Path) -> None:
    home = fixed / "home"
    home.mkdir()
    away = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    assert [run(fixed, **away)[1] for _ in range(2)] == [False, True]
    assert any(home.rglob("*.nbc"))


def test_code_is_kept_where_the_variable_of_numba_says(fixed: Path) -> None:
    there = {"NUMBA_CACHE_DIR": str(fixed / "machine-code")}
    assert [run(fixed, **there)[1] for _ in range(2)] == [False, True]
    assert any((fixed / "machine-code").rglob("*.nbc"))


def test_without_any_place_for_code_it_is_compiled_with_a_warning(fixed: Path) -> None:
    nowhere = {"HOME": NOWHERE, "XDG_CACHE_HOME": f"{NOWHERE}/cache"}
    assert [run(fixed, **nowhere)[1] for _ in range(2)] == [False, False]


def copied(place: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "weights")
    shutil.copytree(Path(recert.__file__).parent, place / "recert", ignore=ignored)
    return place / "recert"


def test_an_edit_of_another_file_is_not_ignored(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    first, from_disk = run(tmp_path)
    assert not from_disk
    assert run(tmp_path) == (first, True)
    file = copy / "bounds" / "_binomial_tails.py"
    text, times = file.read_text(), file.stat()
    file.write_text(text.replace("return math.exp(exponent) *", "return 2.0 * math.exp(exponent) *"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed, from_disk = run(tmp_path)
    assert not from_disk
    assert changed > 1.5 * first


def test_the_stamp_follows_names_and_contents(tmp_path: Path) -> None:
    stamps = []
    for name, text in (("a.py", "x"), ("a.py", "y"), ("b.py", "y"), ("notes.txt", "z")):
        (tmp_path / name).write_text(text)
        folder_stamp.cache_clear()
        stamps.append(folder_stamp(tmp_path))
    assert len(set(stamps[:3])) == 3
    assert stamps[3] == stamps[2]
