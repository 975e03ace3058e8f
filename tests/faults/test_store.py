"""A store on a disk that fills up, and one with a part that was damaged afterwards. (Damage of every kind: tests/cache.)"""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import recert
from recert import Cache
from recert.cache import writer
from recert.errors import CorruptCache
from tests.engines.networks import digits_inputs, digits_network
from tests.faults.undisturbed import COUNTS, OPTIONS, stored_votes, undisturbed_votes, votes


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB of its own."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_loses_only_the_part_in_hand(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "VOTES_PER_PART", 4_000)
    x = np.random.default_rng(5).random((24, 1, 8, 8), dtype=np.float32)
    store = small_disk / "store"
    with pytest.raises(OSError, match="No space left on device") as full:
        recert.certify(digits_network(), x, **OPTIONS, **COUNTS, store=store)
    assert full.value.errno == errno.ENOSPC
    assert not list(store.glob(".*tmp")), "what could not be written is not left lying about"
    kept = len(list(store.glob("part-*")))
    before = Cache.open(store)  # what is there can be read
    assert kept > 3
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    drawn: list[recert.Progress] = []
    recert.certify(digits_network(), x, **OPTIONS, **COUNTS, store=store, progress=drawn.append)
    assert drawn[-1].total == sum(len(gap) for _, _, gap in before.missing())
    assert drawn[-1].total <= 24 * 2_100 - (kept - 1) * 3_900
    assert stored_votes(store) == undisturbed_votes(x)


def test_a_part_damaged_afterwards_is_refused_and_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "VOTES_PER_PART", 3_000)
    expected = votes(recert.certify(digits_network(), digits_inputs(), **OPTIONS, **COUNTS, store=tmp_path))
    part = sorted(tmp_path.glob("part-*"))[1]
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 0x10
    part.write_bytes(bytes(data))
    with pytest.raises(CorruptCache, match=f"{part.name} is damaged"):
        recert.certify(digits_network(), digits_inputs(), **OPTIONS, **COUNTS, store=tmp_path)
    assert any(part.name in problem for problem in Cache.diagnose(tmp_path))
    part.unlink()
    drawn: list[recert.Progress] = []
    with pytest.warns(UserWarning, match="lacks 1 of its parts"):
        recert.certify(digits_network(), digits_inputs(), **OPTIONS, **COUNTS, store=tmp_path, progress=drawn.append)
    assert 0 < drawn[-1].total < 5 * 2_100 / 2, "only what was in the damaged part is drawn again"
    assert stored_votes(tmp_path) == expected
