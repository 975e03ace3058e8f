"""The columns of a part as lists of values, one for each row, once it is sure that these can be. All rows are looked at together."""

from dataclasses import dataclass
from itertools import pairwise
from sys import intern
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recert.cache.arrow import to_numpy, with_known
from recert.noise.keys import LARGEST_SAMPLE
from recert.votes import Votes, count_votes, nobody


@dataclass(frozen=True)
class Columns:
    """What the rows of a part say."""

    digests: list[str]
    streams: list[str]
    starts: list[int]
    lengths: list[int]
    counts: NDArray[np.int64]
    """Rows x classes."""
    seconds: list[float]
    votes: list[Votes]
    known: list[NDArray[np.int64] | None]
    """The samples that there are votes for; None where that is all of them."""


def checked(table: pa.Table, classes: int) -> Columns:
    """The columns of a table that Arrow has validated in full. ValueError says what is wrong with a row."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    for name, column in columns.items():
        if column.null_count:
            _refuse(column.is_null(), "row {i} has no {name}", name=name)
    counts = columns["counts"].flatten()
    if counts.null_count:
        _refuse(np.asarray(counts.is_null()).reshape(-1, classes).any(axis=1), "row {i} has no value in its counts")
    starts, lengths, seconds = (to_numpy(columns[name]) for name in ("start", "length", "seconds"))
    offsets = to_numpy(columns["votes"].offsets)
    _check_ranges(starts, lengths, np.diff(offsets))
    _refuse(~((seconds >= 0) & (seconds < np.inf)), "row {i} took {value} seconds", value=seconds)
    votes, known = _votes(columns["votes"].values, offsets, starts)
    held = Columns(
        _digests(columns["input"]), columns["stream"].to_pylist(), starts.tolist(), lengths.tolist(),
        to_numpy(counts).reshape(-1, classes), seconds.tolist(), votes, known,
    )  # fmt: skip
    _check_votes(held, classes)
    return held


def _refuse(wrong: Any, message: str, **about: Any) -> None:
    """ValueError about the first row that is wrong, if there is one."""
    rows = np.asarray(wrong)
    if rows.any():
        i = int(rows.argmax())
        raise ValueError(message.format(i=i, **{k: v if isinstance(v, str) else v[i] for k, v in about.items()}))


def _check_ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64], votes: NDArray[np.int64]) -> None:
    wrong = (votes != lengths) | (lengths < 1)
    _refuse(wrong, "row {i} has {votes} votes where it says {said}", votes=votes, said=lengths)
    # The length is subtracted, not added to the start, which may be near the largest number there is.
    outside = (starts < 0) | (starts > LARGEST_SAMPLE + 1 - lengths)
    message = "row {i} holds {length} samples from {start} on, outside of 0 to " + str(LARGEST_SAMPLE)
    _refuse(outside, message, start=starts, length=lengths)


def _votes(
    values: pa.Array, offsets: NDArray[np.int32], starts: NDArray[np.int64]
) -> tuple[list[Votes], list[NDArray[np.int64] | None]]:
    edges = offsets.tolist()
    if not values.null_count:
        flat = to_numpy(values)
        return [flat[first:end] for first, end in pairwise(edges)], [None] * len(starts)
    flat, drawn = with_known(values)
    votes, known = list[Votes](), list[NDArray[np.int64] | None]()
    for i, (first, end) in enumerate(pairwise(edges)):
        here = drawn[first:end]
        # Gaps at the ends are refused, so that there is one way only to write a set of samples.
        if not (here[0] and here[-1]):
            raise ValueError(f"row {i} begins or ends with a sample that was not drawn")
        whole = here.all()
        votes.append(flat[first:end] if whole else flat[first:end][here])
        known.append(None if whole else int(starts[i]) + np.flatnonzero(here))
    return votes, known


def _digests(inputs: pa.Array) -> list[str]:
    # One text for each input, however many rows and readings it has: with many inputs and few votes, texts take as much as votes.
    return [intern(digest.hex()) for digest in inputs.to_pylist()]


def _check_votes(held: Columns, classes: int) -> None:
    for i, (votes, counts) in enumerate(zip(held.votes, held.counts, strict=True)):
        counted = count_votes(votes, classes)
        if counted.tobytes() == counts.tobytes() and counted.sum() == len(votes):
            continue  # every vote is for one of the classes
        # An invalid vote, of a sample whose logits were not finite, is stored as the largest value of the type: `nobody`.
        invalid = (votes >= classes) & (votes != nobody(votes.dtype))
        if invalid.any():
            raise ValueError(f"row {i} has votes for class {votes[invalid][0]} of {classes}")
        if not np.array_equal(counted, counts):
            raise ValueError(f"counts of input {held.digests[i][:12]} do not match its votes")
