"""Audits of genuine and of forged caches, and what survives of their certificates."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import recert
from recert import Cache
from recert.auditing import Verdict, verb
from recert.auditing.damage import surviving_radii
from recert.cache import parts
from recert.certificates import claim_one_sided
from recert.errors import ContextMismatch, IncompleteCache, UnknownInputs
from recert.noise import Stream
from recert.sampling import Work
from recert.votes import count_votes
from tests.cache.stores import OPTIONS, forge, inputs, make, network, rewrite_manifest, rewrite_rows


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make(tmp_path / "run")
    return tmp_path / "run"


def test_a_genuine_cache(store: Path) -> None:
    found = recert.audit(network(), inputs(), store)
    assert found.verdict is Verdict.GENUINE
    assert found.wrong.sum() == 0
    assert found.sentence.startswith("genuine: 0 of ")
    assert found.tolerate == 0.0
    assert found.other_numerics == ()
    assert found.estimation.upper <= 0.01
    # 20 selection votes per input are fewer than are needed: all of them were replayed, and nothing is left to doubt
    assert (found.selection.replayed, found.selection.upper) == (6 * 20, 0.0)
    assert found.forward_passes == found.replayed.sum() == found.selection.replayed + found.estimation.replayed
    assert (found.wrong_upper <= 1 - 0.001 ** (1 / (found.estimation.replayed / 6)) + 1e-9).all()


@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_a_forged_cache(store: Path, share: float) -> None:
    forge(store, share)
    found = recert.audit(network(), inputs(), store)
    assert found.verdict is Verdict.NOT_GENUINE
    assert found.sentence.startswith("not genuine: ")
    assert found.estimation.lower <= share + 0.1


def test_one_forged_input_among_many(store: Path) -> None:
    """Below the tolerated share as a whole, but not in that input."""
    digest = Cache.open(store).digests[3]
    forge(store, 1.0, only=digest)
    found = recert.audit(network(), inputs(), store, samples=40, tolerate=0.3)
    assert found.estimation.wrong / found.estimation.replayed < 0.3
    assert found.verdict is Verdict.NOT_GENUINE
    assert found.wrong[3] == found.replayed[3]
    assert digest[:12] in found.sentence


def test_too_few_samples_are_not_decided(store: Path) -> None:
    found = recert.audit(network(), inputs(), store, samples=10)
    assert found.verdict is Verdict.NOT_DECIDED
    assert f"replay {found.samples_to_decide} votes per input" in found.sentence
    assert np.isnan(found.wrong_upper).all()
    again = recert.audit(network(), inputs(), store, samples=found.samples_to_decide)
    assert again.verdict is Verdict.GENUINE


def test_tolerated_differences(store: Path) -> None:
    forge(store, 0.01)
    found = recert.audit(network(), inputs(), store, samples=640, tolerate=0.03, detect=0.02)
    assert found.wrong.sum() > 0
    assert found.verdict is Verdict.GENUINE
    assert found.estimation.lower == found.estimation.upper  # everything was replayed


def test_other_numerics_are_noticed(store: Path) -> None:
    found = recert.audit(network(), inputs(), store, batch_size=16)
    assert found.other_numerics == ("batch_size",)
    assert found.tolerate == 0.001
    assert found.verdict is Verdict.GENUINE


def test_false_alarms_are_rarer_than_alpha(tmp_path: Path) -> None:
    """Votes that differ with just the tolerated share: 'not genuine' is said for at most alpha of the audits."""
    rng = np.random.default_rng(0)
    votes, selection = rng.integers(0, 3, size=(20, 1000)), rng.integers(0, 3, size=(20, 100))
    wrong = np.tile(np.arange(1000) < 50, (20, 1))  # exactly 5% of every input
    honest = recert.StoredVotes(np.where(wrong, (votes + 1) % 3, votes), selection=selection, classes=3)
    cache = recert.certify(
        recert.StoredVotes(votes, selection=selection, classes=3), None, noise=recert.Gaussian(1.0), samples=1000,
        selection_samples=100,
    )  # fmt: skip
    cache.manifest = replace(cache.manifest, model=honest.identity)
    verdicts = [recert.audit(honest, None, cache, samples=100, tolerate=0.05, alpha=0.2).verdict for _ in range(40)]
    assert sum(v is Verdict.NOT_GENUINE for v in verdicts) <= 18  # P(Bin(40, 0.2) > 18) = 0.0001


def test_the_indices_cannot_be_foretold(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[list[int]]] = []
    real = verb.collect

    def spy(source: object, works: Sequence[Work], task: str, progress: object) -> object:
        asked.append([np.asarray(work.samples).tolist() for work in works])
        return real(source, works, task, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(verb, "collect", spy)
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        recert.audit(network(), inputs(), store, samples=20)
    assert asked[0] != asked[1]
    for indices in asked[0]:
        assert indices == sorted(set(indices))
        assert len(indices) == 10
    assert any(i > 150 for indices in asked[0] for i in indices)


def test_another_model_and_other_data(store: Path) -> None:
    with pytest.raises(ContextMismatch, match="model weights"):
        recert.audit(network(1), inputs(), store)
    with pytest.raises(UnknownInputs):
        recert.audit(network(), inputs() + 1, store)


def test_an_incomplete_cache(store: Path) -> None:
    rewrite_manifest(store, lambda m: m | {"samples": 400, "looks": [300, 400]})
    with pytest.raises(IncompleteCache):
        recert.audit(network(), inputs(), store)


@pytest.mark.parametrize(
    "wrong", [{"tolerate": -0.1}, {"tolerate": 1.0}, {"detect": 0.0}, {"samples": 1}, {"alpha": 0.0}]
)
def test_settings_that_make_no_sense(store: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        recert.audit(network(), inputs(), store, **wrong)  # type: ignore[arg-type]


def test_part_of_the_inputs(store: Path) -> None:
    found = recert.audit(network(), inputs()[[4, 1, 4]], store)
    assert (len(found.input), found.cached_inputs) == (2, 6)
    assert found.estimation.population == 2 * 300


def brute_force(cache: Cache, budget: int) -> float:
    """The least sum of radii over every way to spend wrong estimation votes (one-sided)."""
    m = cache.manifest
    top = cache.counts(Stream.SELECTION).argmax(axis=1)
    votes = cache.counts(Stream.ESTIMATION)[np.arange(len(top)), top]
    left = [
        claim_one_sided([0] * (budget + 1), np.maximum(0, k - np.arange(budget + 1)), m.samples, m.alpha, 0.5)
        for k in votes
    ]
    radii = [np.where(c.prediction >= 0, c.radius, 0.0) for c in left]
    spends = (s for s in itertools.product(range(budget + 1), repeat=len(top)) if sum(s) <= budget)
    return float(min(sum(r[w] for r, w in zip(radii, s, strict=True)) for s in spends))


@pytest.mark.parametrize("budget", [0, 1, 7, 20])
def test_what_survives_is_below_the_worst_case_and_near_it(tmp_path: Path, budget: int) -> None:
    cache = recert.certify(network(), inputs(3), **{**OPTIONS, "samples": 120}, certificate="one-sided")
    everything = np.ones(3, dtype=bool)
    exact = brute_force(cache, budget)
    bound = surviving_radii(cache, everything, wrong_selection=0, wrong_estimation=budget)
    claimed = cache.certificates.radius.sum()
    assert bound <= exact + 1e-9
    assert bound >= exact - 0.02 * claimed
    assert surviving_radii(cache, everything, wrong_selection=10**6, wrong_estimation=0) == 0


def test_what_survives_holds_for_real_forgeries(store: Path) -> None:
    """A forger who turns every fiftieth vote to the class's favour: the radius that survives is the genuine one's or less."""
    genuine = Cache.open(store).certificates.radius.mean()

    def favour(row: parts.Row) -> parts.Row:
        assert row.votes is not None
        if row.stream is Stream.SELECTION:
            return row
        votes = row.votes.copy()
        votes[np.flatnonzero(votes != row.counts.argmax())[:6]] = row.counts.argmax()
        return replace(row, votes=votes, counts=count_votes(votes, 3))

    rewrite_rows(store, favour)
    found = recert.audit(network(), inputs(), store, samples=640, tolerate=0.05)
    assert found.verdict is Verdict.GENUINE  # within what was tolerated
    assert found.cache.certificates.radius.mean() > genuine
    assert 0 < found.surviving_average_radius() <= genuine
