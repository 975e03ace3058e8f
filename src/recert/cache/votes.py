"""Which votes a cache holds, in memory or in its parts."""

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from recert.cache import parts
from recert.cache.directory import Directory
from recert.errors import CorruptCache, IncompleteCache
from recert.noise import Stream
from recert.votes import Votes, count_votes

Slot = tuple[str, Stream]


class VoteTable:
    """Rows of votes by input and stream. Rows of a stored part keep their counts here and their votes on disk."""

    def __init__(self, directory: Directory | None, context: str) -> None:
        self._directory = directory
        self._context = context
        self._rows: dict[Slot, list[tuple[parts.Row, str | None]]] = defaultdict(list)
        self._part = functools.lru_cache(maxsize=2)(self._read_part)

    def add(self, rows: Iterable[parts.Row], part: str | None) -> None:
        for row in rows:
            slot = self._rows[row.digest, row.stream]
            same = next((other for other, _ in slot if (row.start, row.length) == (other.start, other.length)), None)
            if same is not None:
                if not np.array_equal(same.counts, row.counts):
                    raise CorruptCache(
                        f"{part} and another part hold different votes for input {row.digest[:12]}; remove one"
                    )
                continue
            slot.append((row, part))
            slot.sort(key=lambda entry: entry[0].start)
            _check_no_overlap([entry[0] for entry in slot], part)

    def missing(self, digest: str, stream: Stream, samples: int) -> list[range]:
        """Sample ranges below `samples` that are not here."""
        gaps, reached = [], 0
        for row, _ in self._rows.get((digest, stream), []):
            if row.start > reached:
                gaps.append(range(reached, min(row.start, samples)))
            reached = row.end
        gaps.append(range(reached, samples))
        return [gap for gap in gaps if len(gap)]

    def counts(self, digest: str, stream: Stream, samples: int, classes: int) -> NDArray[np.int64]:
        """Votes per class over exactly the first `samples` samples."""
        self._require(digest, stream, samples)
        rows = [row for row, _ in self._rows.get((digest, stream), [])]
        if rows and rows[-1].end > samples:  # an extension was interrupted: only whole prefixes are counted
            return count_votes(self.votes(digest, stream, samples), classes)
        return (
            np.sum([row.counts for row in rows], axis=0, dtype=np.int64) if rows else np.zeros(classes, dtype=np.int64)
        )

    def votes(self, digest: str, stream: Stream, samples: int) -> Votes:
        """The first `samples` votes, in sample order."""
        self._require(digest, stream, samples)
        pieces = []
        for row, part in self._rows.get((digest, stream), []):
            if row.start < samples:
                votes = row.votes if part is None else self._part(part)[digest, stream, row.start]
                assert votes is not None
                pieces.append(votes[: samples - row.start])
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint8)

    def seconds(self, digest: str) -> float:
        """Time spent on the votes of an input."""
        return sum(row.seconds for stream in Stream for row, _ in self._rows.get((digest, stream), []))

    def _require(self, digest: str, stream: Stream, samples: int) -> None:
        gaps = self.missing(digest, stream, samples)
        if gaps:
            raise IncompleteCache(
                f"input {digest[:12]} lacks {sum(map(len, gaps))} of {samples} {stream.name.lower()} votes; "
                "run the same certify again: it continues where it stopped"
            )

    def _read_part(self, name: str) -> dict[tuple[str, Stream, int], Votes | None]:
        assert self._directory is not None
        rows = parts.decode(name, self._directory.read(name), self._context, with_votes=True)
        return {(row.digest, row.stream, row.start): row.votes for row in rows}


def _check_no_overlap(rows: list[parts.Row], part: str | None) -> None:
    for before, after in itertools.pairwise(rows):
        if before.end > after.start:
            raise CorruptCache(
                f"{part or 'a part'} holds samples {after.start} to {before.end} of input {after.digest[:12]} "
                "that another part holds too; delete one of them"
            )
