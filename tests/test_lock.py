"""The locks: each has all that pyproject.toml asks for, says where nothing comes from, and pip takes no file that was changed."""

import doctest
import re
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import lock

ROOT = lock.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENTRY = re.compile(r"([a-z0-9-]+)==([\w.!+]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


LOCKS = {lock.DEMO: "demo", lock.DEV: "dev"}


def locked(file: str) -> dict[str, str]:
    by_version_only = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    return {name: version for name, version, _ in ENTRY.findall((ROOT / file).read_text())} | by_version_only


def requirements_of(extra: str) -> list[Requirement]:
    asked = [Requirement(text) for text in PROJECT["project"]["optional-dependencies"][extra]]
    inner = [
        each
        for mine in asked
        if mine.name == "recert"
        for name in sorted(mine.extras)
        for each in requirements_of(name)
    ]
    return [each for each in asked if each.name != "recert"] + inner


def everything_asked_for() -> list[tuple[str, Requirement]]:
    always = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    return [
        (file, asked) for file, extra in LOCKS.items() for asked in [*map(Requirement, always), *requirements_of(extra)]
    ]


@pytest.mark.parametrize(("file", "asked"), everything_asked_for(), ids=str)
def test_every_requirement_has_a_version(file: str, asked: Requirement) -> None:
    assert asked.specifier.contains(locked(file)[canonicalize_name(asked.name)])


@pytest.mark.parametrize("file", LOCKS)
def test_it_is_versions_and_hashes_and_nothing_else(file: str) -> None:
    text = (ROOT / file).read_text()
    assert text.startswith("# Python 3.")
    assert ENTRY.sub("", text).splitlines() == text.splitlines()[:2], "no address, no option, no entry without a hash"
    assert not {name for name in locked(file) if lock.BY_VERSION_ONLY.fullmatch(name)} - {"torch"}


def test_the_demo_runs_with_what_was_tested_and_needs_no_tools_of_the_tests() -> None:
    demo, dev = locked(lock.DEMO), locked(lock.DEV)
    assert demo.items() <= dev.items()
    assert not demo.keys() & {"pytest", "mypy", "ruff", "hypothesis", "playwright", "ray", "ipykernel"}


def test_each_command_of_the_readme_installs_its_lock() -> None:
    """As make itself says it would, for a folder without an environment."""

    def would_run(target: str) -> str:
        command = ["make", "--dry-run", "--always-make", "VENV=/nowhere", target]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout

    demo, tests = would_run("demo"), would_run("test")
    assert "-r requirements.lock" in demo
    assert "'.[demo]'" in demo
    assert "dev" not in demo
    assert "-r requirements-dev.lock" in tests
    assert "'.[dev]'" in tests


PAGE = """<a href="https://index/a/a-1.2-py3-none-any.whl#sha256={}">a</a> <a href='../a-1.2.tar.gz#sha256={}'>a</a>
<a href="https://index/a/a-1.20.tar.gz#sha256={}">a</a>""".format(*(digit * 64 for digit in "012"))


def test_the_hashes_of_all_files_of_a_release() -> None:
    chosen = lock.Chosen("a", "1.2", "a-1.2-py3-none-any.whl", "0" * 64)
    assert lock.hashes_of(chosen, PAGE) == ["0" * 64, "1" * 64]


@pytest.mark.parametrize("file", ["a-1.2-py3-none-any.whl", "a-1.2-py3-none-linux_x86_64.whl"])
def test_a_file_that_the_index_does_not_have(file: str) -> None:
    with pytest.raises(ValueError, match=f"expected the index to have {file} with sha256 {'f' * 64}, got (0000|None)"):
        lock.hashes_of(lock.Chosen("a", "1.2", file, "f" * 64), PAGE)


def test_pip_takes_no_file_that_was_changed(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1.2-py3-none-any.whl"

    def write(code: str) -> str:
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("a.py", code)
            archive.writestr("a-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1.2\n")
            archive.writestr("a-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr("a-1.2.dist-info/RECORD", "")
        return sha256(wheel.read_bytes()).hexdigest()

    def install() -> subprocess.CompletedProcess[str]:
        options = [
            "--isolated",
            "--dry-run",
            "--no-index",
            "--find-links",
            str(tmp_path),
            "--no-deps",
            "--require-hashes",
        ]
        command = [sys.executable, "-m", "pip", "install", *options, "-r", str(tmp_path / "lock")]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    good = write("x = 1")
    (tmp_path / "lock").write_text(lock.entry(lock.Chosen("a", "1.2", wheel.name, good), [good]))
    assert install().returncode == 0
    changed = write("x = 2")
    refused = install()
    assert refused.returncode != 0
    assert good in refused.stderr
    assert changed in refused.stderr


def test_on_another_platform_it_says_that_nothing_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    (tmp_path / "some.lock").write_text(f"# {lock.here()}\n")
    assert lock.main("holds", "some.lock") == 0
    (tmp_path / "some.lock").write_text("# Python 3.1, BeOS m68k\n")
    assert lock.main("holds", "some.lock") == 1
    assert "some.lock is for Python 3.1, BeOS m68k, this is Python 3" in capsys.readouterr().err


def test_the_examples_in_its_docstrings() -> None:
    assert doctest.testmod(lock).failed == 0
