"""One part of a cache: votes of some inputs as a Parquet file whose name carries its own SHA-256."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from recert import parquet_pages
from recert.cache import arrow, columns, limits
from recert.cache.manifest import escaped
from recert.cache.samples import Samples, places
from recert.errors import CorruptCache
from recert.noise import Stream
from recert.votes import Votes, count_votes, vote_dtype

PREFIX, SUFFIX = "part-", ".parquet"
CONTEXT = "recert.context"
STREAMS = {stream.name.lower(): stream for stream in (Stream.SELECTION, Stream.ESTIMATION, Stream.FRESH)}
ROWS_PER_GROUP = 64
"""In parts with gaps, whose rows are short. A row group takes about a kilobyte by itself."""
VOTES_PER_GROUP = 2**16
"""In parts of more rows than that without gaps: where rows are short, a group has many of them."""
SMALL = 2**12
"""Bytes of a single row that is written plain, as a slow network leaves one each minute. Packing would save fewer than dictionaries
and statistics take, and seven columns would have to be unpacked whenever the cache is opened."""
UNPACKED_TOGETHER = 2**20
"""Bytes of small parts that are looked at in one go: what it takes for each of them is more than what it takes for each vote."""
PARTS_TOGETHER = 128
"""At most: each takes some 10 kB of memory however small it is."""


@dataclass(frozen=True, slots=True)
class Row:
    """Votes of one input for samples [start, start + length) of a stream; votes may be left on disk.

    A replay draws scattered samples: then `known` are those that were drawn, the first and the last of the range among them,
    and there are votes for these only.
    """

    digest: str
    stream: Stream
    start: int
    length: int
    counts: NDArray[np.int64]
    seconds: float
    votes: Votes | None = None
    known: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, digest: str, stream: Stream, samples: Samples, votes: Votes, seconds: float, classes: int) -> "Row":
        """A row about these samples, which increase."""
        known = None if isinstance(samples, range) else samples
        start, end = int(samples[0]), int(samples[-1]) + 1
        return cls(digest, stream, start, end - start, count_votes(votes, classes), seconds, votes, known)

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def samples(self) -> Samples:
        """The samples that there are votes for."""
        return range(self.start, self.end) if self.known is None else self.known

    def votes_of(self, samples: Samples) -> Votes:
        """Votes for some of the samples."""
        assert self.votes is not None
        return self.votes[places(samples, self.samples)]

    def without_votes(self) -> "Row":
        """The same with the votes left where they are stored."""
        return Row(
            self.digest, self.stream, self.start, self.length, self.counts, self.seconds, known=self.known
        )  # not by `replace`: this is done for every row that is read

    def part_about(self, samples: Samples) -> "Row":
        """The same for some of the samples only, which took their share of the seconds."""
        seconds = self.seconds * len(samples) / len(self.samples)
        return Row.of(self.digest, self.stream, samples, self.votes_of(samples), seconds, len(self.counts))


@lru_cache(maxsize=8)
def schema(classes: int) -> pa.Schema:
    """Columns of a part."""
    return pa.schema(
        {
            "input": pa.binary(32),
            "stream": pa.string(),
            "start": pa.int64(),
            "length": pa.int64(),
            "counts": pa.list_(pa.int64(), classes),
            "seconds": pa.float64(),
            "votes": pa.list_(pa.from_numpy_dtype(vote_dtype(classes))),
        }
    )


def encode(rows: Sequence[Row], classes: int, context: str) -> tuple[str, bytes]:
    """A part's file name and bytes, with the context of its votes. A sample that was not drawn is a null among the votes.

    Long rows without gaps have a row group each: a reader fetches only what it needs.
    """
    wanted = schema(classes)
    counts = arrow.numbers([count for row in rows for count in row.counts], pa.int64())
    values = [
        arrow.digests([bytes.fromhex(row.digest) for row in rows], wanted.field("input").type),
        arrow.texts([row.stream.name.lower() for row in rows]),
        arrow.numbers([row.start for row in rows], pa.int64()),
        arrow.numbers([row.length for row in rows], pa.int64()),
        pa.FixedSizeListArray.from_arrays(counts, type=wanted.field("counts").type),
        arrow.numbers([row.seconds for row in rows], pa.float64()),
        _vote_lists(rows, classes),
    ]
    # The context is part of the hashed bytes: a part of another cache is refused even if its file name is listed here.
    table = pa.Table.from_arrays(values, schema=wanted.with_metadata({CONTEXT: context}))
    sink = pa.BufferOutputStream()
    # Votes of one input are mostly equal: a dictionary of classes, then zstd, takes about a bit per vote.
    form: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "use_dictionary": True}
    if len(rows) == 1 and table.nbytes <= SMALL:
        form = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, sink, row_group_size=_rows_per_group(rows), write_page_checksum=True, **form)
    data = sink.getvalue().to_pybytes()
    return f"{PREFIX}{hashlib.sha256(data).hexdigest()}{SUFFIX}", data


def _rows_per_group(rows: Sequence[Row]) -> int:
    if any(row.known is not None for row in rows):
        return ROWS_PER_GROUP
    # Few rows are a small file in any form: it stays the one that earlier versions wrote.
    few = len(rows) <= ROWS_PER_GROUP
    return 1 if few else max(1, VOTES_PER_GROUP * len(rows) // sum(row.length for row in rows))


def _vote_lists(rows: Sequence[Row], classes: int) -> pa.ListArray:
    kind = pa.from_numpy_dtype(vote_dtype(classes))
    lists = [arrow.numbers(row.votes, kind) if row.known is None else _with_nulls(row, classes) for row in rows]
    # From arrays, not from Python lists: a list of a hundred thousand numbers per row would take most of the time.
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int32)
    return pa.ListArray.from_arrays(
        arrow.numbers(offsets, pa.int32()), pa.concat_arrays(lists) if lists else arrow.numbers([], kind)
    )


def _with_nulls(row: Row, classes: int) -> pa.Array:
    """The votes of all samples in the range: null where none was drawn."""
    votes, unknown = np.zeros(row.length, vote_dtype(classes)), np.ones(row.length, dtype=bool)
    here = places(row.samples, range(row.start, row.end))
    votes[here], unknown[here] = row.votes, False
    return arrow.numbers(votes, pa.from_numpy_dtype(votes.dtype), unknown=unknown)


def is_part(name: str) -> bool:
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def decode(name: str, data: bytes, context: str, classes: int) -> list[Row]:
    """Rows of a part. Its bytes must hash to its name, its counts must be those of its votes: nothing else is ever used."""
    ((_, rows),) = decode_all([(name, data)], context, classes)
    if isinstance(rows, CorruptCache):
        raise rows
    return rows


def decode_all(
    named: Iterable[tuple[str, bytes | CorruptCache]], context: str, classes: int
) -> Iterator[tuple[str, list[Row] | CorruptCache]]:
    """Parts by name, in order, each with its rows or with what is wrong with it. Many small ones are looked at together."""
    waiting: list[tuple[str, pa.Table | CorruptCache]] = []
    unpacked = 0
    for name, data in named:
        try:
            if isinstance(data, CorruptCache):
                raise data
            table, size = _table(name, data, context, classes)
        except CorruptCache as error:
            waiting.append((name, error))
        else:
            waiting.append((name, table))
            unpacked += size
        if unpacked >= UNPACKED_TOGETHER or len(waiting) >= PARTS_TOGETHER:
            yield from _rows_of_each(waiting, classes)
            waiting, unpacked = [], 0
            _release_memory()
    yield from _rows_of_each(waiting, classes)
    waiting.clear()
    _release_memory()


def _release_memory() -> None:
    """Give back what Arrow unpacked into: it would keep tens of megabytes for the next part, which may never be read."""
    pa.default_memory_pool().release_unused()


_UNREADABLE = (pa.ArrowException, KeyError, ValueError, TypeError, OverflowError, AttributeError, OSError)


def _table(name: str, data: bytes, context: str, classes: int) -> tuple[pa.Table, int]:
    """The columns of a part, of the right types, and their bytes; nothing is known of their values yet."""
    # The hash comes first. A damaged file is then reported as damaged, and no damaged bytes reach the Parquet reader.
    if hashlib.sha256(data).hexdigest() != name[len(PREFIX) : -len(SUFFIX)]:
        raise CorruptCache(
            f"{name} is damaged: its bytes do not match its name; restore it, or delete it and certify again"
        )
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        size = _checked_size(data, file.metadata)
        there = file.schema_arrow
        if (there.metadata or {}).get(CONTEXT.encode()) != context.encode():
            raise CorruptCache(
                f"{name} belongs to another cache (another model, noise, seed or kind of input); remove it from here"
            )
        _check_schema(there, schema(classes))
        return file.read(use_threads=False), size
    except _UNREADABLE as error:
        raise _no_part(name, error) from error


def _rows_of_each(
    tables: Sequence[tuple[str, pa.Table | CorruptCache]], classes: int
) -> Iterator[tuple[str, list[Row] | CorruptCache]]:
    """Rows of each part, or what is wrong with it."""
    good = [table for _, table in tables if not isinstance(table, CorruptCache)]
    try:
        rows = _rows(good, classes)
    except _UNREADABLE as error:
        if len(tables) == 1:
            yield tables[0][0], _no_part(tables[0][0], error)
            return
        for each in tables:  # alone, to find which of them is none
            yield from _rows_of_each([each], classes)
        return
    end = 0
    for name, table in tables:
        if isinstance(table, CorruptCache):
            yield name, table
        else:
            start, end = end, end + len(table)
            yield name, rows[start:end]


def _rows(tables: Sequence[pa.Table], classes: int) -> list[Row]:
    """The rows of all tables, once it is sure that these can be."""
    if not tables:
        return []
    table = pa.concat_tables(tables)
    # In full: offsets of lists and UTF-8 are looked at as well, on which the code below relies.
    table.validate(full=True)
    held = columns.checked(table, classes)
    streams = [STREAMS[name] for name in held.streams]
    return list(
        map(Row, held.digests, streams, held.starts, held.lengths, held.counts, held.seconds, held.votes, held.known)
    )


def _no_part(name: str, error: Exception) -> CorruptCache:
    return CorruptCache(f"{name} is not a part of a cache: {escaped(str(error))}")


def _checked_size(data: bytes, metadata: Any) -> int:
    """Bytes once unpacked. A decompression bomb (a small file that unpacks to far more than memory holds) is refused before it is."""
    values = [0] * metadata.num_columns
    size = 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if column.file_path:
                raise ValueError("its columns lie in another file")
            # The footer also states these numbers, but the reader follows the page headers: so they are what is counted.
            held, unpacks_to = parquet_pages.unpacked(data, column)
            values[number], size = values[number] + held, size + unpacks_to
    largest = max(values, default=0)
    # Counts, the widest of the long columns, take eight bytes per value.
    if largest > limits.PART_VALUES or size > 8 * limits.PART_VALUES or metadata.num_rows > limits.PART_ROWS:
        raise ValueError(
            f"it would unpack to {largest:,} values, {metadata.num_rows:,} rows and {size:,} bytes, "
            f"more than {limits.PART_VALUES:,} values, {limits.PART_ROWS:,} rows or {8 * limits.PART_VALUES:,} bytes"
        )
    return size


def _check_schema(got: pa.Schema, expected: pa.Schema) -> None:
    if not got.equals(expected):
        there = {field.name: str(field.type) for field in got}
        for field in expected:
            if there.get(field.name) != str(field.type):
                raise ValueError(f"expected a column {field.name} of {field.type}, got {there.get(field.name)}")
        raise ValueError(f"expected the columns {', '.join(expected.names)}, got {', '.join(there)[:100]}")
