"""Hostile stores give an error of ours or the certificates of the true votes; never a traceback, never another certificate."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import beta, norm

import recert
from recert import Cache
from recert.cache import limits
from recert.caching import CachingSource
from recert.certificates import Settings
from recert.errors import RecertError
from recert.noise import Stream
from recert.sampling import Work, collect
from recert.votes import count_votes
from tests.cache.stores import OPTIONS, inputs, make, network, rewrite_rows
from tests.fuzz.hostile_stores import COUNT, HOSTILE

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "caches.md"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("sound") / "run"
    make(store, slice(0, 3))
    rewrite_rows(store, lambda row: replace(row, seconds=0.5))  # the same bytes in every run
    return store


@pytest.fixture(scope="module")
def truth() -> Cache:
    """More votes than any store holds, so that every prefix is known."""
    return recert.certify(network(), inputs(3), **{**OPTIONS, "samples": 1000, "selection_samples": 100})


def is_true(opened: Cache, truth: Cache) -> bool:
    """Whether the claims are those of the model's own votes at the settings that they state."""
    result = opened.certificates
    s = result.settings
    known = [i for i, digest in enumerate(result.input) if digest in truth.digests]
    if len(known) < len(result) or s.noise != "gaussian:0.5":
        return False
    choose = [count_votes(truth.votes(d, Stream.SELECTION)[: s.selection_samples], 3) for d in result.input]
    claim = np.stack([count_votes(truth.votes(d)[: s.samples], 3) for d in result.input])
    expected = [claimed(votes, int(top), s) for votes, top in zip(claim, np.stack(choose).argmax(axis=1), strict=True)]
    return result.prediction.tolist() == [c for c, _ in expected] and bool(
        np.allclose(result.radius, [r for _, r in expected], rtol=1e-9, atol=1e-12)
    )


def claimed(votes: np.ndarray, top: int, s: Settings) -> tuple[int, float]:
    """Prediction and radius from the counts of votes (Cohen et al., Theorem 1), by scipy alone."""
    n, k, rival = s.samples, int(votes[top]), int(np.delete(votes, top).max())
    two_sided = s.certificate == "two-sided"
    each = s.alpha / 2 if two_sided else s.alpha
    lower = beta.ppf(each, k, n - k + 1) if k else 0.0
    upper = min(beta.isf(each, rival + 1, n - rival) if two_sided and rival < n else 1.0, 1 - lower)
    return (top, 0.25 * (norm.ppf(lower) - norm.ppf(upper))) if lower > upper else (-1, 0.0)


def outcome(store: Path, truth: Cache) -> str:
    """What opening and certifying gives: an error's name, or 'true'."""
    try:
        opened = Cache.open(store)
        if not opened.digests:
            assert len(opened.certificates) == 0
            return "empty"
        assert is_true(opened, truth), "a wrong certificate"
    except (RecertError, ValueError, OSError) as error:
        line = " ".join(str(error).split())
        assert line
        assert len(line) < 1000
        assert line.isprintable()
        return type(error).__name__
    return "true"


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_stores(kind: str, sound: Path, truth: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PART_VALUES", 2**20)  # so that a bomb is made in little time
    seen: dict[str, int] = {}
    for number, change in enumerate(HOSTILE[kind]):
        store = tmp_path / str(number)
        shutil.copytree(sound, store)
        change(store)
        found = outcome(store, truth)
        seen[found] = seen.get(found, 0) + 1
        try:
            problems = Cache.diagnose(store)
            assert problems or found in ("true", "empty"), (
                f"{kind} {number}: verify finds nothing, opening gave {found}"
            )
        except (RecertError, OSError):
            pass
        shutil.rmtree(store)
    print(f"{kind}: {seen}")
    assert sum(seen.values()) == len(HOSTILE[kind])
    table = dict(re.findall(r"^\| (.+?) \| ([0-9]+) \|", DOCUMENTATION.read_text(), re.MULTILINE))
    assert int(table[kind]) == len(HOSTILE[kind]), "docs/caches.md states another number"


def votes_in_files(store: Path, digest: str) -> dict[int, int]:
    """Estimation votes by sample, as pyarrow alone reads them; consistent lies included."""
    rows = [row for file in store.glob("part-*") for row in pq.read_table(file).to_pylist()]
    mine = [row for row in rows if row["input"].hex() == digest and row["stream"] == "estimation"]
    return {
        row["start"] + i: vote for row in mine for i, vote in enumerate(row["votes"] or []) if vote is not None
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["parts with gaps that cannot be", "parts that contradict each other"])
def test_votes_read_one_by_one_from_hostile_stores(kind: str, sound: Path, tmp_path: Path) -> None:
    """Never a vote for a sample that the store does not hold."""
    refused = answered = 0
    for number, change in enumerate(HOSTILE[kind]):
        store = tmp_path / str(number)
        shutil.copytree(sound, store)
        change(store)
        for samples in (range(300), range(6, 299), np.array([2, 8, 299]), np.array([400, 402])):
            try:
                source = CachingSource.from_store(store)
                (found,) = collect(source, [Work(0, Stream.ESTIMATION, samples)], "test")
            except RecertError:
                refused += 1
                continue
            held = votes_in_files(store, source.digests[0])
            assert found.votes.tolist() == [held[sample] for sample in samples], f"{kind} {number}: {samples}"
            answered += 1
        shutil.rmtree(store)
    assert refused + answered == 4 * len(HOSTILE[kind])
    assert answered > 10 or kind != "parts with gaps that cannot be"


def test_the_documentation_states_how_many() -> None:
    assert f"{COUNT} hostile stores" in DOCUMENTATION.read_text()


def test_the_sound_store_is_true(sound: Path, truth: Cache) -> None:
    """The check itself can say yes, and says no to a forged vote."""
    from tests.cache.stores import forge

    assert outcome(sound, truth) == "true"
    copy = sound.parent / "forged"
    shutil.copytree(sound, copy)
    forge(copy, 0.2)
    assert not is_true(Cache.open(copy), truth)  # consistent lies are found by an audit only


def test_a_lock_that_is_a_link_is_not_followed(sound: Path, tmp_path: Path) -> None:
    store = tmp_path / "run"
    shutil.copytree(sound, store)
    (store / ".lock").unlink()
    (store / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):  # noqa: PT011
        make(store, slice(0, 3))
    assert not (tmp_path / "victim").exists()
