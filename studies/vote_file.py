"""Votes of one network on disk: a single Parquet file, about a seventh of a byte per vote, so that it travels easily."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from recert.cache.directory import Directory
from recert.errors import CorruptCache
from recert.noise import Stream
from recert.votes import Votes, vote_dtype

ABOUT = b"recert.study.votes"


@dataclass
class About:
    """Whose votes they are, and what they cost. Inputs are known by their place in `digests`."""

    network: str
    approximation: str
    noise: str
    seed: int
    data: str
    classes: int
    input_shape: tuple[int, ...]
    digests: list[str]
    indices: list[int]
    labels: list[int]
    clean: list[int]
    """Answers to the inputs without noise."""
    identity: dict[str, str]
    numerics: dict[str, str]
    description: str
    facts: dict[str, str] = field(default_factory=dict)
    passes: int = 0
    seconds: float = 0.0
    seconds_per_pass: float = 0.0
    """In the fastest second or so of all: others may have used the device at other times."""


class Slots:
    """Votes by input and stream, and which of them are known."""

    def __init__(self, classes: int) -> None:
        self._dtype = vote_dtype(classes)
        self._slots: dict[tuple[int, Stream], tuple[Votes, NDArray[np.bool_]]] = {}

    def reserve(self, position: int, stream: Stream, size: int) -> tuple[Votes, NDArray[np.bool_]]:
        """Votes and flags, grown to at least this size."""
        key = position, stream
        votes, known = self._slots.get(key, (np.zeros(0, self._dtype), np.zeros(0, bool)))
        if size > len(votes):
            more = size - len(votes)
            votes, known = np.append(votes, np.zeros(more, self._dtype)), np.append(known, np.zeros(more, bool))
            self._slots[key] = votes, known
        return votes, known

    def items(self) -> list[tuple[int, Stream, Votes, NDArray[np.bool_]]]:
        return [(p, s, *self._slots[p, s]) for p, s in sorted(self._slots)]

    @property
    def known(self) -> int:
        return sum(int(flags.sum()) for _, flags in self._slots.values())


def write_votes(path: Path, about: About, slots: Slots) -> None:
    """Put the whole file in place, or nothing of it."""
    rows = [row for row in slots.items() if row[3].any()]
    table = pa.table(
        {
            "input": pa.array([p for p, _, _, _ in rows], pa.int32()),
            "stream": pa.array([s.name.lower() for _, s, _, _ in rows]),
            "length": pa.array([len(votes) for _, _, votes, _ in rows], pa.int64()),
            "known": pa.array([b"" if known.all() else np.packbits(known).tobytes() for _, _, _, known in rows]),
            "votes": pa.array(
                [votes[known] for _, _, votes, known in rows], pa.list_(pa.from_numpy_dtype(vote_dtype(about.classes)))
            ),
        }
    ).replace_schema_metadata({ABOUT: json.dumps(asdict(about))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=64, compression="zstd", compression_level=3, write_page_checksum=True)
    Directory(path.parent).write(path.name, sink.getvalue().to_pybytes())


def read_votes(path: Path) -> tuple[About, Slots]:
    """What `write_votes` wrote."""
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        about = _about(json.loads((table.schema.metadata or {})[ABOUT]))
        slots = Slots(about.classes)
        for row in range(table.num_rows):
            _fill(slots, *(table[name][row] for name in ("input", "stream", "length", "known", "votes")))
    except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise CorruptCache(f"{path} is not a file of votes: {error}; delete it and draw them again") from error
    return about, slots


def _fill(slots: Slots, position: Any, stream: Any, length: Any, mask: Any, drawn: Any) -> None:
    votes, known = slots.reserve(position.as_py(), Stream[stream.as_py().upper()], length.as_py())
    bits = mask.as_py()
    known[:] = np.unpackbits(np.frombuffer(bits, np.uint8), count=len(known)).astype(bool) if bits else True
    votes[known] = drawn.values.to_numpy()


def _about(fields: dict[str, Any]) -> About:
    about = About(**fields)
    about.input_shape = tuple(about.input_shape)
    return about
