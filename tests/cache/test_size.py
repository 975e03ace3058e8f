"""What many inputs with few votes take on disk, and what is said about it before a vote is drawn."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

import recert
from recert import Cache, Gaussian, StoredVotes
from recert.cache import votes as table
from recert.cache.size import expected_bytes
from recert.certificates import certified
from recert.noise import Stream
from recert.storage import Directory
from recert.votes import vote_dtype

STREAMS = (Stream.SELECTION, Stream.ESTIMATION)


def drawn(inputs: int, samples: int, classes: int, sure: float) -> dict[Stream, np.ndarray]:
    """Votes of a model that votes for one class with the given probability, else mostly for a few others."""
    rng = np.random.default_rng(samples + classes)
    found, top = {}, rng.integers(0, classes, (inputs, 1))
    for stream, count in zip(STREAMS, (100, samples), strict=True):
        away = np.where(rng.random((inputs, count)) < sure, 0, rng.geometric(0.4, (inputs, count)))
        found[stream] = (top + away) % classes
    return found


def stored(store: Path, votes: dict[Stream, np.ndarray], classes: int) -> Cache:
    selection, estimation = (votes[stream] for stream in STREAMS)
    source = StoredVotes(estimation, selection=selection, classes=classes)
    return recert.certify(
        source, None, noise=Gaussian(0.5), samples=estimation.shape[1], selection_samples=100, store=store
    )


def disk(store: Path) -> int:
    return sum(file.stat().st_size for file in store.iterdir())


def test_many_inputs_with_few_votes_take_few_bytes(tmp_path: Path) -> None:
    votes = drawn(600, 300, 10, 0.7)
    cache = stored(tmp_path, votes, 10)
    assert len(cache.part_names()) == 1
    assert cache.stored_bytes < 600 * 400 * 1.0
    opened = Cache.open(tmp_path)
    assert opened.verify() == []
    for stream, truth in votes.items():
        assert [opened.votes(digest, stream).tolist() for digest in cache.digests] == truth.tolist()
        assert opened.counts(stream).tolist() == [np.bincount(row, minlength=10).tolist() for row in truth]


@pytest.mark.parametrize(
    ("inputs", "samples", "classes", "sure"),
    [
        (600, 300, 10, 0.7), (600, 300, 10, 0.99), (3_000, 200, 10, 0.5), (10, 300, 10, 0.7), (200, 300, 1_000, 0.7),
        (100, 5_000, 10, 0.7), (40, 50_000, 10, 0.9), (4, 100_000, 300, 0.7),
    ],
)  # fmt: skip
def test_the_size_of_a_store_is_known_before(
    tmp_path: Path, inputs: int, samples: int, classes: int, sure: float
) -> None:
    """Within a fifth, from 64 other votes of 32 inputs."""
    stored(tmp_path, drawn(inputs, samples, classes, sure), classes)
    tried = drawn(32, 64, classes, sure)[Stream.ESTIMATION].astype(vote_dtype(classes))
    expected = expected_bytes(list(tried), classes, inputs, {Stream.SELECTION: 100, Stream.ESTIMATION: samples})
    assert expected == pytest.approx(disk(tmp_path), rel=0.2)


def test_parts_that_were_read_stay_in_memory_by_their_votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parts of 40 inputs x 500 votes, asked for in turn: read once each if all fit, else each time."""
    votes = drawn(120, 400, 10, 0.7)
    monkeypatch.setattr("recert.cache.writer.VALUES_PER_PART", 40 * 500 + 79 * 10)
    digests = stored(tmp_path, votes, 10).digests
    reads: list[str] = []
    read = Directory.read
    monkeypatch.setattr(Directory, "read", lambda self, name, *rest: reads.append(name) or read(self, name, *rest))
    for kept, times in ((60_000, 3), (59_000, 12), (0, 12)):
        monkeypatch.setattr(table, "VOTES_KEPT", kept)
        opened = Cache.open(tmp_path)
        assert len(opened.part_names()) == 3
        reads.clear()
        for i in (0, 50, 110) * 4:
            assert opened.votes(digests[i]).tolist() == votes[Stream.ESTIMATION][i].tolist()
        assert len(reads) == times
    reads.clear()
    for i in (0, 50) * 4:  # two parts stay whatever their size: an input may be in two
        opened.votes(digests[i])
    assert len(reads) <= 2


def test_votes_of_many_inputs_are_read_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parts, asked for in turn: each is read once although none but the last two stay in memory."""
    votes = drawn(120, 400, 10, 0.7)
    monkeypatch.setattr("recert.cache.writer.VALUES_PER_PART", 40 * 500 + 79 * 10)
    digests = stored(tmp_path, votes, 10).digests
    monkeypatch.setattr(table, "VOTES_KEPT", 0)
    opened = Cache.open(tmp_path)
    assert len(opened.part_names()) == 3
    reads: list[str] = []
    read = Directory.read
    monkeypatch.setattr(Directory, "read", lambda self, name, *rest: reads.append(name) or read(self, name, *rest))
    asked = [110, 0, 50, 1, 111, 51]
    found = dict(opened.each_votes([digests[i] for i in asked]))
    assert [found[i].tolist() for i in range(6)] == [votes[Stream.ESTIMATION][i].tolist() for i in asked]
    assert len(reads) == 3


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
def test_which_inputs_are_certified_is_known_without_certificates(tmp_path: Path, certificate: str) -> None:
    """As Clopper-Pearson says (scipy): the class has more than half of the votes, or more than its largest rival."""
    votes = drawn(200, 100, 5, 0.5)
    cache = stored(tmp_path, votes, 5)
    counts = np.stack([np.bincount(row, minlength=5) for row in votes[Stream.ESTIMATION]])
    tops = np.stack([np.bincount(row, minlength=5) for row in votes[Stream.SELECTION]]).argmax(axis=1)
    mine = counts[np.arange(200), tops]
    counts[np.arange(200), tops] = 0
    error = 0.05 / (2 if certificate == "two-sided" else 1)
    lower = beta.ppf(error, mine, 101 - mine)
    upper = beta.ppf(1 - error, counts.max(axis=1) + 1, 100 - counts.max(axis=1))
    expected = (lower > 0.5) | ((lower > upper) & (certificate == "two-sided"))
    found = cache.certified(alpha=0.05, certificate=certificate)
    assert found.tolist() == expected.tolist() == cache.certify(alpha=0.05, certificate=certificate).certified.tolist()
    assert 10 < found.sum() < 190


@pytest.mark.parametrize(("samples", "alpha"), [(1, 0.05), (40, 0.05), (40, 1e-6), (3_000, 0.001)])
def test_every_pair_of_counts_that_is_certified(samples: int, alpha: float) -> None:
    """By scipy, for all counts of the class and of a rival that are far apart or close."""
    rng = np.random.default_rng(0)
    mine = rng.integers(0, samples + 1, 20_000)
    rival = rng.integers(0, samples - mine + 1)
    for certificate, error in (("one-sided", alpha), ("two-sided", alpha / 2)):
        lower = np.where(mine > 0, beta.ppf(error, np.maximum(mine, 1), samples + 1 - mine), 0)
        upper = np.where(rival < samples, beta.ppf(1 - error, rival + 1, np.maximum(samples - rival, 1)), 1)
        expected = (lower > 0.5) | ((lower > upper) & (certificate == "two-sided"))
        assert np.array_equal(certified(mine, rival, samples, alpha, certificate=certificate), expected)
