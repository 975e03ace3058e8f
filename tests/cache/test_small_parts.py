"""Stores of many small parts: each is checked as if it were alone, at little more than its reading costs."""

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recert import Cache
from recert.cache import parts
from recert.cache.parts import Row
from recert.errors import CorruptCache
from recert.noise import Stream
from recert.votes import count_votes, vote_dtype
from tests.cache.stores import files, inputs, make, rewrite_manifest

CONTEXT = "context"


def row(number: int, length: int = 10, classes: int = 3) -> Row:
    votes = np.random.default_rng(number).integers(0, classes, length).astype(vote_dtype(classes))
    return Row(f"{number:064x}", Stream.ESTIMATION, 0, length, count_votes(votes, classes), 0.5, votes)


def encoded(rows: Sequence[Row], classes: int = 3) -> tuple[str, bytes]:
    return parts.encode(rows, classes, CONTEXT)


def packed(name_and_data: tuple[str, bytes]) -> bool:
    group = pq.read_metadata(pa.BufferReader(name_and_data[1])).row_group(0)
    return {group.column(i).compression for i in range(group.num_columns)} == {"ZSTD"}


def split(store: Path) -> list[str]:
    """The store with a part for each of its rows; the names of these, in order."""
    cache = Cache.open(store)
    rows = [each for name in cache.part_names() for each in cache.part(name)[1]]
    for name in cache.part_names():
        (store / name).unlink()
    for each in rows:
        name, data = parts.encode([each], 3, cache.manifest.context)
        (store / name).write_bytes(data)
    names = sorted(file.name for file in store.glob("part-*"))
    rewrite_manifest(store, lambda m: m | {"parts": names})
    return names


def put(store: Path, old: str, data: bytes) -> str:
    """Other bytes in place of a part, under their right name."""
    name = f"part-{hashlib.sha256(data).hexdigest()}.parquet"
    (store / old).unlink()
    (store / name).write_bytes(data)
    rewrite_manifest(store, lambda m: m | {"parts": sorted({*m["parts"], name} - {old})})
    return name


@pytest.mark.parametrize(("length", "classes"), [(1, 2), (60, 10), (3_000, 10), (30, 300)])
def test_a_small_row_alone_is_written_plain_and_read_back(length: int, classes: int) -> None:
    given = row(1, length, classes)
    name, data = encoded([given], classes)
    assert not packed((name, data))
    (found,) = parts.decode(name, data, CONTEXT, classes)
    assert found.votes is not None
    assert given.votes is not None
    assert (found.votes.tolist(), found.counts.tolist()) == (given.votes.tolist(), given.counts.tolist())


def test_other_parts_are_packed_as_before() -> None:
    assert packed(encoded([row(1, 5_000)]))
    assert packed(encoded([row(1), row(2)]))


def test_many_parts_in_one_go_say_the_same_as_each_alone() -> None:
    """More than are looked at together, of many sizes, with wrong ones between them."""
    sizes = [1 + i * 37 % 400 for i in range(300)] + [2**20, 5, 2**20, 7]
    named = [encoded([row(i, length)]) for i, length in enumerate(sizes)]
    wrong = {
        7: lambda name, data: (name, data[:-1]),
        100: lambda *_: encoded([replace(row(100), counts=np.array([1, 2, 3]))]),
        101: lambda *_: parts.encode([row(101)], 3, "another context"),
        200: lambda *_: encoded([replace(row(200), seconds=-1.0)]),
        301: lambda *_: encoded([row(301, 10, 4)], 4),
    }
    for i, change in wrong.items():
        named[i] = change(*named[i])
    found = list(parts.decode_all(named, CONTEXT, 3))
    assert [name for name, _ in found] == [name for name, _ in named]
    assert {i for i, (_, rows) in enumerate(found) if isinstance(rows, CorruptCache)} == set(wrong)
    for (name, data), (_, rows) in zip(named, found, strict=True):
        if isinstance(rows, CorruptCache):
            with pytest.raises(CorruptCache, match=f"^{re.escape(str(rows))}$"):
                parts.decode(name, data, CONTEXT, 3)
            assert name in str(rows)
        else:
            (one,), (alone,) = rows, parts.decode(name, data, CONTEXT, 3)
            assert one.votes is not None
            assert alone.votes is not None
            assert (one.digest, one.counts.tolist()) == (alone.digest, alone.counts.tolist())
            assert np.array_equal(one.votes, alone.votes)


def test_every_part_that_is_wrong_is_named_and_none_is_used(tmp_path: Path) -> None:
    store = tmp_path / "run"
    whole = make(store)
    votes = whole.counts(Stream.ESTIMATION).tolist()
    names = split(store)
    assert Cache.open(store).counts(Stream.ESTIMATION).tolist() == votes
    assert Cache.diagnose(store) == []
    context, before = whole.manifest.context, files(store)
    forged = [replace(each, counts=each.counts + 1) for each in parts.decode(names[3], before[names[3]], context, 3)]
    wrong = {put(store, names[3], parts.encode(forged, 3, context)[1]), names[8]}
    (store / names[8]).write_bytes(before[names[8]][:-9])
    with pytest.raises(CorruptCache, match=min(wrong)):
        Cache.open(store)
    found = Cache.diagnose(store)
    assert {name for name in wrong if any(line.startswith((name, f"counts of {name}")) for line in found)} == wrong
    assert sum("lacks votes" in line for line in found) in (1, 2)  # of one input, or of two
    (store / names[8]).unlink()
    (store / names[8]).mkdir()
    assert any("expected" in line and names[8] in line and "to be a file" in line for line in Cache.diagnose(store))


def test_one_text_for_each_input(tmp_path: Path) -> None:
    """However many rows name it: with many inputs and few votes, texts take as much memory as votes."""
    cache = make(tmp_path / "run")
    opened = Cache.open(tmp_path / "run")
    assert len(opened.digests) == len(inputs())
    for digest in opened.digests:
        for stream in (Stream.SELECTION, Stream.ESTIMATION):
            assert all(each.digest is digest for each in opened.stored_rows(digest, stream))
    assert opened.digests == cache.digests


def test_many_small_parts_cost_less_together_than_alone() -> None:
    named = [encoded([row(i)]) for i in range(500)]
    alone, together = list[float](), list[float]()
    for _ in range(3):
        start = time.process_time()
        for name, data in named:
            parts.decode(name, data, CONTEXT, 3)
        between = time.process_time()
        for _ in parts.decode_all(named, CONTEXT, 3):
            pass
        alone.append(between - start)
        together.append(time.process_time() - between)
    assert min(together) < 0.8 * min(alone)
