"""Rows with gaps: what is written, read, counted and refused; and that rows without gaps are written as they always were."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recert import Cache
from recert.cache import merging, parts, writer
from recert.cache.arrays import PAGE, VoteArrays
from recert.cache.parts import Row
from recert.cache.samples import Samples, as_array, common, gaps, places, simplified
from recert.cache.votes import VoteTable
from recert.cache.writer import PartWriter
from recert.errors import CorruptCache, IncompleteCache
from recert.noise import Stream
from recert.votes import count_votes, nobody, vote_dtype
from tests.cache.stores import make, rewrite_rows

OLD_STORE = Path(__file__).parent / "old_store"
MANY = settings(max_examples=100, deadline=None, derandomize=True)
DIGEST = "ab" * 32
TRUTH = np.random.default_rng(0).choice([0, 1, 2, 255], size=120).astype(np.uint8)


def row(samples: Samples, truth: np.ndarray = TRUTH, classes: int = 3, stream: Stream = Stream.FRESH) -> Row:
    return Row.of(DIGEST, stream, samples, truth[as_array(samples)], 0.25, classes)


def scattered(*samples: int) -> Samples:
    return simplified(np.array(samples, dtype=np.int64))


def before_there_were_gaps(rows: Sequence[Row], classes: int, context: str) -> bytes:
    """How parts were encoded when every sample of a row was drawn."""
    columns = {
        "input": [bytes.fromhex(row.digest) for row in rows],
        "stream": [row.stream.name.lower() for row in rows],
        "start": [row.start for row in rows],
        "length": [row.length for row in rows],
        "counts": [row.counts for row in rows],
        "seconds": [row.seconds for row in rows],
        "votes": [row.votes for row in rows],
    }
    schema = pa.schema(
        {
            "input": pa.binary(32), "stream": pa.string(), "start": pa.int64(), "length": pa.int64(),
            "counts": pa.list_(pa.int64(), classes), "seconds": pa.float64(),
            "votes": pa.list_(pa.from_numpy_dtype(vote_dtype(classes))),
        }
    )  # fmt: skip
    table = pa.table(columns, schema=schema.with_metadata({"recert.context": context}))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, row_group_size=1, compression="zstd", compression_level=3, use_dictionary=True, write_page_checksum=True
    )  # fmt: skip
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("classes", [2, 10, 300])
def test_parts_without_gaps_have_the_same_bytes_as_before(classes: int) -> None:
    rng = np.random.default_rng(classes)
    rows = []
    for number, length in enumerate((1, 7, 5_000, 40_000)):
        votes = rng.integers(0, classes, length).astype(vote_dtype(classes))
        votes[rng.random(length) < 0.01] = nobody(votes.dtype)
        stream = (Stream.SELECTION, Stream.ESTIMATION)[number % 2]
        rows.append(Row(f"{number:064x}", stream, 3 * number, length, count_votes(votes, classes), 0.1 * number, votes))
    name, data = parts.encode(rows, classes, "context")
    assert data == before_there_were_gaps(rows, classes, "context")
    assert name == f"part-{hashlib.sha256(data).hexdigest()}.parquet"


def test_a_store_of_an_earlier_version_opens_and_would_be_written_alike() -> None:
    """Its votes are known by a formula; and its parts, encoded again, are the same bytes but for what Arrow signs with."""
    cache = Cache.open(OLD_STORE)
    assert cache.verify() == []
    i, j = np.indices((3, 50))
    expected = {Stream.ESTIMATION: (i + j * j * 7 % 13) % 4 - 1, Stream.SELECTION: ((2 * i + j) % 4 - 1)[:, :10]}
    for stream, votes in expected.items():
        for digest, truth in zip(cache.digests, votes, strict=True):
            found = cache.votes(digest, stream).astype(int)
            assert np.where(found == 255, -1, found).tolist() == truth.tolist()
    for name in cache.part_names():
        data, rows = cache.part(name)
        ours = parts.encode(rows, 3, cache.manifest.context)[1]
        if pq.read_metadata(pa.BufferReader(data)).created_by == pq.read_metadata(pa.BufferReader(ours)).created_by:
            assert ours == data


@pytest.mark.parametrize("votes", [[None, 1, 2], [0, 1, None], [None, None, None], [None, 1, None]])
def test_rows_that_begin_or_end_with_a_gap_are_refused(votes: list[int | None]) -> None:
    """So that a set of samples is written in one way only."""
    rows = {
        "input": [bytes(32)], "stream": ["fresh"], "start": [5], "length": [3], "seconds": [0.0], "votes": [votes],
        "counts": [[votes.count(vote) for vote in range(3)]],
    }  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows, schema=parts.schema(3).with_metadata({parts.CONTEXT: "context"})), sink)
    data = sink.getvalue().to_pybytes()
    with pytest.raises(CorruptCache, match="row 0 begins or ends with a sample that was not drawn"):
        parts.decode(f"part-{hashlib.sha256(data).hexdigest()}.parquet", data, "context", 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"start": [0, 2**63 - 1]}, "row 1 holds 3 samples from 9223372036854775807 on"),
        ({"start": [0, 2**32 - 2]}, "row 1 holds 3 samples from 4294967294 on"),
        ({"length": [3, 2]}, "row 1 has 3 votes where it says 2"),
        ({"seconds": [0.0, float("nan")]}, "row 1 took nan seconds"),
        ({"stream": ["fresh", None]}, "row 1 has no stream"),
        ({"counts": [[1, 1, 1], [1, None, 1]]}, "row 1 has no value in its counts"),
        ({"counts": [[1, 1, 1], [2, 0, 1]]}, "counts of input 000000000000 do not match its votes"),
        ({"votes": [[0, 1, 2], [0, 1, 3]]}, "row 1 has votes for class 3 of 3"),
    ],
)
def test_a_part_says_which_of_its_rows_cannot_be(changed: dict[str, Any], message: str) -> None:
    rows = {
        "input": [bytes(32)] * 2, "stream": ["fresh"] * 2, "start": [0, 9], "length": [3] * 2, "seconds": [0.0] * 2,
        "votes": [[0, 1, 2]] * 2, "counts": [[1, 1, 1]] * 2,
    }  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows | changed, schema=parts.schema(3).with_metadata({parts.CONTEXT: "context"})), sink)
    data = sink.getvalue().to_pybytes()
    with pytest.raises(CorruptCache, match=message):
        parts.decode(f"part-{hashlib.sha256(data).hexdigest()}.parquet", data, "context", 3)


def test_only_the_first_votes_are_counted_where_rows_lie_across_each_other() -> None:
    table = VoteTable(None, "context", 3)
    table.add([row(scattered(0, 1, *range(9, 20))), row(range(2, 4))], None)
    assert table.counts(DIGEST, Stream.FRESH, 4, 3).tolist() == count_votes(TRUTH[:4], 3).tolist()


@pytest.mark.parametrize("changed", [{"samples": 0, "looks": ()}, {"selection_samples": 0}])
def test_a_manifest_promises_both_kinds_of_votes_or_none(tmp_path: Path, changed: dict[str, Any]) -> None:
    manifest = make(tmp_path, slice(0, 1)).manifest
    assert replace(manifest, samples=0, selection_samples=0, looks=()).wanted(Stream.ESTIMATION) == 0
    with pytest.raises(ValueError, match="samples and selection_samples both 0 or both at least 1"):
        replace(manifest, **changed)


subsets = st.sets(st.integers(0, 119), min_size=1).map(lambda chosen: scattered(*sorted(chosen)))


@MANY
@given(st.lists(subsets, min_size=1, max_size=5), st.sampled_from([3, 254, 300]))
def test_rows_with_gaps_survive_a_part(chosen: list[Samples], classes: int) -> None:
    truth = TRUTH.astype(vote_dtype(classes))
    truth[TRUTH == 255] = nobody(truth.dtype)
    rows = [replace(row(samples, truth, classes), digest=f"{i:064x}") for i, samples in enumerate(chosen)]
    name, data = parts.encode(rows, classes, "context")
    for before, after in zip(rows, parts.decode(name, data, "context", classes), strict=True):
        assert (after.digest, after.stream, after.start, after.length) == (
            before.digest, Stream.FRESH, before.start, before.length,
        )  # fmt: skip
        assert type(after.samples) is type(before.samples)
        assert as_array(after.samples).tolist() == as_array(before.samples).tolist()
        assert after.votes is not None
        assert after.votes.tolist() == truth[as_array(before.samples)].tolist()
        assert after.counts.tolist() == count_votes(truth[as_array(before.samples)], classes).tolist()


@MANY
@given(st.lists(subsets, min_size=1, max_size=8), st.integers(0, 130))
def test_a_table_of_scattered_rows_knows_what_it_holds(chosen: list[Samples], stop: int) -> None:
    """Rows across each other are taken up if no sample is in two; equal rows once; all others are refused and change nothing."""
    table, taken = VoteTable(None, "context", 3), list[set[int]]()
    for samples in chosen:
        new = set(as_array(samples).tolist())
        if any(new & other for other in taken) and new not in taken:
            with pytest.raises(CorruptCache, match="holds votes of input abab"):
                table.add([row(samples)], None)
        else:
            table.add([row(samples)], None)
            taken += [] if new in taken else [new]
    known = set().union(*taken)
    missing = [sample for gap in table.missing(DIGEST, Stream.FRESH, stop) for sample in gap]
    assert missing == sorted(set(range(stop)) - known)
    assert table.totals(Stream.FRESH) == (len(known), 0.25 * len(taken))
    if missing:
        with pytest.raises(IncompleteCache, match=f"lacks {len(missing)} of {stop} fresh votes"):
            table.counts(DIGEST, Stream.FRESH, stop, 3)
    whole = next(i for i in range(121) if i not in known)
    assert table.votes(DIGEST, Stream.FRESH, whole).tolist() == TRUTH[:whole].tolist()
    assert table.counts(DIGEST, Stream.FRESH, whole, 3).tolist() == count_votes(TRUTH[:whole], 3).tolist()
    for start in (0, 30, 100):
        expected = [each for each in taken if min(each) < start + 10 and max(each) >= start]
        found = [set(as_array(r.samples).tolist()) for r in table.known(DIGEST, Stream.FRESH, start, start + 10)]
        assert sorted(map(sorted, found)) == sorted(map(sorted, expected))


def test_the_same_scattered_samples_must_have_the_same_votes() -> None:
    table = VoteTable(None, "context", 3)
    table.add([row(scattered(3, 8, 20))], None)
    other = row(scattered(3, 8, 20), (TRUTH + 1).astype(np.uint8) % 3)
    with pytest.raises(CorruptCache, match=r"hold different votes for input .* \(fresh, samples 3 to 20\)"):
        table.add([other], None)


@MANY
@given(subsets, subsets, st.integers(0, 125))
def test_sets_of_samples(one: Samples, other: Samples, stop: int) -> None:
    """Against Python's own sets; with ranges and arrays mixed."""
    a, b = set(as_array(one).tolist()), set(as_array(other).tolist())
    both = common(one, other)
    assert as_array(both).tolist() == sorted(a & b)
    assert np.array_equal(as_array(one)[places(both, one)], as_array(both))
    if not a & b:
        found = gaps([one, other], stop)
        assert [sample for gap in found for sample in gap] == sorted(set(range(stop)) - a - b)
        assert all(len(gap) for gap in found)


def test_gaps_of_a_huge_promise_cost_little() -> None:
    """A manifest may ask for four thousand million votes where a row holds two."""
    table = VoteTable(None, "context", 3)
    table.add([row(scattered(3, 8))], None)
    assert table.missing(DIGEST, Stream.FRESH, 2**32 - 1) == [range(3), range(4, 8), range(9, 2**32 - 1)]


def written(pieces: Sequence[tuple[Samples, int]], **limits: int) -> list[list[Row]]:
    """Rows that a writer makes of scattered samples, each piece `chunk` votes at a time."""
    closed: list[list[Row]] = []
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(writer, name, value)
        to = PartWriter(3, closed.append)
        for samples, chunk in pieces:
            for start in range(0, len(samples), chunk):
                here = as_array(samples)[start : start + chunk]
                to.add_scattered(DIGEST, Stream.FRESH, here, here.astype(np.uint8) % 3, 0.5 * len(here))
        to.flush()
    return closed


def test_chunks_of_scattered_samples_make_one_row() -> None:
    samples = np.array([0, 4, 5, 11, 30, 31, 32, 1_056])
    for chunk in (1, 3, 8):
        ((found,),) = written([(samples, chunk)])
        assert as_array(found.samples).tolist() == samples.tolist()
        assert found.seconds == 4.0
        assert found.votes is not None
        assert found.votes.tolist() == (samples.astype(np.uint8) % 3).tolist()
    ((dense,),) = written([(np.arange(5, 25), 7)])
    assert (dense.known, dense.start, dense.length) == (None, 5, 20)


def test_samples_far_apart_are_rows_of_their_own() -> None:
    assert (writer.LARGEST_GAP, writer.LONGEST_WITH_GAPS) == (2**10, 2**20)
    for chunk in (1, 2, 100):
        (rows,) = written([(np.array([0, 11, 23, 24, 35, 47]), chunk)], LARGEST_GAP=10)
        assert [as_array(r.samples).tolist() for r in rows] == [[0, 11], [23, 24, 35], [47]]
        (rows,) = written([(np.arange(0, 40, 3), chunk)], LONGEST_WITH_GAPS=16)
        assert [as_array(r.samples).tolist() for r in rows] == [
            [0, 3, 6, 9, 12, 15], [18, 21, 24, 27, 30], [33, 36, 39],
        ]  # fmt: skip
    (rows,) = written([(np.array([50, 60]), 2), (np.array([40, 70]), 2)])  # what comes later begins earlier
    assert [as_array(r.samples).tolist() for r in rows] == [[50, 60], [40, 70]]


def test_nulls_and_rows_fill_a_part() -> None:
    closed = written([(np.arange(0, 100, 10), 1)], VOTES_PER_PART=31)
    assert [[r.length for r in rows] for rows in closed] == [[31], [31], [11]]
    closed = written([(np.arange(0, 100, 10), 1)], LARGEST_GAP=3, ROWS_PER_PART=4)
    assert [len(rows) for rows in closed] == [5, 5]


def test_merging_joins_what_the_table_lacks_into_one_row() -> None:
    table = VoteTable(None, "context", 3)
    table.add([row(scattered(3, 8, 20)), row(range(30, 40))], None)
    (piece,) = merging._fresh(row(range(0, 35)), table)
    assert as_array(piece.samples).tolist() == sorted(set(range(30)) - {3, 8, 20})
    assert piece.seconds == pytest.approx(0.25 * 27 / 35)
    assert list(merging._fresh(row(scattered(3, 20)), table)) == []
    new = row(scattered(50, 52))
    assert next(merging._fresh(new, table)) is new
    wrong = row(scattered(8, 50), ((TRUTH + 1) % 3).astype(np.uint8))
    with pytest.raises(CorruptCache, match=r"different votes for input .* \(fresh, samples 8 to 8\)"):
        list(merging._fresh(wrong, table))


def test_merging_rows_without_gaps_leaves_rows_without_gaps() -> None:
    table = VoteTable(None, "context", 3)
    table.add([row(range(10, 20)), row(range(30, 40))], None)
    assert [piece.samples for piece in merging._fresh(row(range(0, 50)), table)] == [
        range(0, 10), range(20, 30), range(40, 50),
    ]  # fmt: skip


def test_a_gap_in_a_complete_store_is_a_missing_vote(tmp_path: Path) -> None:
    """And the same certify draws just these votes."""
    cache = make(tmp_path)
    before = {digest: cache.votes(digest).tolist() for digest in cache.digests}

    def with_gap(whole: Row) -> Row:
        return whole.part_about(np.delete(np.arange(whole.start, whole.end), [3, 7])) if whole.length > 20 else whole

    rewrite_rows(tmp_path, with_gap)
    opened = Cache.open(tmp_path)
    assert {(stream, gap) for _, stream, gap in opened.missing()} == {
        (Stream.ESTIMATION, range(3, 4)), (Stream.ESTIMATION, range(7, 8)),
    }  # fmt: skip
    assert len(Cache.diagnose(tmp_path)) == 6
    with pytest.raises(IncompleteCache, match="lacks 2 of 300 estimation votes"):
        _ = opened.certificates
    again = make(tmp_path)
    assert {digest: again.votes(digest).tolist() for digest in again.digests} == before
    assert Cache.open(tmp_path).certificates.radius.tolist() == cache.certificates.radius.tolist()


def test_memory_follows_the_votes_that_are_known() -> None:
    """A store from somebody else may hold any sample index: arrays that reach from 0 to it would take gigabytes."""
    arrays, slot = VoteArrays(10), ("a" * 64, Stream.ESTIMATION)
    samples = np.array([3, PAGE - 1, PAGE, 2**31, 2**32 - 2], dtype=np.int64)
    arrays.put(slot, samples, np.array([1, 2, 3, 4, 5], dtype=np.uint8))
    assert len(arrays._pages) == 4
    assert arrays.votes(slot, samples).tolist() == [1, 2, 3, 4, 5]
    assert arrays.votes(slot, range(PAGE - 1, PAGE + 1)).tolist() == [2, 3]
    assert arrays.unknown(slot, np.array([2, 3, PAGE, 2**32 - 3])).tolist() == [2, 2**32 - 3]
    assert len(arrays._pages) == 4, "asking takes none"
