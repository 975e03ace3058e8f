"""Whole processes that are killed, interrupted, or meet at one store. (Killed at random moments: tests/cache/test_kill.py.)"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import recert
from tests.engines.networks import digits_inputs, digits_network
from tests.faults.certify_program import COUNTS
from tests.faults.undisturbed import OPTIONS, stored_votes, votes

ROOT = Path(__file__).parent.parent.parent


def hear_interrupts() -> None:
    """A shell lets commands in its background ignore Ctrl-C, and they hand that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(store: Path, engine: str = "local") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.certify_program", str(store), engine],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}, preexec_fn=hear_interrupts,
    )  # fmt: skip


def wait_for_parts(store: Path, run: subprocess.Popen[str]) -> None:
    while not list(store.glob("part-*")):
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, bytes]:
    return votes(recert.certify(digits_network(), digits_inputs(), **OPTIONS, **COUNTS))


def left_to_draw(run: subprocess.Popen[str]) -> int:
    """Forward passes that a run which is now over had to do."""
    lines, errors = run.communicate()
    assert run.returncode == 0, errors
    return int(lines.split()[1])


def test_two_processes_on_one_store(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """The second refuses in words while the first is at work, and nothing is lost."""
    first = start(tmp_path)
    wait_for_parts(tmp_path, first)
    first.send_signal(signal.SIGSTOP)  # so that it is still at work when the second has started
    second = start(tmp_path)
    _, errors = second.communicate()
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 1
    assert "StoreBusy: another process is writing to" in errors
    assert left_to_draw(first) == 5 * 30_100
    assert stored_votes(tmp_path) == undisturbed


@pytest.mark.chaos
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_of_ray_workers_dies_and_its_run_is_resumed(
    tmp_path: Path, undisturbed: dict[str, bytes], how: signal.Signals
) -> None:
    before = ray_workers()
    driver = start(tmp_path, "ray")
    wait_for_parts(tmp_path, driver)
    driver.send_signal(how)
    driver.communicate()
    assert driver.returncode in (-how, 1), "the run was over before it was stopped"
    for _ in range(600):
        if ray_workers() <= before:
            break
        time.sleep(0.1)
    assert ray_workers() <= before, "workers outlive their driver"
    kept = sum(1 for _ in tmp_path.glob("part-*"))
    assert kept >= 1
    assert left_to_draw(start(tmp_path, "ray")) < 5 * 30_100
    assert stored_votes(tmp_path) == undisturbed


def ray_workers() -> set[str]:
    """Processes of Ray workers on this machine."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"ray::Worker"):
            found.add(process.name)
    return found


@pytest.mark.chaos
def test_ctrl_c_at_the_command_line_on_ray(tmp_path: Path) -> None:
    """The local engine's: tests/test_cli.py."""
    store = tmp_path / "store"
    call = [
        "certify",
        "--model",
        "digits",
        "--data",
        "digits",
        "--count",
        "60",
        "--samples",
        "20000",
        "--store",
        str(store),
    ]
    ray = ["--engine", "ray", "--workers", "2"]
    running = subprocess.Popen(
        [sys.executable, "-m", "recert", *call, *ray], stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts
    )
    wait_for_parts(store, running)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130, errors
    assert "run the same command again to continue" in " ".join(errors.split())
    subprocess.run([sys.executable, "-m", "recert", *call, *ray], check=True)
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "recert", *call[:-1], str(other)], check=True)
    assert stored_votes(store) == stored_votes(other)
