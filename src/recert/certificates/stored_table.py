"""Tables from result files. A small file may ask for more memory than there is, so its pages are looked at before they are unpacked."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recert import parquet_pages

FILE_BYTES = 2**30
ROWS = 2**21
"""Twice as many inputs as a cache may have: a result may be about inputs that are in no cache."""
BYTES = 2**31
"""Of all columns, once unpacked."""
TEXT = 512
"""Characters of one text. A text that is stored once may stand in every row."""


def read_table(path: Path) -> pa.Table:
    """The table in a Parquet file; ValueError if it would take more memory than a result of ours, ArrowInvalid if it is none."""
    if (size := path.stat().st_size) > FILE_BYTES:
        raise ValueError(f"one of {size:,} bytes, more than {FILE_BYTES:,}")
    data = path.read_bytes()
    schema = pq.ParquetFile(pa.BufferReader(data)).schema_arrow
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    # Each different text once, until it is known how long they are.
    file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
    _check_size(data, file.metadata)
    table = file.read()
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            _check_texts(field.name, table[place])
            table = table.set_column(place, field.name, table[place].cast(field.type.value_type))
    return table


def _check_size(data: bytes, metadata: Any) -> None:
    values = [0] * metadata.num_columns
    size = 0
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            # The footer states these numbers, too, but the reader follows the page headers.
            held, unpacks_to = parquet_pages.unpacked(data, metadata.row_group(group).column(number))
            values[number], size = values[number] + held, size + unpacks_to
    largest = max(values, default=0)  # with the entries of dictionaries, of which there are no more than rows
    if metadata.num_rows > ROWS or largest > 2 * ROWS or size > BYTES:
        raise ValueError(
            f"one that unpacks to {metadata.num_rows:,} rows, {largest:,} values in a column and {size:,} bytes, "
            f"more than {ROWS:,}, {2 * ROWS:,} or {BYTES:,}"
        )


def _check_texts(name: str, column: pa.ChunkedArray) -> None:
    longest = max((pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0 for chunk in column.chunks), default=0)
    if longest > TEXT:
        raise ValueError(f"one with a text of {longest:,} bytes in column {name}, more than {TEXT}")
