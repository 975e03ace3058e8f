"""Signals that stop a run: what was drawn is written, whatever the signal, and however often it comes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recert.cache.parts import Row
from recert.cache.writer import PartWriter
from recert.cli.stopping import stoppable
from recert.interrupts import uninterrupted
from recert.noise import Stream
from tests.test_cli import SMALL

# The disk is slow here: every part takes half a second, in which the second signal comes.
SLOW = """
import sys, time, signal
import recert.storage
signal.signal(signal.SIGINT, signal.default_int_handler)
write = recert.storage.Directory.write
def slowly(self, name, data):
    if name.startswith("part-"):
        print("writing", flush=True)
        time.sleep(0.5)
    write(self, name, data)
recert.storage.Directory.write = slowly
from recert.cli import main
main()
"""


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_second_signal_does_not_lose_the_part_in_hand(tmp_path: Path, sent: str, code: int) -> None:
    call = ["certify", *SMALL, "--samples", "200000", "--store", str(tmp_path / "s")]
    running = subprocess.Popen(
        [sys.executable, "-c", SLOW, *call], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    while not (tmp_path / "s" / "_manifest.json").exists():
        assert running.poll() is None
        time.sleep(0.05)
    time.sleep(0.7)
    running.send_signal(getattr(signal, sent))
    time.sleep(0.02)
    running.send_signal(getattr(signal, sent))
    assert running.stdout is not None
    assert running.stdout.readline() == "writing\n"
    running.send_signal(getattr(signal, sent))
    _, errors = running.communicate()
    assert running.returncode == code, errors
    assert "what was drawn is kept" in errors
    assert list((tmp_path / "s").glob("part-*"))
    assert not list((tmp_path / "s").glob(".*.tmp"))


def test_a_signal_while_a_part_is_written_waits() -> None:
    written: list[list[Row]] = []

    def close(rows: list[Row]) -> None:
        signal.raise_signal(signal.SIGINT)
        written.append(rows)

    writer = PartWriter(2, close)
    writer.add("a" * 64, Stream.ESTIMATION, 0, np.zeros(5, np.int16), 1.0)
    with pytest.raises(KeyboardInterrupt), stoppable():
        writer.flush()
    writer.flush()  # as at the end of a run that was stopped
    assert [len(rows) for rows in written] == [1]


def test_an_ignored_signal_stays_ignored() -> None:
    """As nohup sets it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable() as stop, uninterrupted():
            signal.raise_signal(signal.SIGHUP)
        assert stop.signal is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(KeyboardInterrupt), stoppable() as stop, uninterrupted():
        signal.raise_signal(signal.SIGTERM)
    assert stop.code(130) == 143
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
