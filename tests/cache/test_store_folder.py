"""A store as a folder: other programs read it, it may be read-only, and it knows the names of what it holds."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest

import recert
from recert import Cache
from recert.errors import ContextMismatch
from tests.cache.stores import OPTIONS, files, inputs, make, network


def test_pandas_reads_the_folder(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    cache = make(tmp_path)
    cache.remember_names(model="small")
    assert {name for name in files(tmp_path) if not name.startswith("part-")} == {".lock", "_manifest.json"}
    frame = pandas.read_parquet(tmp_path)
    rows = frame[frame.stream == "estimation"].set_index("input")
    assert len(rows) == 6
    for digest in cache.digests:
        assert rows.loc[bytes.fromhex(digest)].votes.tolist() == cache.votes(digest).tolist()
    assert ds.dataset(tmp_path).count_rows() == 12


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A store on a file system that is then mounted read-only; root may write everywhere else."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", place], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        make(place / "run")
        remounted = subprocess.run(["mount", "-o", "remount,ro", place], capture_output=True)
        if remounted.returncode:
            pytest.skip("remounting is not allowed here")
        yield place / "run"
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_read_only_store_is_read_and_used(read_only: Path, tmp_path: Path) -> None:
    cache = Cache.open(read_only)
    assert cache.verify() == []
    assert len(cache.certificates) == 6
    assert recert.audit(network(), inputs(), read_only, samples=20).wrong.sum() == 0
    result = recert.recertify(network(1), inputs(), read_only, samples=100)
    assert len(result) == 6
    assert recert.cache.merge(tmp_path / "copy", [read_only]).verify() == []


def test_writing_to_a_read_only_store_is_one_clear_line(read_only: Path) -> None:
    message = "can be read but not written .*copy it to where you may write"
    for rows, samples in ((slice(0, 6), 300), (slice(0, 6), 400)):
        with pytest.raises(PermissionError, match=message):
            make(read_only, rows, samples=samples)
    with pytest.raises(PermissionError, match=message):
        make(read_only.parent / "another")
    with pytest.raises(PermissionError, match=message):
        Cache.open(read_only).remember_names(model="x")
    with pytest.raises(PermissionError, match=message):
        recert.cache.merge(read_only.parent / "merged", [read_only])


def test_names_are_kept_and_are_no_context(tmp_path: Path) -> None:
    cache = make(tmp_path, slice(0, 2))
    before = cache.manifest.context
    cache.remember_names(model="small", data="blobs")
    grown = make(tmp_path, slice(0, 3))
    assert grown.manifest.names == {"model": "small", "data": "blobs"}
    assert grown.manifest.context == before
    with pytest.raises(
        ContextMismatch, match=r"model weights = [0-9a-f]{12} \(small\), but here it is [0-9a-f]{12} \(Sequential\);"
    ):
        recert.certify(network(1), inputs(), **OPTIONS, store=tmp_path)


def test_a_hostile_name_is_shown_harmless(tmp_path: Path) -> None:
    make(tmp_path, slice(0, 2)).remember_names(model="x\x1b[2J\n[bold]\ud800" + "y" * 9000)
    with pytest.raises(ContextMismatch) as error:
        recert.certify(network(1), inputs(), **OPTIONS, store=tmp_path)
    assert "\x1b" not in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1_000


def test_a_manifest_without_names_is_read(tmp_path: Path) -> None:
    make(tmp_path, slice(0, 2))
    file = tmp_path / "_manifest.json"
    raw = json.loads(file.read_text())
    del raw["names"]
    file.write_text(json.dumps(raw))
    assert Cache.open(tmp_path).manifest.names == {}


def test_numbers_of_numpy_are_stored_as_numbers(tmp_path: Path) -> None:
    cache = make(tmp_path, slice(0, 2), samples=np.int64(300), selection_samples=np.int32(20))
    assert Cache.open(tmp_path).manifest.samples == 300
    assert Cache.open(tmp_path).manifest.context == cache.manifest.context
