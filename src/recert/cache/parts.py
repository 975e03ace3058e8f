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
from recert.errors import CorruptCache
from recert.noise import Stream
from recert.noise.keys import LARGEST_SAMPLE
from recert.votes import Votes, count_votes, nobody, vote_dtype

PREFIX, SUFFIX = "part-", ".parquet"
CONTEXT = "recert.context"
STREAMS = {stream.name.lower(): stream for stream in (Stream.SELECTION, Stream.ESTIMATION)}


@dataclass(frozen=True)
class Row:
    """Votes of one input for samples [start, start + len(votes)) of a stream; votes may be left on disk."""

    digest: str
    stream: Stream
    start: int
    length: int
    counts: NDArray[np.int64]
    seconds: float
    votes: Votes | None = None

    @property
    def end(self) -> int:
        return self.start + self.length


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
    """A part's file name and bytes, which say whose votes they are. One row group per input: a reader fetches only what it needs."""
    columns = {
        "input": [bytes.fromhex(row.digest) for row in rows],
        "stream": [row.stream.name.lower() for row in rows],
        "start": [row.start for row in rows],
        "length": [row.length for row in rows],
        "counts": [row.counts for row in rows],
        "seconds": [row.seconds for row in rows],
        "votes": [row.votes for row in rows],
    }
    table = pa.table(columns, schema=schema(classes).with_metadata({CONTEXT: context}))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=1,
        compression="zstd",
        compression_level=3,
        use_dictionary=True,
        write_page_checksum=True,
    )
    data = sink.getvalue().to_pybytes()
    return f"{PREFIX}{hashlib.sha256(data).hexdigest()}{SUFFIX}", data


def is_part(name: str) -> bool:
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def decode(name: str, data: bytes, context: str, classes: int) -> list[Row]:
    """Rows of a part. Its bytes must hash to its name, its counts must be those of its votes: nothing else is ever used."""
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
        table.validate(full=True)
        return [_row(table, i, classes) for i in range(table.num_rows)]
    except (pa.ArrowException, KeyError, ValueError, TypeError, OverflowError, AttributeError, OSError) as error:
        raise CorruptCache(f"{name} is not a part of a cache: {escaped(str(error))}") from error


def _check_size(data: bytes, metadata: Any) -> None:
    """Refuse a bomb before it is unpacked."""
    values = [0] * metadata.num_columns
    size = 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if column.file_path:
                raise ValueError("its columns lie in another file")
            held, unpacks_to = pages.unpacked(data, column)
            values[number], size = values[number] + held, size + unpacks_to
    largest = max(values, default=0)
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
    if missing or values["votes"].values.null_count or values["counts"].values.null_count:
        raise ValueError(f"row {i} has no {missing[0] if missing else 'value in its votes or counts'}")
    votes, counts = values["votes"].values.to_numpy(), values["counts"].values.to_numpy()
    row = Row(
        digest=values["input"].as_py().hex(),
        stream=STREAMS[values["stream"].as_py()],
        start=values["start"].as_py(),
        length=values["length"].as_py(),
        counts=counts,
        seconds=values["seconds"].as_py(),
        votes=votes,
    )
    _check_row(row, i, classes)
    return row


def _check_row(row: Row, i: int, classes: int) -> None:
    assert row.votes is not None
    if len(row.votes) != row.length or row.length < 1:
        raise ValueError(f"row {i} has {len(row.votes)} votes where it says {row.length}")
    if row.start < 0 or row.end > LARGEST_SAMPLE + 1:
        raise ValueError(f"row {i} holds samples {row.start} to {row.end}, outside of 0 to {LARGEST_SAMPLE}")
    if not 0 <= row.seconds < float("inf"):
        raise ValueError(f"row {i} took {row.seconds} seconds")
    strange = (row.votes >= classes) & (row.votes != nobody(row.votes.dtype))
    if strange.any():
        raise ValueError(f"row {i} has votes for class {row.votes[strange][0]} of {classes}")
    if not np.array_equal(count_votes(row.votes, classes), row.counts):
        raise ValueError(f"counts of input {row.digest[:12]} do not match its votes")
