"""Merging stores: what comes out is what one run would have left, and nothing that does not belong together is joined."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import recert
from recert import Cache, Gaussian
from recert.cache import limits, merge, merging, writer
from recert.cache.manifest import Manifest
from recert.errors import ContextMismatch, CorruptCache, StoreBusy
from recert.models.numerics import Numerics
from recert.storage import Directory
from tests.cache.stores import OPTIONS, all_votes, files, forge, inputs, make, network


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    stores = [tmp_path / f"shard-{i}" for i in range(3)]
    for i, store in enumerate(stores):
        make(store, slice(i, None, 3))
    return stores


def test_merged_shards_are_the_run_in_one_piece(tmp_path: Path, shards: list[Path]) -> None:
    before = [files(store) for store in shards]
    whole = merge(tmp_path / "whole", shards)
    expected = recert.certify(network(), inputs(), **OPTIONS)
    assert all_votes(whole) == {
        (d, s): v for d, s in all_votes(whole) for v in [expected.votes(d, recert.noise.Stream[s]).tobytes()]
    }
    assert set(whole.manifest.inputs) == set(expected.manifest.inputs)
    assert Cache.open(tmp_path / "whole").verify() == []
    copied = {name for parts_of in before for name in parts_of if name.startswith("part-")}
    for name in copied:  # byte for byte
        assert (tmp_path / "whole" / name).read_bytes() == next(b[name] for b in before if name in b)
    assert set(whole.manifest.parts) == copied
    assert [files(store) for store in shards] == before
    ours, theirs = whole.about(expected.digests).certificates, expected.certificates
    assert ours.radius.tolist() == theirs.radius.tolist()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_certify_continues_a_merged_store_at_no_cost(tmp_path: Path, shards: list[Path]) -> None:
    merge(tmp_path / "whole", shards)
    drawn: list[recert.Progress] = []
    recert.certify(network(), inputs(), **OPTIONS, store=tmp_path / "whole", progress=drawn.append)
    assert drawn == []


def test_overlapping_inputs_with_equal_votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the same votes lie in parts of other lengths."""
    make(tmp_path / "a", slice(0, 4))
    monkeypatch.setattr(writer, "VOTES_PER_PART", 150)
    make(tmp_path / "b", slice(2, 6))
    whole = merge(tmp_path / "whole", [tmp_path / "a", tmp_path / "b", tmp_path / "a"])
    expected = recert.certify(network(), inputs(), **OPTIONS)
    assert set(whole.manifest.inputs) == set(expected.manifest.inputs)
    assert whole.verify() == []
    for digest in expected.digests:
        assert whole.votes(digest).tolist() == expected.votes(digest).tolist()


def test_conflicting_votes_name_the_input(tmp_path: Path) -> None:
    cache = make(tmp_path / "a", slice(0, 3))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    forge(tmp_path / "b", 0.05, only=cache.digests[1])
    with pytest.raises(CorruptCache, match=f"different votes for input {cache.digests[1][:12]}"):
        merge(tmp_path / "whole", [tmp_path / "a", tmp_path / "b"])
    assert not (tmp_path / "whole").exists()


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("noise", {"noise": Gaussian(0.25)}),
        ("seed", {"seed": 2}),
        ("numerics.batch_size", {"batch_size": 16}),
        ("samples", {"samples": 400}),
        ("selection_samples", {"selection_samples": 30}),
        ("certificate", {"certificate": "one-sided"}),
    ],
)
def test_another_context_is_refused_by_name(tmp_path: Path, field: str, changed: dict[str, object]) -> None:
    make(tmp_path / "a", slice(0, 2))
    make(tmp_path / "b", slice(2, 4), **changed)
    with pytest.raises(ContextMismatch) as error:
        merge(tmp_path / "whole", [tmp_path / "a", tmp_path / "b"])
    assert error.value.field == field
    assert not (tmp_path / "whole").exists()


def test_numerics_may_be_mixed_on_request(tmp_path: Path) -> None:
    make(tmp_path / "a", slice(0, 2))
    make(tmp_path / "b", slice(2, 4), batch_size=16)
    whole = merge(tmp_path / "whole", [tmp_path / "a", tmp_path / "b"], allow_numerics=True)
    assert whole.manifest.numerics.text("batch_size") == "32, 16"
    assert "mixed numerics (batch_size)" in whole.certificates.guarantee


def test_bookkeeping_of_alpha_family_and_looks(tmp_path: Path) -> None:
    """No claim grows by merging: the smallest alpha, a family that counts every input, every look that was had."""
    make(tmp_path / "a", slice(0, 2), alpha=0.01, family="bonferroni")
    make(tmp_path / "b", slice(2, 5), alpha=0.01, family="bonferroni", samples=300)
    make(tmp_path / "c", slice(5, 6), alpha=0.05, samples=200)
    make(tmp_path / "c", slice(5, 6), alpha=0.05)
    whole = merge(tmp_path / "whole", [tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    m = whole.manifest
    assert (m.alpha, m.family, m.claims, m.looks) == (0.01 / 3, 3, 6, (200, 300))
    assert (
        whole.certificates.settings.error * m.claims >= 0.01
    )  # a union over six claims is not smaller than over three
    assert "all 6 claims" in whole.certificates.guarantee
    assert "n = 200, 300" in whole.certificates.guarantee


def test_a_family_that_was_fixed_before_stays(tmp_path: Path) -> None:
    for i in range(2):
        make(tmp_path / str(i), slice(i, None, 2), alpha=0.01, family=6)
    m = merge(tmp_path / "whole", [tmp_path / "0", tmp_path / "1"]).manifest
    assert (m.alpha, m.family) == (0.01 / 6, 6)


def test_an_interrupted_merge_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, shards: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = merging.Directory.write, []

    def dying(self: merging.Directory, name: str, data: bytes) -> None:
        written.append(name)
        if len(written) == 3:
            raise KeyboardInterrupt
        real(self, name, data)

    monkeypatch.setattr(merging.Directory, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        merge(tmp_path / "whole", shards)
    monkeypatch.undo()
    assert not (tmp_path / "whole").exists()
    (left_over,) = tmp_path.glob(".whole.merging")
    (left_over / "part-of-something.parquet").write_bytes(b"rubbish of an earlier attempt")
    assert merge(tmp_path / "whole", shards).verify() == []
    assert not left_over.exists()


def test_two_merges_to_one_place_do_not_mix(tmp_path: Path, shards: list[Path]) -> None:
    with Cache.locked(tmp_path / ".whole.merging"), pytest.raises(StoreBusy):
        merge(tmp_path / "whole", shards)


@pytest.mark.parametrize("late", [False, True])
def test_nothing_is_removed_behind_a_link(
    tmp_path: Path, shards: list[Path], monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """A link under the name of the unfinished merge, put there before it or as it takes the lock."""
    precious = tmp_path / "precious"
    make(precious)
    (precious / ".lock").unlink()
    before, link = files(precious), tmp_path / ".whole.merging"
    if late:
        real = Directory.locked
        monkeypatch.setattr(Directory, "locked", lambda self: (link.symlink_to(precious), real(self))[1])
    else:
        link.symlink_to(precious)
    with pytest.raises(FileExistsError, match="got a link or a file; remove it"):
        merge(tmp_path / "whole", shards)
    assert {name: data for name, data in files(precious).items() if name != ".lock"} == before
    assert late or not (precious / ".lock").exists()
    assert not (tmp_path / "whole").exists()


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, shards: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".whole.merging").mkdir()
    monkeypatch.setattr(merging.os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    with pytest.raises(FileExistsError, match="another user"):
        merge(tmp_path / "whole", shards)


def test_places_that_are_taken(tmp_path: Path, shards: list[Path]) -> None:
    with pytest.raises(FileExistsError, match="holds one already"):
        merge(shards[0], shards)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds other files"):
        merge(tmp_path / "full", shards)
    with pytest.raises(ValueError, match="at least one store"):
        merge(tmp_path / "whole", [])
    os.mkdir(tmp_path / "empty")
    assert merge(tmp_path / "empty", shards[:1]).verify() == []


def test_an_incomplete_shard_is_merged_and_finished_later(tmp_path: Path) -> None:
    def stop(progress: recert.Progress) -> None:
        if progress.done > 700:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        recert.certify(network(), inputs()[1::2], **OPTIONS, store=tmp_path / "b", progress=stop)
    make(tmp_path / "a", slice(0, None, 2))
    whole = merge(tmp_path / "whole", [tmp_path / "a", tmp_path / "b"])
    assert whole.missing()
    finished = recert.certify(network(), inputs(), **OPTIONS, store=tmp_path / "whole")
    expected = recert.certify(network(), inputs(), **OPTIONS)
    assert [finished.votes(d).tolist() for d in expected.digests] == [
        expected.votes(d).tolist() for d in expected.digests
    ]


def test_merging_to_a_url(tmp_path: Path, shards: list[Path]) -> None:
    whole = merge("memory://merged/whole", shards)
    assert whole.verify() == []
    assert len(whole.manifest.inputs) == 6


def test_parts_of_something_else_at_a_url_are_not_taken_up(shards: list[Path]) -> None:
    make("memory://merged/other", slice(4, 5))  # type: ignore[arg-type]
    Directory("memory://merged/other").remove("_manifest.json")
    with pytest.raises(FileExistsError, match="which holds part-"):
        merge("memory://merged/other", shards)
    with pytest.raises(FileNotFoundError):
        Cache.open("memory://merged/other")


def test_many_long_names_are_joined_up_to_what_a_manifest_may_hold(tmp_path: Path) -> None:
    manifest = make(tmp_path, slice(0, 1)).manifest
    names = [{"model": "small, wide", "data": f"{i:03}" + "x" * 90} for i in range(100)]
    whole = merging.merged([replace(manifest, names=each) for each in names], allow_numerics=False)
    assert whole.names["model"] == "small, wide"
    assert whole.names["data"].startswith(f"{names[0]['data']}, {names[1]['data']}, ")
    assert whole.names["data"].endswith("...")
    kinds = [replace(manifest, names={f"{i}-{j}": "x" for j in range(60)}) for i in range(2)]
    assert len(merging.merged(kinds, allow_numerics=False).names) == limits.ENTRIES


def test_looks_keep_how_often_each_number_was_looked_at() -> None:
    base = Cache(
        Manifest(
            model=recert.StoredVotes(np.zeros((1, 2), int)).identity, noise=recert.Gaussian(0.5), seed=0, classes=2, input_shape=(),
            selection_samples=20, samples=300, alpha=0.1, certificate="one-sided", family=1, numerics=Numerics({}), looks=(300, 300),
        )
    ).manifest  # fmt: skip
    other = replace(base, looks=(100, 300))
    assert merging.merged([base, other], allow_numerics=False).looks == (100, 300, 300)
