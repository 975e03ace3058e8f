"""Votes in a store: drawn once, exact after a reload, refused where they would be mixed up."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recert import Gaussian, Numerics, RecertError
from recert.errors import CorruptCache, MissingVotes, StoreBusy
from recert.noise import Stream
from recert.sampling import Work, collect
from studies.baseline_votes import BaselineVotes
from studies.request import Clock, OutOfTime
from studies.stores import ABOUT, About, StudyVotes
from tests.studies.conftest import Coins, OpenStore, about


def test_every_vote_is_drawn_once_and_comes_back_as_it_was(open_store: OpenStore) -> None:
    coins, sparse = Coins(), np.array([3, 5, 900])
    works = [Work(2, Stream.ESTIMATION, range(500)), Work(4, Stream.FRESH, sparse)]
    with open_store(coins) as votes:
        drawn = collect(votes, works, "drawing")
        collect(votes, [Work(2, Stream.ESTIMATION, range(600))], "drawing")
    assert coins.asked == 500 + 3 + 100
    with open_store(None) as again:  # no network: everything comes from the store
        for work, old in zip(works, drawn, strict=True):
            np.testing.assert_array_equal(collect(again, [work], "reading")[0].votes, old.votes)
            truth = coins.truth(work.position, work.stream, 1_000)[np.asarray(work.samples)]
            np.testing.assert_array_equal(old.votes, truth)


def test_what_is_missing_is_said_when_nothing_may_be_drawn(open_store: OpenStore) -> None:
    with open_store(Coins()) as votes:
        collect(votes, [Work(0, Stream.FRESH, np.array([1, 3]))], "drawing")
    with open_store(None) as votes, pytest.raises(MissingVotes, match=r"1 .*votes"):
        collect(votes, [Work(0, Stream.FRESH, np.array([1, 2, 3]))], "reading")


def test_a_store_that_is_not_there_cannot_be_computed_from(open_store: OpenStore) -> None:
    with pytest.raises(MissingVotes, match="no-draw"):
        open_store(None)


def test_an_interrupted_draw_keeps_what_it_had(open_store: OpenStore) -> None:
    works = [Work(i, Stream.ESTIMATION, range(1_000)) for i in range(5)]
    with pytest.raises(KeyboardInterrupt), open_store(Coins(limit=2_500)) as votes:
        collect(votes, works, "drawing")
    rest = Coins()
    with open_store(rest) as votes:
        drawn = collect(votes, works, "drawing")
    # Some of those that were kept are drawn again, to see that they are the same.
    assert 3_000 <= rest.asked <= 3_000 + 64
    for i, answer in enumerate(drawn):
        np.testing.assert_array_equal(answer.votes, rest.truth(i, Stream.ESTIMATION, 1_000))


def test_the_clock_stops_a_draw_and_keeps_what_it_had(open_store: OpenStore) -> None:
    class Over(Clock):
        def check(self) -> None:
            if coins.asked >= 2_000:
                raise OutOfTime("over")

    coins, works = Coins(), [Work(i, Stream.FRESH, range(1_000)) for i in range(12)]
    with pytest.raises(OutOfTime), open_store(coins, clock=Over()) as votes:
        collect(votes, works, "drawing")
    assert coins.asked == 2_000
    with open_store(None) as votes:
        assert len(collect(votes, works[:2], "reading")) == 2


def test_no_network_is_opened_when_the_time_is_over(open_store: OpenStore, tmp_path: Path) -> None:
    over, coins = Clock(minutes=1, started=time.monotonic() - 120), Coins()
    with pytest.raises(OutOfTime):
        open_store(coins, clock=over)
    with open_store(coins) as votes:  # now there is a store, and the network is opened when a vote is missing
        collect(votes, [Work(0, Stream.FRESH, range(9))], "drawing")
    opened: list[int | None] = []
    with (
        StudyVotes(
            tmp_path / "original",
            count=12,
            open_network=lambda size: opened.append(size) or (coins, about(coins)),
            clock=over,
        ) as votes,
        pytest.raises(OutOfTime),
    ):
        collect(votes, [Work(0, Stream.FRESH, range(10))], "drawing")
    assert opened == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": "others"}, "identity|weights|model"),
        ({"seed": 7}, "seed"),
        ({"noise": Gaussian(1.0)}, "noise"),
        ({"digests": ["0" * 64] * 12}, "inputs"),
        ({"numerics": Numerics.from_text({"device": "elsewhere", "dtype": "float32"})}, "device"),
    ],
)
def test_votes_of_two_kinds_are_not_mixed(open_store: OpenStore, fields: dict[str, Any], message: str) -> None:
    with open_store(Coins()) as votes:
        collect(votes, [Work(0, Stream.FRESH, range(10))], "drawing")
    with pytest.raises(RecertError, match=message), open_store(Coins(**fields)) as votes:
        collect(votes, [Work(0, Stream.FRESH, range(20))], "drawing")


def test_other_numerics_are_joined_when_that_is_allowed(open_store: OpenStore) -> None:
    with open_store(Coins()) as votes:
        collect(votes, [Work(0, Stream.FRESH, range(10))], "drawing")
    coins = Coins(numerics=Numerics.from_text({"device": "elsewhere", "dtype": "float32"}))
    with open_store(coins, allow_numerics=True) as votes:
        collect(votes, [Work(0, Stream.FRESH, range(20))], "drawing")
        assert votes.numerics.text("device") == "coins, elsewhere"
    assert coins.asked == 10


def test_more_votes_are_drawn_with_the_batch_size_of_those_there(open_store: OpenStore, tmp_path: Path) -> None:
    coins, sizes = Coins(numerics=Numerics.from_text({"device": "coins", "batch_size": "48"})), []

    def open_network(batch_size: int | None) -> tuple[Coins, About]:
        sizes.append(batch_size)
        return coins, about(coins)

    for samples in (10, 20):
        with StudyVotes(tmp_path / "original", count=12, open_network=open_network, clock=Clock()) as votes:
            collect(votes, [Work(0, Stream.FRESH, range(samples))], "drawing")
    assert sizes == [None, 48]


@pytest.mark.parametrize("content", ["", "[]", '{"network": "coins"}', "\x00"])
def test_a_damaged_note_about_the_votes_is_refused(open_store: OpenStore, content: str) -> None:
    with open_store(Coins()) as votes:
        collect(votes, [Work(0, Stream.FRESH, range(10))], "drawing")
    (votes.path / ABOUT).write_text(content)
    with pytest.raises(CorruptCache, match="does not say whose votes"):
        open_store(None)


def test_damaged_votes_are_refused(open_store: OpenStore) -> None:
    with open_store(Coins()) as votes:
        collect(votes, [Work(0, Stream.FRESH, range(5_000))], "drawing")
    (part,) = votes.path.glob("*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 8] ^= 0xFF
    part.write_bytes(data)
    with pytest.raises(CorruptCache), open_store(None) as votes:
        collect(votes, [Work(0, Stream.FRESH, range(5_000))], "reading")


def test_equal_images_have_equal_votes_and_rows_of_their_own(open_store: OpenStore) -> None:
    twice = [*Coins().digests[:2], Coins().digests[0], *Coins().digests[2:4]]
    with open_store(Coins(digests=twice), count=5) as votes:
        first = votes.first(Stream.ESTIMATION, 40)
    with open_store(None, count=5) as votes:
        again = votes.first(Stream.ESTIMATION, 40)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(again[0], again[2])
    np.testing.assert_array_equal(again[3], Coins().truth(3, Stream.ESTIMATION, 40))


def test_more_images_extend_a_store(open_store: OpenStore) -> None:
    with open_store(Coins(digests=Coins().digests[:3]), count=3) as votes:
        collect(votes, [Work(0, Stream.FRESH, range(10))], "drawing")
    coins = Coins()
    with open_store(coins, count=12) as larger:
        assert len(larger.digests) == len(larger.labels) == 12
        collect(larger, [Work(i, Stream.FRESH, range(10)) for i in range(12)], "drawing")
    assert coins.asked == 110
    with open_store(None, count=4) as fewer:
        assert fewer.digests == coins.digests[:4]
        assert len(fewer.labels) == len(fewer.clean) == 4
        for i, drawn in enumerate(collect(fewer, [Work(i, Stream.FRESH, range(10)) for i in range(4)], "reading")):
            np.testing.assert_array_equal(drawn.votes, coins.truth(i, Stream.FRESH, 10))


def test_two_writers_do_not_lose_votes(open_store: OpenStore) -> None:
    first, second = open_store(Coins()), open_store(Coins())
    with first:
        collect(first, [Work(0, Stream.FRESH, range(10))], "drawing")
        with pytest.raises(StoreBusy):
            collect(second, [Work(1, Stream.FRESH, range(10))], "drawing")
    with second:
        collect(second, [Work(1, Stream.FRESH, range(10))], "drawing")
    with open_store(None) as both:
        drawn = collect(both, [Work(i, Stream.FRESH, range(10)) for i in (0, 1)], "reading")
    assert [len(d.votes) for d in drawn] == [10, 10]


def test_a_baseline_sees_cached_noises_first_and_then_fresh_ones(open_store: OpenStore) -> None:
    coins = Coins()
    with open_store(coins) as votes:
        drawn = collect(
            BaselineVotes(votes, prefix=30),
            [Work(1, Stream.FRESH, range(50)), Work(1, Stream.SELECTION, range(5))],
            "drawing",
        )
    cached, fresh = coins.truth(1, Stream.ESTIMATION, 30), coins.truth(1, Stream.FRESH, 20)
    np.testing.assert_array_equal(drawn[0].votes, np.concatenate([cached, fresh]))
    np.testing.assert_array_equal(drawn[1].votes, coins.truth(1, Stream.SELECTION, 5))
