"""A wall clock that jumps. Durations are read from clocks that cannot, and no vote depends on any."""

import ast
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import recert
from recert.cache import writer
from tests.engines.networks import digits_inputs, digits_network
from tests.faults.test_processes import start
from tests.faults.undisturbed import COUNTS, OPTIONS, stored_votes, undisturbed_votes, votes

DAY = 86_400.0


def test_no_duration_is_taken_from_the_wall_clock() -> None:
    """Nothing in the package asks the wall clock for more than a date to print."""
    for file in Path(recert.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("time", "time"), f"{file}:{node.lineno}"


def test_a_clock_that_jumps_back_and_forth_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "VOTES_PER_PART", 3_000)
    true_time, jumps = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: true_time() + (-1) ** next(jumps) * DAY)
    recert.certify(digits_network(), digits_inputs(), **OPTIONS, **COUNTS, store=tmp_path)
    assert len(list(tmp_path.glob("part-*"))) == 4, "parts were closed by their size, not by a clock gone wild"
    assert stored_votes(tmp_path) == undisturbed_votes()


@pytest.mark.chaos
def test_a_real_clock_jumps_in_the_middle_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """libfaketime moves the wall clock of the process a year back and forth while it draws; the kernel's stays."""
    from tests.faults.certify_program import COUNTS as LONG

    library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    if library is None or shutil.which("faketime") is None:
        pytest.skip("libfaketime is not installed (apt-get install faketime)")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    monkeypatch.setenv("FAKETIME_FORCE_MONOTONIC_FIX", "0")  # else waits for a lock last a second
    shown = [sys.executable, "-c", "import time; print(time.time())"]
    clock.write_text("-365d")
    assert float(subprocess.run(shown, capture_output=True, text=True, check=True).stdout) < time.time() - 300 * DAY
    clock.write_text("+0")
    store, seen = tmp_path / "store", []
    run = start(store)
    assert run.stdout is not None
    for line in run.stdout:
        seen.append((float(line.split()[2]) - time.time()) / DAY)
        clock.write_text(["-365d", "+365d"][len(seen) // 300 % 2])
    _, errors = run.communicate()
    assert run.returncode == 0, errors
    assert min(seen) < -300, "the clock of the process did not go back"
    assert max(seen) > 300, "the clock of the process did not go forth"
    for name in ("LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE"):
        monkeypatch.delenv(name)
    expected = recert.certify(digits_network(), digits_inputs(), **OPTIONS, **LONG)
    assert stored_votes(store) == votes(expected)
