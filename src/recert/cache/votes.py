"""Which votes a cache holds, in memory or in its parts."""

import bisect
import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recert.cache import limits, parts
from recert.errors import CorruptCache, IncompleteCache
from recert.noise import Stream
from recert.storage import Directory
from recert.votes import Votes, count_votes

Slot = tuple[str, Stream]


class VoteTable:
    """Rows of votes by input and stream. Rows of a stored part keep their counts here and their votes on disk."""

    def __init__(self, directory: Directory | None, context: str, classes: int) -> None:
        self._directory = directory
        self._context, self._classes = context, classes
        self._rows: dict[Slot, list[tuple[parts.Row, str | None]]] = defaultdict(list)
        self._part = functools.lru_cache(maxsize=2)(self._read_part)

    def add(self, rows: Iterable[parts.Row], part: str | None) -> None:
        """Take rows up; those of a stored part keep their votes on disk. Rows that are here already must agree."""
        for row in rows:
            slot = self._rows[row.digest, row.stream]
            at = bisect.bisect_left(slot, row.start, key=lambda entry: entry[0].start)
            beside = [entry for entry in slot[max(0, at - 1) : at + 1] if _overlap(entry[0], row)]
            for known, holder in beside:
                self._check_same(known, holder, row, part)
            if not beside:
                slot.insert(at, (row if part is None else replace(row, votes=None), part))

    def read(self, part: str) -> list[parts.Row]:
        """The rows of a stored part, votes and all."""
        assert self._directory is not None
        return parts.decode(part, self._directory.read(part, limits.PART_BYTES), self._context, self._classes)

    def known(self, digest: str, stream: Stream, start: int, end: int) -> list[parts.Row]:
        """Rows, with their votes, that hold any of the samples [start, end)."""
        found = [
            (row, part) for row, part in self._rows.get((digest, stream), []) if row.start < end and start < row.end
        ]
        return [
            row if part is None else replace(row, votes=self._part(part)[digest, stream, row.start])
            for row, part in found
        ]

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

    def _check_same(self, known: parts.Row, holder: str | None, row: parts.Row, part: str | None) -> None:
        """Two parts may hold the same row, after a run that was cut short: then with the same votes."""
        about = f"input {row.digest[:12]} ({row.stream.name.lower()}, samples {row.start} to {row.end - 1})"
        twice = part is not None and holder == part
        if twice or (known.start, known.length) != (row.start, row.length):
            raise CorruptCache(f"{_named(part)} holds votes of {about} that {_named(holder)} holds too; remove one")
        votes = known.votes if holder is None else self._part(holder)[row.digest, row.stream, row.start]
        assert votes is not None
        assert row.votes is not None
        if not np.array_equal(votes, row.votes):
            raise CorruptCache(
                f"{_named(holder)} and {_named(part)} hold different votes for {about}; remove the one that does not belong "
                "here, then run recert cache audit"
            )

    def _require(self, digest: str, stream: Stream, samples: int) -> None:
        gaps = self.missing(digest, stream, samples)
        if gaps:
            raise IncompleteCache(
                f"input {digest[:12]} lacks {sum(map(len, gaps))} of {samples} {stream.name.lower()} votes; "
                "run the same certify again: it continues where it stopped"
            )

    def _read_part(self, name: str) -> dict[tuple[str, Stream, int], Votes | None]:
        return {(row.digest, row.stream, row.start): row.votes for row in self.read(name)}


def _overlap(one: parts.Row, other: parts.Row) -> bool:
    return one.start < other.end and other.start < one.end


def _named(part: str | None) -> str:
    return part or "this cache"
