"""Hostile stores by kind: each case turns a sound store into one that nobody should believe."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recert import Cache
from recert.cache import limits, parts
from recert.cache.manifest import MANIFEST
from recert.noise import Stream
from recert.votes import count_votes
from tests.cache.stores import put_part, rewrite_manifest, rewrite_rows

Case = Callable[[Path], None]
FLIPS, CUTS = 150, 20


def manifest_text(data: bytes) -> Case:
    return lambda store: (store / MANIFEST).write_bytes(data) and None


def manifest_field(name: str, value: Any) -> Case:
    return lambda store: rewrite_manifest(store, lambda m: {**m, name: value})


def manifest_replaced(old: bytes, new: bytes) -> Case:
    def change(store: Path) -> None:
        data = (store / MANIFEST).read_bytes()
        assert old in data
        (store / MANIFEST).write_bytes(data.replace(old, new, 1))

    return change


def flipped(file: str, seed: int, *, fitting: bool) -> Case:
    """One bit changed at a random place; a part gets the name that fits, so that its hash does not give it away."""

    def change(store: Path) -> None:
        path = store / MANIFEST if file == "manifest" else next(store.glob("part-*"))
        data, rng = bytearray(path.read_bytes()), np.random.default_rng(seed)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        put_part(store, bytes(data)) if fitting else path.write_bytes(bytes(data))

    return change


def cut(file: str, share: float) -> Case:
    def change(store: Path) -> None:
        path = store / MANIFEST if file == "manifest" else next(store.glob("part-*"))
        data = path.read_bytes()[: int(share * path.stat().st_size)]
        put_part(store, data) if file == "part" else path.write_bytes(data)

    return change


def every_row(**changed: Any) -> Case:
    return lambda store: rewrite_rows(
        store, lambda row: replace(row, **{k: v(row) if callable(v) else v for k, v in changed.items()})
    )


def table(change: Callable[[pa.Table], pa.Table]) -> Case:
    """The part's table changed, written as anyone may write it."""

    def apply(store: Path) -> None:
        changed = change(pq.read_table(next(store.glob("part-*"))))
        sink = pa.BufferOutputStream()
        pq.write_table(changed, sink, row_group_size=1, compression="zstd")
        put_part(store, sink.getvalue().to_pybytes())

    return apply


def column(name: str, values: Callable[[list[Any]], list[Any]], kind: pa.DataType | None = None) -> Case:
    def change(t: pa.Table) -> pa.Table:
        at = t.column_names.index(name)
        return t.set_column(at, name, pa.array(values(t[name].to_pylist()), kind or t.schema.field(name).type))

    return table(change)


def first(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value, *values[1:]]


def second_part(change: Callable[[parts.Row], parts.Row]) -> Case:
    """A part beside the sound one, with rows of its own."""

    def add(store: Path) -> None:
        cache = Cache.open(store)
        rows = [change(row) for name in cache.part_names() for row in cache.part(name)[1]]
        name, data = parts.encode(rows, cache.manifest.classes, cache.manifest.context)
        (store / name).write_bytes(data)

    return add


def turned(row: parts.Row) -> parts.Row:
    assert row.votes is not None
    votes = ((row.votes + 1) % 3).astype(row.votes.dtype)
    return replace(row, votes=votes, counts=count_votes(votes, 3))


def with_nulls(*places: int, fitting: bool = True, start: int | None = None, **votes: int) -> Case:
    """Nulls at these places of every row, with counts that fit or do not; and other votes at some places, `at_2=7`."""

    def change(t: pa.Table) -> pa.Table:
        rows = [[*row] for row in t["votes"].to_pylist()]
        for row in rows:
            for place in places:
                row[place] = None
            for name, vote in votes.items():
                row[int(name.removeprefix("at_"))] = vote
        counts = [[row.count(vote) for vote in range(3)] for row in rows] if fitting else t["counts"].to_pylist()
        starts = t["start"].to_pylist() if start is None else [start] * len(rows)
        for name, values in (("votes", rows), ("counts", counts), ("start", starts)):
            at = t.column_names.index(name)
            t = t.set_column(at, name, pa.array(values, t.schema.field(name).type))
        return t

    return table(change)


def rows_beside(*chosen: tuple[list[int], bool]) -> Case:
    """A part beside the sound one: a row for each of these lists of estimation samples, with true votes or wrong ones."""

    def add(store: Path) -> None:
        cache = Cache.open(store)
        votes = cache.votes(cache.digests[0])
        rows = []
        for samples, true in chosen:
            here = np.array(samples)
            drawn = votes[here % 300] if true else (votes[here % 300] + 1) % 3
            rows.append(parts.Row.of(cache.digests[0], Stream.ESTIMATION, here, drawn.astype(np.uint8), 0.0, 3))
        name, data = parts.encode(rows, 3, cache.manifest.context)
        (store / name).write_bytes(data)

    return add


def bomb(*, honest_footer: bool, nulls: bool = False) -> Case:
    """A part of a few hundred bytes that unpacks to more votes than allowed; its footer says so, or says 300."""

    def write(store: Path) -> None:
        values = limits.PART_VALUES + 1
        zeros: Any = np.zeros(values, np.uint8)
        if nulls:
            zeros = pa.array(zeros, mask=np.arange(values) % (values - 1) > 0).to_pylist()
        context = pq.read_metadata(next(store.glob("part-*"))).metadata[b"recert.context"]
        rows = {
            "input": [bytes(32)], "stream": ["estimation"], "start": [0], "length": [values],
            "counts": [[values, 0, 0]], "seconds": [0.0], "votes": [zeros],
        }  # fmt: skip
        sink = pa.BufferOutputStream()
        schema = parts.schema(3).with_metadata({"recert.context": context})
        pq.write_table(pa.table(rows, schema=schema), sink, compression="zstd", data_page_size=2**30)
        data = sink.getvalue().to_pybytes()
        if not honest_footer:
            at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
            true = _varint(values)
            assert true in data[at:]
            data = data[:at] + data[at:].replace(true, _varint(300, len(true)))
        assert len(data) < 100_000
        put_part(store, data)

    return write


def _varint(value: int, length: int = 0) -> bytes:
    """Thrift's zigzag number, padded to a length."""
    value, out = 2 * value, bytearray()
    while value >= 128 or len(out) + 1 < length:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def instead(name: str, make: Callable[[Path], None]) -> Case:
    """Something else where a file was."""

    def change(store: Path) -> None:
        path = store / MANIFEST if name == "manifest" else next(store.glob("part-*"))
        path.unlink()
        make(path)

    return change


def sparse(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        file.truncate(size)


def stranger(name: str, data: bytes) -> Case:
    return lambda store: (store / name).write_bytes(data) and None


def many_rows(count: int) -> Case:
    def change(t: pa.Table) -> pa.Table:
        return pa.concat_tables([t.slice(0, 1)] * count).combine_chunks()

    def apply(store: Path) -> None:
        changed = change(pq.read_table(next(store.glob("part-*"))))
        sink = pa.BufferOutputStream()
        pq.write_table(changed, sink, compression="zstd")
        put_part(store, sink.getvalue().to_pybytes())

    return apply


STRANGE_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    1e308,
    2**70,
    "x",
    "1",
    "",
    [],
    {},
    [[]],
    [-1],
    {"a": 1},
    "\u001b[2J",
    "9" * 5000,
]
FIELDS = (
    "model", "noise", "seed", "classes", "input_shape", "selection_samples", "samples", "alpha", "certificate", "family",
    "numerics", "inputs", "looks", "parts", "names", "schema", "model_parts",
    "same_models",
)  # fmt: skip

HOSTILE: dict[str, list[Case]] = {
    "manifest cut off": [cut("manifest", i / CUTS) for i in range(CUTS)],
    "manifest with one bit flipped": [flipped("manifest", seed, fitting=False) for seed in range(FLIPS)],
    "manifest with a field of the wrong type or range": [manifest_field(f, v) for f in FIELDS for v in STRANGE_VALUES],
    "manifest that is not plain JSON": [
        *(manifest_text(text) for text in (
            b"", b"null", b"[]", b"{}", b"0", b"\xff\xfe{}", b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"{" * 100_000,
            b"[" * 100_000, b'{"schema": 1}', b'{"schema": ' + b"9" * 10_000 + b"}", b'{"a":' * 50_000, bytes(1000), b"\x00{}",
        )),
        *(manifest_replaced(b'"alpha": 0.001', b'"alpha": ' + n) for n in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"0.001.1")),
        manifest_replaced(b'"seed": 1', b'"seed": 1, "seed": 2'),
        manifest_replaced(b'"weights": "', b'"weights": "0", "weights": "'),
        manifest_replaced(b'"seed": 1', b'"seed": 1, "extra": 1'),
        manifest_replaced(b'"seed": 1,', b""),
    ],
    "manifest that asks for too much": [
        manifest_field("inputs", ["ab" * 32] * 2),
        manifest_field("classes", 2**16),
        manifest_field("samples", 2**32),
        manifest_field("selection_samples", 2**32),
        manifest_field("samples", 2**32 - 1),
        manifest_field("seed", 2**64),
        manifest_field("input_shape", [2**20, 2**20]),
        manifest_field("input_shape", [1] * 33),
        manifest_field("looks", [1] * 20_000),
        manifest_field("numerics", {str(i): "x" for i in range(1000)}),
        manifest_field("numerics", {"device": "x" * 10_000}),
        manifest_field("numerics", {"batch_size": "32, 99999999999"}),
        manifest_field("numerics", {"device": "cpu\u001b[2J"}),
        lambda store: rewrite_manifest(store, lambda m: m | {"classes": 2**16 - 1, "inputs": [f"{i:064x}" for i in range(5000)]}),
        instead("manifest", lambda path: sparse(path, limits.MANIFEST_BYTES + 1)),
    ],
    "part names that leave the folder": [
        manifest_field("parts", [name])
        for name in ("../part.parquet", "/etc/passwd", "part-../../x.parquet", "part-" + "0" * 63 + "/.parquet", "", "part-.parquet",
                     "part-" + "A" * 64 + ".parquet", "part-" + "0" * 64 + ".parquet\n", "part-" + "0" * 64 + ".parquet")
    ],
    "part cut off, renamed to fit": [cut("part", i / CUTS) for i in range(CUTS)],
    "part with one bit flipped": [flipped("part", seed, fitting=False) for seed in range(50)],
    "part with one bit flipped, renamed to fit": [flipped("part", seed, fitting=True) for seed in range(FLIPS)],
    "part with rows that cannot be": [
        every_row(start=-1), every_row(start=2**32), every_row(start=2**62), every_row(length=0), every_row(length=-5),
        every_row(length=lambda r: r.length + 1), every_row(length=2**40), every_row(seconds=float("nan")), every_row(seconds=float("inf")),
        every_row(seconds=-1.0), every_row(counts=lambda r: r.counts + 1), every_row(counts=lambda r: -r.counts),
        every_row(counts=lambda r: r.counts[::-1].copy()), every_row(counts=np.array([2**62] * 3)),
        every_row(votes=lambda r: np.full_like(r.votes, 7)), every_row(votes=lambda r: r.votes[:-1]),
        every_row(votes=lambda r: r.votes[:0], length=0, counts=np.zeros(3, np.int64)),
        column("stream", first("fresh")), column("stream", first("calibration")), column("stream", first("ESTIMATION")), column("stream", first("")),
        column("votes", first(None)), column("counts", first(None)), column("input", first(None)), column("start", first(None)),
        column("votes", lambda v: [[None, *v[0][1:]], *v[1:]]),
    ],
    "part with another schema": [
        column("votes", list, pa.list_(pa.uint16())), column("votes", list, pa.list_(pa.int64())), column("votes", lambda v: ["x"] * len(v), pa.string()),
        column("counts", list, pa.list_(pa.int64())), column("counts", list, pa.list_(pa.float64(), 3)), column("start", list, pa.int32()),
        column("start", list, pa.float64()), column("length", lambda v: list(map(str, v)), pa.string()),
        column("input", lambda v: [b"x" * 31] * len(v), pa.binary(31)), column("input", lambda v: [x.hex() for x in v], pa.string()),
        table(lambda t: t.drop_columns(["votes"])), table(lambda t: t.drop_columns(["counts"])), table(lambda t: t.rename_columns(list("abcdefg"))),
        table(lambda t: t.append_column("extra", t["start"])), table(lambda t: t.select(t.column_names[::-1])),
        table(lambda t: t.replace_schema_metadata({})), table(lambda t: t.replace_schema_metadata({"recert.context": b"\xff\xfe"})),
        table(lambda t: t.replace_schema_metadata({"recert.context": "0" * 64})), table(lambda t: t.slice(0, 0)),
        lambda store: put_part(store, b"not parquet"), lambda store: put_part(store, b""), lambda store: put_part(store, b"PAR1" + bytes(100) + b"PAR1"),
        lambda store: put_part(store, b"PAR1" + (2**31 - 1).to_bytes(4, "little") + b"PAR1"),
    ],
    "parts that contradict each other": [
        second_part(turned), second_part(lambda r: replace(turned(r), start=5)), second_part(lambda r: replace(r, start=r.length - 1)),
        table(lambda t: pa.concat_tables([t, t.slice(0, 1).set_column(2, "start", pa.array([3]))])),
    ],
    "parts with gaps that cannot be": [
        with_nulls(0), with_nulls(-1), with_nulls(0, -1), with_nulls(*range(20)), with_nulls(*range(19)), with_nulls(5, fitting=False),
        with_nulls(5), with_nulls(5, 6, 7), with_nulls(*range(1, 19)), with_nulls(5, at_6=7), with_nulls(5, at_6=254), with_nulls(5, at_6=255),
        with_nulls(5, at_6=255, fitting=False), with_nulls(5, start=-1), with_nulls(5, start=2**32), with_nulls(5, start=2**62),
        with_nulls(5, start=2**63 - 1), with_nulls(5, start=1), column("counts", lambda v: [[None, *v[0][1:]], *v[1:]]),
        column("votes", lambda v: [[None] * len(v[0]), *v[1:]]), column("votes", lambda v: [[], *v[1:]]),
        rows_beside(([3, 9, 20], True)), rows_beside(([3, 9, 20], False)), rows_beside(([299, 400], True)), rows_beside(([299, 400], False)),
        rows_beside(([400, 402], True), ([401, 402], True)), rows_beside(([400, 402], True), ([402, 405], False)),
        rows_beside(([400, 402], True), ([400, 402], True)), rows_beside(([400, 402], True), ([401, 403], True)),
        rows_beside(([2**32 - 3, 2**32 - 1], True)), rows_beside(([2**32 - 2, 2**32], True)), manifest_field("samples", 0),
        manifest_field("selection_samples", 0), lambda store: rewrite_manifest(store, lambda m: m | {"samples": 0, "selection_samples": 0}),
    ],
    "parts that unpack to far more than they are": [
        bomb(honest_footer=True), bomb(honest_footer=False), bomb(honest_footer=True, nulls=True), bomb(honest_footer=False, nulls=True), many_rows(limits.PART_ROWS + 1),
        instead("part", lambda path: sparse(path, limits.PART_BYTES + 1)),
    ],
    "links, pipes, devices and folders instead of files": [
        *(instead(name, make) for name in ("manifest", "part") for make in (
            lambda path: os.symlink("/dev/zero", path), lambda path: os.symlink("/etc/hostname", path), lambda path: os.symlink(path, path),
            lambda path: os.symlink("nowhere", path), os.mkfifo, os.mkdir,
        )),
        stranger("part-nonsense.parquet", b"x"), stranger("part-.parquet", b""),
        stranger("part-" + hashlib.sha256(b"x").hexdigest() + ".parquet", b"x"),
    ],
}  # fmt: skip
COUNT = sum(map(len, HOSTILE.values()))
