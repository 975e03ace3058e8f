"""One part of a cache: votes of some inputs as a Parquet file whose name carries its own SHA-256."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from recert.errors import CorruptCache
from recert.noise import Stream
from recert.votes import Votes

PREFIX, SUFFIX = "part-", ".parquet"
CONTEXT = "recert.context"


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


def encode(rows: Sequence[Row], classes: int, context: str) -> tuple[str, bytes]:
    """A part's file name and bytes, which say whose votes they are. One row group per input: a reader fetches only what it needs."""
    assert all(row.votes is not None for row in rows)
    vote_type = pa.from_numpy_dtype(rows[0].votes.dtype)  # type: ignore[union-attr]
    table = pa.table(
        {
            "input": pa.array([bytes.fromhex(row.digest) for row in rows], pa.binary(32)),
            "stream": pa.array([row.stream.name.lower() for row in rows]),
            "start": pa.array([row.start for row in rows], pa.int64()),
            "length": pa.array([row.length for row in rows], pa.int64()),
            "counts": pa.array([row.counts for row in rows], pa.list_(pa.int64(), classes)),
            "seconds": pa.array([row.seconds for row in rows], pa.float64()),
            "votes": pa.array([row.votes for row in rows], pa.list_(vote_type)),
        }
    )
    table = table.replace_schema_metadata({CONTEXT: context})
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


def decode(name: str, data: bytes, context: str, *, with_votes: bool) -> list[Row]:
    """Rows of a part. Its bytes must hash to its name: a damaged part is never used."""
    if hashlib.sha256(data).hexdigest() != name[len(PREFIX) : -len(SUFFIX)]:
        raise CorruptCache(
            f"{name} is damaged: its bytes do not match its name; restore it, or delete it and certify again"
        )
    columns = ["input", "stream", "start", "length", "counts", "seconds", *(["votes"] if with_votes else [])]
    try:
        table = pq.read_table(pa.BufferReader(data), columns=columns)
        if (table.schema.metadata or {}).get(CONTEXT.encode(), b"").decode() != context:
            raise CorruptCache(
                f"{name} belongs to another cache (another model, noise, seed or kind of input); remove it from here"
            )
        return [_row(table, i, with_votes) for i in range(table.num_rows)]
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise CorruptCache(f"{name} is not a part of a cache: {error}") from error


def _row(table: pa.Table, i: int, with_votes: bool) -> Row:
    votes = table["votes"][i].values.to_numpy() if with_votes else None
    length = table["length"][i].as_py()
    if votes is not None and len(votes) != length:
        raise ValueError(f"row {i} has {len(votes)} votes where it says {length}")
    return Row(
        digest=table["input"][i].as_py().hex(),
        stream=Stream[table["stream"][i].as_py().upper()],
        start=table["start"][i].as_py(),
        length=length,
        counts=table["counts"][i].values.to_numpy(),
        seconds=table["seconds"][i].as_py(),
        votes=votes,
    )
