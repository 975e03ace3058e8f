"""When a part is closed: after so many inputs with enough votes, votes or seconds, whichever comes first; which votes make one row."""

import numpy as np
import pytest

from recert.cache import writer
from recert.cache.parts import Row
from recert.cache.writer import PartWriter
from recert.noise import Stream

SELECTION, ESTIMATION = Stream.SELECTION, Stream.ESTIMATION


class Clock:
    """Time that stands still until it is told."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(writer, "time", clock)
    return clock


@pytest.fixture
def parts() -> list[list[Row]]:
    return []


def digest(number: int) -> str:
    return f"{number:064x}"


def add(to: PartWriter, number: int, start: int = 0, count: int = 4, stream: Stream = ESTIMATION) -> None:
    """Votes that tell which samples they are of."""
    to.add(digest(number), stream, start, np.arange(start, start + count).astype(np.uint8) % 3, 0.25)


def spans(rows: list[Row]) -> list[tuple[int, str, int, int]]:
    return [(int(row.digest, 16), row.stream.name, row.start, row.end) for row in rows]


def test_a_part_is_closed_with_the_first_input_beyond_its_number(
    clock: Clock, parts: list[list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs are counted, not rows or chunks; the part that follows counts anew. They have enough votes here."""
    monkeypatch.setattr(writer, "VALUES_PER_PART", 100)
    gather = PartWriter(3, parts.append)
    closed_after = []
    for number in range(60):
        for stream in (SELECTION, ESTIMATION):
            for start in (0, 4):
                before = len(parts)
                add(gather, number, start, stream=stream)
                closed_after += [(number, stream, start)] * (len(parts) - before)
    assert writer.INPUTS_PER_PART == 25
    assert [(number, stream) for number, stream, _ in closed_after] == [(25, SELECTION), (50, SELECTION)]
    gather.flush()
    assert [len({row.digest for row in part}) for part in parts] == [26, 26, 10]
    whole = [span for part in parts for span in spans(part)]
    assert sum(end - start for _, _, start, end in whole) == 60 * 2 * 8


def test_inputs_with_few_votes_share_a_part(
    clock: Clock, parts: list[list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of 26 inputs has 104 votes and 25 finished rows of 3 counts; one of 50 inputs 200 votes and 49 such rows."""
    assert writer.VALUES_PER_PART == 2**20
    for values, inputs in ((104 + 75, 26), (104 + 75 + 1, 27), (200 + 147, 50)):
        monkeypatch.setattr(writer, "VALUES_PER_PART", values)
        gather = PartWriter(3, parts.append)
        for number in range(60):
            add(gather, number)
        gather.flush()
        assert [len(part) for part in parts] == [inputs] * (60 // inputs) + [60 % inputs]
        parts.clear()


def test_a_part_is_closed_when_time_is_up(clock: Clock, parts: list[list[Row]]) -> None:
    assert writer.SECONDS_PER_PART == 60
    gather = PartWriter(3, parts.append)
    clock.now += 60
    add(gather, 0)
    assert parts == []  # not yet more than a minute
    clock.now += 0.1
    add(gather, 0, start=4)
    assert [spans(part) for part in parts] == [[(0, "ESTIMATION", 0, 8)]]
    clock.now += 60
    add(gather, 0, start=8)
    assert len(parts) == 1, "the next part has a minute of its own"
    clock.now += 0.1
    add(gather, 1)
    assert [spans(part) for part in parts[1:]] == [[(0, "ESTIMATION", 8, 12), (1, "ESTIMATION", 0, 4)]]


def test_a_minute_begins_when_the_part_before_was_closed_by_hand(clock: Clock, parts: list[list[Row]]) -> None:
    gather = PartWriter(3, parts.append)
    clock.now += 59
    add(gather, 0)
    gather.flush()
    clock.now += 59
    add(gather, 1)
    assert len(parts) == 1


def test_a_part_is_closed_when_it_holds_enough_votes(
    clock: Clock, parts: list[list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Votes of all rows together, the open one included; the part that follows counts anew."""
    assert writer.VOTES_PER_PART == 2**25
    monkeypatch.setattr(writer, "VOTES_PER_PART", 10)
    gather = PartWriter(3, parts.append)
    add(gather, 0, count=4)
    add(gather, 0, start=4, count=3)
    add(gather, 1, count=2)
    assert parts == []
    add(gather, 1, start=2, count=1)
    assert [spans(part) for part in parts] == [[(0, "ESTIMATION", 0, 7), (1, "ESTIMATION", 0, 3)]]
    add(gather, 1, start=3, count=9)
    assert len(parts) == 1
    add(gather, 2, count=30)
    assert [spans(part) for part in parts[1:]] == [[(1, "ESTIMATION", 3, 12), (2, "ESTIMATION", 0, 30)]]


FIRST = (0, 0, ESTIMATION)
FOLLOWERS = {
    "the next samples": ((0, 4, ESTIMATION), True),
    "samples after a gap": ((0, 5, ESTIMATION), False),
    "the same samples again": ((0, 0, ESTIMATION), False),
    "samples that overlap": ((0, 3, ESTIMATION), False),
    "another input": ((1, 4, ESTIMATION), False),
    "another stream": ((0, 4, SELECTION), False),
}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_votes_make_one_row_only_if_they_continue_each_other(name: str, clock: Clock, parts: list[list[Row]]) -> None:
    (number, start, stream), joined = FOLLOWERS[name]
    gather = PartWriter(3, parts.append)
    add(gather, 0)
    add(gather, number, start, stream=stream)
    gather.flush()
    (rows,) = parts
    expected = (
        [(0, "ESTIMATION", 0, 8)] if joined else [(0, "ESTIMATION", 0, 4), (number, stream.name, start, start + 4)]
    )
    assert spans(rows) == expected
    for row in rows:
        assert row.votes is not None
        assert row.votes.tolist() == [sample % 3 for sample in range(row.start, row.end)]
        assert row.counts.tolist() == [row.votes.tolist().count(vote) for vote in range(3)]
        assert row.seconds == 0.25 * row.length / 4


def test_nothing_in_hand_is_no_part(clock: Clock, parts: list[list[Row]]) -> None:
    gather = PartWriter(3, parts.append)
    gather.flush()
    add(gather, 0)
    gather.flush()
    gather.flush()
    assert [spans(part) for part in parts] == [[(0, "ESTIMATION", 0, 4)]]
    add(gather, 0, start=4)  # in a new part even what continues is a row of its own
    gather.flush()
    assert spans(parts[1]) == [(0, "ESTIMATION", 4, 8)]
