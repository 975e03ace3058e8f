"""Which votes a cache holds, in memory or in its parts."""

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.cache import limits, parts
from recert.cache.samples import as_array, common, gaps, places
from recert.errors import CorruptCache, IncompleteCache
from recert.noise import Stream
from recert.storage import Directory
from recert.votes import Votes, count_votes, vote_dtype

Slot = tuple[str, Stream]
"""An input, by its digest, and a stream."""
PartVotes = dict[tuple[str, Stream, int], Votes | None]
"""Votes of a part, by the input, the stream and the start of the row."""
COUNTS_KEPT = 4
"""Tables of counts that are remembered: of two streams, for the inputs of one cache or two."""
VOTES_KEPT = 2**26
"""Votes of parts that were read last and stay in memory, at one or two bytes each."""


class VoteTable:
    """Rows of votes by input and stream. Rows of a stored part keep their counts here and their votes on disk.

    The ranges of two rows of one input and stream may overlap, if one has gaps, but no sample is in both.
    """

    def __init__(self, directory: Directory | None, context: str, classes: int) -> None:
        self._directory = directory
        self._context, self._classes = context, classes
        self._rows: dict[Slot, list[tuple[parts.Row, str | None]]] = defaultdict(list)
        # The length of the longest row: no row that reaches a given sample begins earlier than this before it.
        self._longest: dict[Slot, int] = defaultdict(int)
        self._recent: dict[str, PartVotes] = {}
        self._kept = 0
        self._changes = 0
        self._counted: dict[tuple[Any, ...], tuple[int, NDArray[np.int64]]] = {}

    def add(self, rows: Iterable[parts.Row], part: str | None) -> None:
        """Add rows; those of a stored part keep their votes on disk. Rows that are here already must agree."""
        self._changes += 1
        for row in rows:
            key = row.digest, row.stream
            slot = self._rows[key]
            same = [entry for entry in self._across(key, row.start, row.end) if _share_samples(entry[0], row)]
            for known, holder in same:
                self._check_same(known, holder, row, part)
            if not same:
                # In order of their starts, so that rows around a sample are found by bisection.
                at = bisect.bisect_left(slot, row.start, key=_start)
                slot.insert(at, (row if part is None else row.without_votes(), part))
                self._longest[key] = max(self._longest[key], row.length)

    def add_stored(self, names: Iterable[str], refuse: Callable[[CorruptCache], None]) -> None:
        """Add stored parts, in order. What is wrong with one is handed to `refuse`; if that returns, the others are added."""
        found = ((name, self._bytes(name)) for name in names)
        for name, rows in parts.decode_all(found, self._context, self._classes):
            try:
                if isinstance(rows, CorruptCache):
                    raise rows
                self.add(rows, name)
            except CorruptCache as error:
                refuse(error)

    def read(self, part: str) -> list[parts.Row]:
        """The rows of a stored part, votes and all."""
        assert self._directory is not None
        return parts.decode(part, self._directory.read(part, limits.PART_BYTES), self._context, self._classes)

    def _bytes(self, part: str) -> bytes | CorruptCache:
        """A stored part, or why it is not even read."""
        assert self._directory is not None
        try:
            return self._directory.read(part, limits.PART_BYTES)
        except CorruptCache as error:
            return error

    def known(self, digest: str, stream: Stream, start: int, end: int) -> list[parts.Row]:
        """Rows, with their votes, whose range overlaps the samples [start, end)."""
        return [self._with_votes(row, part) for row, part in self._across((digest, stream), start, end)]

    def parts_with(self, digest: str, stream: Stream) -> list[str]:
        """Stored parts that hold votes of an input."""
        return list(dict.fromkeys(part for _, part in self._rows.get((digest, stream), []) if part is not None))

    def missing(self, digest: str, stream: Stream, samples: int) -> list[range]:
        """Sample ranges below `samples` that are not here."""
        return gaps([row.samples for row, _ in self._rows.get((digest, stream), [])], samples)

    def counts(self, digest: str, stream: Stream, samples: int, classes: int) -> NDArray[np.int64]:
        """Votes per class over exactly the first `samples` samples."""
        rows = [row for row, _ in self._rows.get((digest, stream), [])]
        if self._is_whole(rows, samples):
            return rows[0].counts
        self._require(digest, stream, samples)
        if any(row.end > samples for row in rows):  # there are more votes than that: only the first ones are counted
            return count_votes(self.votes(digest, stream, samples), classes)
        return sum((row.counts for row in rows), start=np.zeros(classes, dtype=np.int64))

    def counts_of(
        self, digests: Sequence[str], stream: Stream, samples: Sequence[int], classes: int
    ) -> NDArray[np.int64]:
        """The same of many inputs, inputs x classes. The last ones are remembered: every use of a cache begins with them."""
        asked = (stream, classes, tuple(samples), tuple(digests))
        known = self._counted.get(asked)
        if known is None or known[0] != self._changes:
            each = [self.counts(digest, stream, n, classes) for digest, n in zip(digests, samples, strict=True)]
            known = self._changes, np.array(each, dtype=np.int64).reshape(-1, classes)
            if len(self._counted) >= COUNTS_KEPT:
                self._counted.clear()
            self._counted[asked] = known
        return known[1].copy()

    def votes(self, digest: str, stream: Stream, samples: int, *, copy: bool = True) -> Votes:
        """The first `samples` votes, in sample order. Without a copy they may be the memory that they are kept in."""
        entries = self._rows.get((digest, stream), [])
        if not copy and self._is_whole([row for row, _ in entries], samples):
            held = self._with_votes(*entries[0]).votes
            assert held is not None
            return held
        self._require(digest, stream, samples)
        # Every place is written below: `_require` has seen that no sample is missing.
        votes = np.empty(samples, dtype=vote_dtype(self._classes))
        for row in self.known(digest, stream, 0, samples):
            wanted = common(row.samples, range(samples))
            votes[places(wanted, range(samples))] = row.votes_of(wanted)
        return votes

    def seconds(self, digest: str) -> float:
        """Time spent on the votes of an input that certify it."""
        streams = (Stream.SELECTION, Stream.ESTIMATION)
        return sum(row.seconds for stream in streams for row, _ in self._rows.get((digest, stream), []))

    def totals(self, stream: Stream) -> tuple[int, float]:
        """Votes of a stream over all inputs, and the seconds that they took."""
        rows = [row for (_, of), slot in self._rows.items() if of is stream for row, _ in slot]
        return sum(len(row.samples) for row in rows), sum(row.seconds for row in rows)

    @staticmethod
    def _is_whole(rows: Sequence[parts.Row], samples: int) -> bool:
        """Whether there is one row, of exactly the first `samples` samples, as nearly always."""
        return len(rows) == 1 and rows[0].known is None and rows[0].start == 0 and rows[0].length == samples

    def _across(self, key: Slot, start: int, end: int) -> list[tuple[parts.Row, str | None]]:
        """Entries whose range overlaps the samples [start, end)."""
        # A row that reaches `start` begins after `start` less the longest length: earlier ones need not be looked at.
        slot = self._rows.get(key, [])
        first = bisect.bisect_right(slot, start - self._longest.get(key, 0), key=_start)
        last = bisect.bisect_left(slot, end, key=_start)
        return [entry for entry in slot[first:last] if entry[0].end > start]

    def _with_votes(self, row: parts.Row, part: str | None) -> parts.Row:
        return row if part is None else replace(row, votes=self._part(part)[row.digest, row.stream, row.start])

    def _check_same(self, known: parts.Row, holder: str | None, row: parts.Row, part: str | None) -> None:
        """Two parts may hold the same row, after a run that was interrupted: then with the same votes."""
        about = f"input {row.digest[:12]} ({row.stream.name.lower()}, samples {row.start} to {row.end - 1})"
        # Within one part nothing is written twice: such a part was not written by this library, even if its votes agree.
        twice = part is not None and holder == part
        if twice or not _same_samples(known, row):
            raise CorruptCache(f"{_named(part)} holds votes of {about} that {_named(holder)} holds too; remove one")
        votes = self._with_votes(known, holder).votes
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

    def _part(self, name: str) -> PartVotes:
        """The votes of a part, which then stays in memory for a while: its other inputs are mostly wanted next."""
        if name in self._recent:
            self._recent[name] = self._recent.pop(
                name
            )  # at the end: parts are in the order in which they were last used
            return self._recent[name]
        found = {(row.digest, row.stream, row.start): row.votes for row in self.read(name)}
        self._recent[name] = found
        self._kept += _size(found)
        # Two at least: an input whose drawing was interrupted may be in two parts.
        while self._kept > VOTES_KEPT and len(self._recent) > 2:
            self._kept -= _size(self._recent.pop(next(iter(self._recent))))
        return found


def _size(part: PartVotes) -> int:
    return sum(len(votes) for votes in part.values() if votes is not None)


def _start(entry: tuple[parts.Row, str | None]) -> int:
    return entry[0].start


def _share_samples(one: parts.Row, other: parts.Row) -> bool:
    return len(common(one.samples, other.samples)) > 0


def _same_samples(one: parts.Row, other: parts.Row) -> bool:
    """Rows of one range without gaps are compared by their ends alone."""
    if (one.start, one.length) != (other.start, other.length):
        return False
    return one.known is other.known or np.array_equal(as_array(one.samples), as_array(other.samples))


def _named(part: str | None) -> str:
    return part or "this cache"
