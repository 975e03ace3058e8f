"""Votes that are kept: drawn once, exact after a reload, refused where they would be mixed up."""

import time
from pathlib import Path

import numpy as np
import pytest

from recert.errors import CorruptCache, StoreBusy
from recert.noise import Stream
from recert.sampling import Work, collect
from recert.studies.from_scratch import FromScratch
from recert.studies.kept import KeptVotes
from recert.studies.request import Clock, MissingVotes, OutOfTime
from recert.studies.vote_file import read_votes
from tests.studies.conftest import Coins, Keep, about


def test_every_vote_is_drawn_once_and_comes_back_as_it_was(keep: Keep) -> None:
    coins = Coins()
    votes, sparse = keep(coins), np.array([3, 5, 900])
    drawn = collect(votes, [Work(2, Stream.ESTIMATION, range(500)), Work(4, Stream.FRESH, sparse)], "drawing")
    collect(votes, [Work(2, Stream.ESTIMATION, range(600))], "drawing")
    assert coins.asked == 500 + 3 + 100 == votes.about.passes
    votes.save()
    again = keep(None)  # no network: everything comes from the file
    for work, old in zip([Work(2, Stream.ESTIMATION, range(500)), Work(4, Stream.FRESH, sparse)], drawn, strict=True):
        np.testing.assert_array_equal(collect(again, [work], "reading")[0].votes, old.votes)
        truth = coins.truth(work.position, work.stream, 1_000)[np.asarray(work.samples)]
        np.testing.assert_array_equal(old.votes, truth)


def test_what_is_missing_is_said_when_nothing_may_be_drawn(keep: Keep) -> None:
    votes = keep(Coins())
    collect(votes, [Work(0, Stream.FRESH, np.array([1, 3]))], "drawing")
    votes.save()
    with pytest.raises(MissingVotes, match="lacks 1 more votes"):
        collect(keep(None), [Work(0, Stream.FRESH, np.array([1, 2, 3]))], "reading")


def test_an_interrupted_draw_keeps_what_it_had(keep: Keep) -> None:
    coins, works = Coins(limit=2_500), [Work(i, Stream.ESTIMATION, range(1_000)) for i in range(5)]
    votes = keep(coins)
    with pytest.raises(KeyboardInterrupt):
        collect(votes, works, "drawing")
    votes.save()
    rest = Coins()
    drawn = collect(keep(rest), works, "drawing")
    assert rest.asked == 3_000
    for i, answer in enumerate(drawn):
        np.testing.assert_array_equal(answer.votes, rest.truth(i, Stream.ESTIMATION, 1_000))


def test_the_clock_stops_a_draw_and_keeps_what_it_had(keep: Keep) -> None:
    class Over(Clock):
        def check(self) -> None:
            if coins.asked >= 2_000:
                raise OutOfTime("over")

    coins = Coins()
    votes = keep(coins, clock=Over())
    with pytest.raises(OutOfTime):
        collect(votes, [Work(i, Stream.FRESH, range(1_000)) for i in range(12)], "drawing")
    assert votes.about.passes == coins.asked == 2_000


def test_no_network_is_opened_when_the_time_is_over(keep: Keep) -> None:
    over, coins = Clock(minutes=1, started=time.monotonic() - 120), Coins()
    with pytest.raises(OutOfTime):
        keep(coins, clock=over)
    keep(coins).save()  # with a file, the network is opened when a vote is missing
    opened: list[int | None] = []
    votes = KeptVotes(keep(coins).path, 12, lambda size: opened.append(size) or (coins, about(coins)), over)
    with pytest.raises(OutOfTime):
        collect(votes, [Work(0, Stream.FRESH, range(10))], "drawing")
    assert opened == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"identity": {"weights": "others", "structure": ""}}, "another identity"),
        ({"seed": 7}, "another seed"),
        ({"noise": "gaussian:1.0"}, "another noise"),
        ({"digests": ["0"] * 12}, "other inputs"),
        ({"numerics": {"device": "elsewhere", "dtype": "float32"}}, "device coins \\(here elsewhere\\)"),
    ],
)
def test_votes_of_two_kinds_are_not_mixed(keep: Keep, fields: dict[str, object], message: str) -> None:
    collect(votes := keep(Coins()), [Work(0, Stream.FRESH, range(10))], "drawing")
    votes.save()
    with pytest.raises(MissingVotes, match=message):
        collect(keep(Coins(), **fields), [Work(0, Stream.FRESH, range(20))], "drawing")


def test_more_images_extend_a_file(keep: Keep) -> None:
    collect(votes := keep(Coins(), count=3, digests=Coins().digests[:3]), [Work(0, Stream.FRESH, range(10))], "drawing")
    votes.save()
    coins = Coins()
    larger = keep(coins, count=12)
    assert len(larger.digests) == 12
    collect(larger, [Work(i, Stream.FRESH, range(10)) for i in range(12)], "drawing")
    assert coins.asked == 110


def test_two_writers_do_not_lose_votes(keep: Keep) -> None:
    first, second = keep(Coins()), keep(Coins())
    collect(first, [Work(0, Stream.FRESH, range(10))], "drawing")
    with pytest.raises(StoreBusy):
        collect(second, [Work(1, Stream.FRESH, range(10))], "drawing")
    first.save()
    collect(second, [Work(1, Stream.FRESH, range(10))], "drawing")
    second.save()
    both = keep(None)
    assert [len(d.votes) for d in collect(both, [Work(i, Stream.FRESH, range(10)) for i in (0, 1)], "reading")] == [
        10,
        10,
    ]


def test_a_damaged_file_is_refused(keep: Keep, tmp_path: Path) -> None:
    collect(votes := keep(Coins()), [Work(0, Stream.FRESH, range(5_000))], "drawing")
    votes.save()
    data = bytearray(votes.path.read_bytes())
    data[len(data) // 8] ^= 0xFF
    votes.path.write_bytes(data)
    with pytest.raises((CorruptCache, OSError)):
        read_votes(votes.path)


def test_a_baseline_sees_cached_noises_first_and_then_fresh_ones(keep: Keep) -> None:
    coins = Coins()
    scratch = FromScratch(keep(coins), prefix=30)
    drawn = collect(scratch, [Work(1, Stream.FRESH, range(50)), Work(1, Stream.SELECTION, range(5))], "drawing")
    cached, fresh = coins.truth(1, Stream.ESTIMATION, 30), coins.truth(1, Stream.FRESH, 20)
    np.testing.assert_array_equal(drawn[0].votes, np.concatenate([cached, fresh]))
    np.testing.assert_array_equal(drawn[1].votes, coins.truth(1, Stream.SELECTION, 5))
