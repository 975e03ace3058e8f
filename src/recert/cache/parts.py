"""One part of a cache: votes of some inputs as a Parquet file whose name carries its own SHA-256."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from recert.cache import limits, pages
from recert.cache.manifest import escaped
from recert.cache.samples import Samples, places
from recert.errors import CorruptCache
from recert.noise import Stream
from recert.noise.keys import LARGEST_SAMPLE
from recert.votes import Votes, count_votes, nobody, vote_dtype

PREFIX, SUFFIX = "part-", ".parquet"
CONTEXT = "recert.context"
STREAMS = {stream.name.lower(): stream for stream in (Stream.SELECTION, Stream.ESTIMATION, Stream.FRESH)}
ROWS_PER_GROUP = 64
"""In parts with gaps, whose rows are short: a row group takes about a kilobyte by itself."""


@dataclass(frozen=True)
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

    def part_about(self, samples: Samples) -> "Row":
        """The same for some of the samples only, which took their share of the seconds."""
        seconds = self.seconds * len(samples) / len(self.samples)
        return Row.of(self.digest, self.stream, samples, self.votes_of(samples), seconds, len(self.counts))


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

    Rows without gaps have a row group each: a reader fetches only what it needs.
    """
    columns = {
        "input": [bytes.fromhex(row.digest) for row in rows],
        "stream": [row.stream.name.lower() for row in rows],
        "start": [row.start for row in rows],
        "length": [row.length for row in rows],
        "counts": [row.counts for row in rows],
        "seconds": [row.seconds for row in rows],
        "votes": _vote_lists(rows, classes),
    }
    gaps = any(row.known is not None for row in rows)
    # The context is part of the hashed bytes: a part of another cache is refused even if its file name is listed here.
    table = pa.table(columns, schema=schema(classes).with_metadata({CONTEXT: context}))
    sink = pa.BufferOutputStream()
    # Votes of one input are mostly equal: a dictionary of classes, then zstd, takes about a bit per vote.
    pq.write_table(
        table,
        sink,
        row_group_size=ROWS_PER_GROUP if gaps else 1,
        compression="zstd",
        compression_level=3,
        use_dictionary=True,
        write_page_checksum=True,
    )
    data = sink.getvalue().to_pybytes()
    return f"{PREFIX}{hashlib.sha256(data).hexdigest()}{SUFFIX}", data


def _vote_lists(rows: Sequence[Row], classes: int) -> pa.ListArray:
    kind = pa.from_numpy_dtype(vote_dtype(classes))
    lists = [pa.array(row.votes, kind) if row.known is None else _with_nulls(row, classes) for row in rows]
    # From arrays, not from Python lists: a list of a hundred thousand numbers per row would take most of the time.
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, pa.concat_arrays(lists) if lists else pa.array([], kind))


def _with_nulls(row: Row, classes: int) -> pa.Array:
    """The votes of all samples in the range: null where none was drawn."""
    votes, unknown = np.zeros(row.length, vote_dtype(classes)), np.ones(row.length, dtype=bool)
    here = places(row.samples, range(row.start, row.end))
    votes[here], unknown[here] = row.votes, False
    return pa.array(votes, mask=unknown)


def is_part(name: str) -> bool:
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def decode(name: str, data: bytes, context: str, classes: int) -> list[Row]:
    """Rows of a part. Its bytes must hash to its name, its counts must be those of its votes: nothing else is ever used."""
    # The hash comes first. A damaged file is then reported as damaged, and no damaged bytes reach the Parquet reader.
    if hashlib.sha256(data).hexdigest() != name[len(PREFIX) : -len(SUFFIX)]:
        raise CorruptCache(
            f"{name} is damaged: its bytes do not match its name; restore it, or delete it and certify again"
        )
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        _check_size(data, file.metadata)
        if (file.schema_arrow.metadata or {}).get(CONTEXT.encode()) != context.encode():
            raise CorruptCache(
                f"{name} belongs to another cache (another model, noise, seed or kind of input); remove it from here"
            )
        _check_schema(file.schema_arrow, schema(classes))
        table = file.read(use_threads=False)
        # In full: offsets of lists and UTF-8 are looked at as well, on which the code below relies.
        table.validate(full=True)
        return [_row(table, i, classes) for i in range(table.num_rows)]
    except (pa.ArrowException, KeyError, ValueError, TypeError, OverflowError, AttributeError, OSError) as error:
        raise CorruptCache(f"{name} is not a part of a cache: {escaped(str(error))}") from error


def _check_size(data: bytes, metadata: Any) -> None:
    """Refuse a decompression bomb (a small file that unpacks to far more than memory holds) before it is unpacked."""
    values = [0] * metadata.num_columns
    size = 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if column.file_path:
                raise ValueError("its columns lie in another file")
            # The footer also states these numbers, but the reader follows the page headers: so they are what is counted.
            held, unpacks_to = pages.unpacked(data, column)
            values[number], size = values[number] + held, size + unpacks_to
    largest = max(values, default=0)
    # Counts, the widest of the long columns, take eight bytes per value.
    if largest > limits.PART_VALUES or size > 8 * limits.PART_VALUES or metadata.num_rows > limits.PART_ROWS:
        raise ValueError(
            f"it would unpack to {largest:,} values, {metadata.num_rows:,} rows and {size:,} bytes, "
            f"more than {limits.PART_VALUES:,} values, {limits.PART_ROWS:,} rows or {8 * limits.PART_VALUES:,} bytes"
        )


def _check_schema(got: pa.Schema, expected: pa.Schema) -> None:
    if not got.equals(expected):
        columns = {field.name: str(field.type) for field in got}
        for field in expected:
            if columns.get(field.name) != str(field.type):
                raise ValueError(f"expected a column {field.name} of {field.type}, got {columns.get(field.name)}")
        raise ValueError(f"expected the columns {', '.join(expected.names)}, got {', '.join(columns)[:100]}")


def _row(table: pa.Table, i: int, classes: int) -> Row:
    values = {name: table[name][i] for name in table.column_names}
    missing = [name for name, value in values.items() if not value.is_valid]
    if missing or values["counts"].values.null_count:
        raise ValueError(f"row {i} has no {missing[0] if missing else 'value in its counts'}")
    start, length, votes = values["start"].as_py(), values["length"].as_py(), values["votes"].values
    _check_range(start, length, len(votes), i)
    row = Row(
        digest=values["input"].as_py().hex(),
        stream=STREAMS[values["stream"].as_py()],
        start=start,
        length=length,
        counts=values["counts"].values.to_numpy(),
        seconds=values["seconds"].as_py(),
        votes=votes.drop_null().to_numpy() if votes.null_count else votes.to_numpy(),
        known=start + _drawn(votes, i) if votes.null_count else None,
    )
    _check_row(row, i, classes)
    return row


def _check_range(start: int, length: int, votes: int, i: int) -> None:
    if votes != length or length < 1:
        raise ValueError(f"row {i} has {votes} votes where it says {length}")
    if start < 0 or start + length > LARGEST_SAMPLE + 1:
        raise ValueError(f"row {i} holds samples {start} to {start + length}, outside of 0 to {LARGEST_SAMPLE}")


def _drawn(votes: pa.Array, i: int) -> NDArray[np.int64]:
    """Places of the votes that are there. Gaps at the ends are refused, so that there is one way only to write a set of samples."""
    drawn = np.flatnonzero(votes.is_valid().to_numpy(zero_copy_only=False))
    if not len(drawn) or (drawn[0], drawn[-1]) != (0, len(votes) - 1):
        raise ValueError(f"row {i} begins or ends with a sample that was not drawn")
    return drawn


def _check_row(row: Row, i: int, classes: int) -> None:
    assert row.votes is not None
    if not 0 <= row.seconds < float("inf"):
        raise ValueError(f"row {i} took {row.seconds} seconds")
    # An invalid vote, of a sample whose logits were not finite, is stored as the largest value of the type: `nobody`.
    invalid = (row.votes >= classes) & (row.votes != nobody(row.votes.dtype))
    if invalid.any():
        raise ValueError(f"row {i} has votes for class {row.votes[invalid][0]} of {classes}")
    if not np.array_equal(count_votes(row.votes, classes), row.counts):
        raise ValueError(f"counts of input {row.digest[:12]} do not match its votes")
