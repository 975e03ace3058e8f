"""Puts that are cut in half, as behind a URL they may be: the store continues by itself, to the votes of an undisturbed run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import recert
from recert import Cache
from recert.cache import merge, writer
from recert.errors import CorruptCache
from recert.storage import Directory
from tests.cache.stores import OPTIONS, all_votes, inputs, make, network

LONGER = {**OPTIONS, "samples": 500}


class CutFiles(MemoryFileSystem):
    """Files in memory; the put number `cut` is cut at a share of its bytes, and no later one succeeds if the process dies."""

    protocol = "cut"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs: list[str] = [""]  # noqa: RUF012
    puts, cut, share, dies = 0, -1, 0.5, False

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        number, CutFiles.puts = CutFiles.puts, CutFiles.puts + 1
        if number == CutFiles.cut:
            super().pipe_file(path, value[: int(len(value) * CutFiles.share)], mode, **kwargs)
        if number == CutFiles.cut or (CutFiles.dies and number > CutFiles.cut >= 0):
            raise ConnectionError("the connection was lost")
        super().pipe_file(path, value, mode, **kwargs)

    @classmethod
    def plan(cls, cut: int, share: float = 0.5, *, dies: bool = False) -> None:
        cls.puts, cls.cut, cls.share, cls.dies = 0, cut, share, dies


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fsspec.register_implementation("cut", CutFiles, clobber=True)
    monkeypatch.setattr(writer, "VOTES_PER_PART", 400)
    CutFiles.plan(-1)
    yield
    CutFiles.store.clear()
    CutFiles.pseudo_dirs[:] = [""]


def run(store: str, options: dict[str, Any]) -> Cache:
    return recert.certify(network(), inputs(3), **options, store=store)


def certify_and_extend(store: str) -> int:
    """Both commands, each begun again by hand if it fails; returns how many failed."""
    failed = 0
    for options in (OPTIONS, LONGER):
        try:
            run(store, options)
        except ConnectionError:
            failed += 1
            CutFiles.plan(-1)
            run(store, options)
    return failed


@pytest.mark.filterwarnings("ignore:.*cut off:UserWarning")
def test_forty_cut_puts_continue_to_the_same_votes() -> None:
    assert certify_and_extend("cut://undisturbed/run") == 0
    expected, puts = all_votes(Cache.open("cut://undisturbed/run")), CutFiles.puts
    assert puts > 10
    rng = np.random.default_rng(0)
    for trial in range(40):
        store = f"cut://trial/{trial}"
        CutFiles.plan(int(rng.integers(puts)), float(rng.random()), dies=bool(trial % 2))
        assert certify_and_extend(store) == 1, trial
        assert all_votes(Cache.open(store)) == expected, trial
        assert Cache.open(store).manifest.looks == (300, 500), trial
        assert Cache.diagnose(store) == [], trial


def test_a_cut_manifest_is_replaced_by_the_one_before_it_with_a_warning() -> None:
    run("cut://a/store", OPTIONS)
    CutFiles.plan(1, dies=True)  # the put before it is the copy of the last good one
    with pytest.raises(ConnectionError, match="connection was lost"):
        run("cut://a/store", LONGER)
    assert Cache.diagnose("cut://a/store") != []
    with pytest.warns(UserWarning, match="cut off; the one before it is used"):
        before = Cache.open("cut://a/store")
    assert before.manifest.samples == 300
    assert before.missing() == []


def test_a_cut_part_is_never_used_and_is_drawn_again_with_a_warning() -> None:
    run("cut://a/whole", OPTIONS)
    run("cut://a/store", OPTIONS)
    directory = Directory("cut://a/store")
    name = f"part-{'0' * 64}.parquet"
    whole = next(name for name in directory.names() if name.startswith("part-"))
    directory.write(name, directory.read(whole)[:100])
    with pytest.raises(CorruptCache, match="damaged"):
        Cache.open("cut://a/store")
    with pytest.warns(UserWarning, match="1 parts of .* are cut off and not used"):
        run("cut://a/store", OPTIONS)
    assert name not in directory.names()
    assert all_votes(Cache.open("cut://a/store")) == all_votes(Cache.open("cut://a/whole"))


def test_a_named_part_that_is_damaged_is_an_error_also_when_continuing(tmp_path: Path) -> None:
    """It was whole once: what damaged it is for a person to find out, who deletes it to have its votes drawn again."""
    make(tmp_path / "store")
    part = next((tmp_path / "store").glob("part-*"))
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(CorruptCache, match="delete it and certify again"):
        make(tmp_path / "store")
    part.unlink()
    with pytest.warns(UserWarning, match="lacks 1 of its parts"):
        make(tmp_path / "store")


def test_a_manifest_of_a_later_version_is_not_a_cut_one() -> None:
    run("cut://a/store", OPTIONS)
    run("cut://a/store", LONGER)
    Directory("cut://a/store").write("_manifest.json", b'{"schema": 2}')
    with pytest.raises(CorruptCache, match="schema"):
        run("cut://a/store", LONGER)


def test_a_local_manifest_that_does_not_parse_is_never_begun_anew(tmp_path: Path) -> None:
    make(tmp_path / "store")
    for part in (tmp_path / "store").glob("part-*"):
        part.unlink()
    (tmp_path / "store" / "_manifest.json").write_bytes(b"{")
    with pytest.raises(CorruptCache, match="cannot be read"):
        make(tmp_path / "store")


def test_a_merge_that_was_cut_anywhere_is_begun_again() -> None:
    run("cut://a/one", OPTIONS)
    CutFiles.plan(-1)
    expected = all_votes(merge("cut://a/undisturbed", ["cut://a/one"]))
    for cut in range(CutFiles.puts):
        CutFiles.plan(cut, dies=True)
        with pytest.raises(ConnectionError, match="connection was lost"):
            merge(f"cut://a/{cut}", ["cut://a/one"])
        CutFiles.plan(-1)
        assert all_votes(merge(f"cut://a/{cut}", ["cut://a/one"])) == expected
