"""Which votes a cache holds, in memory or in its parts."""

import bisect
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recert.cache import limits, parts
from recert.cache.directory import Directory
from recert.errors import CorruptCache, IncompleteCache
from recert.noise import Stream
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
        """Take rows up; those of a stored part keep their votes on disk."""
        for row in rows:
            slot = self._rows[row.digest, row.stream]
            at = bisect.bisect_left(slot, row.start, key=lambda entry: entry[0].start)
            following = slot[at][0] if at < len(slot) else None
            if following is not None and (row.start, row.length) == (following.start, following.length):
                if not np.array_equal(following.counts, row.counts):
                    raise CorruptCache(
                        f"{part} and another part hold different votes for input {row.digest[:12]}; remove one"
                    )
                continue
            beside = [slot[at - 1][0]] if at else []
            _check_no_overlap([*beside, row, *([] if following is None else [following])], part)
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

    def _require(self, digest: str, stream: Stream, samples: int) -> None:
        gaps = self.missing(digest, stream, samples)
        if gaps:
            raise IncompleteCache(
                f"input {digest[:12]} lacks {sum(map(len, gaps))} of {samples} {stream.name.lower()} votes; "
                "run the same certify again: it continues where it stopped"
            )

    def _read_part(self, name: str) -> dict[tuple[str, Stream, int], Votes | None]:
        return {(row.digest, row.stream, row.start): row.votes for row in self.read(name)}


def _check_no_overlap(rows: list[parts.Row], part: str | None) -> None:
    for before, after in itertools.pairwise(rows):
        if before.end > after.start:
            raise CorruptCache(
                f"{part or 'a part'} holds samples {after.start} to {before.end} of input {after.digest[:12]} "
                "that another part holds too; delete one of them"
            )
