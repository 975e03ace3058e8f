"""Audits of genuine and of forged caches, and what survives of their certificates."""

import importlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, norm

import recert
from recert import Cache
from recert.auditing import Verdict
from recert.auditing.damage import surviving_radii
from recert.auditing.shares import Share
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


def test_a_cache_may_be_open_already(store: Path) -> None:
    assert recert.audit(network(), inputs(), Cache.open(store)).verdict is Verdict.GENUINE


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


def test_how_many_votes_are_replayed(store: Path) -> None:
    """757 votes are the first of which one is wrong with probability .9995 if 1% are: 127 of each input."""
    assert 0.99**757 < 0.0005 < 0.99**756
    found = recert.audit(network(), inputs(), store)
    assert (found.estimation.replayed, found.samples_to_decide) == (6 * 127, 2 * 127)
    found = recert.audit(network(), inputs(), store, samples=10)
    assert (found.estimation.replayed, found.samples_to_decide) == (6 * 5, 2 * 127)
    found = recert.audit(network(), inputs(), store, samples=200)
    assert (found.estimation.replayed, found.samples_to_decide) == (6 * 100, 2 * 200)
    found = recert.audit(network(), inputs(), store, detect=0.9)  # a single vote of each would do
    assert (found.estimation.replayed, found.replayed.tolist()) == (6 * 10, [20] * 6)


def test_alpha_is_shared_out(store: Path) -> None:
    """Half of it for either upper bound, a quarter for either lower one, and all of it for every input on its own."""
    found = recert.audit(network(), inputs(), store, samples=20, alpha=0.02)
    assert found.selection.upper == found.estimation.upper == pytest.approx(1 - 0.01 ** (1 / 60), rel=1e-9)
    assert found.wrong_upper == pytest.approx(1 - 0.02 ** (1 / 10), rel=1e-9)
    forge(store, 0.5)
    found = recert.audit(network(), inputs(), store, samples=100, alpha=0.02)
    k = found.estimation.wrong
    assert found.estimation.lower == pytest.approx(beta.ppf(0.005, k, 300 - k + 1), rel=1e-9)
    assert found.estimation.upper == pytest.approx(beta.isf(0.01, k + 1, 300 - k), rel=1e-9)


def test_half_of_alpha_is_for_all_inputs_together(store: Path) -> None:
    """One input of six is forged: all of its 40 votes that are replayed are wrong, and a twelfth of alpha excludes chance."""
    forge(store, 1.0, only=Cache.open(store).digests[3])
    lower = (0.001 / 12) ** (1 / 40)
    for tolerate, verdict in ((lower - 1e-6, Verdict.NOT_GENUINE), (lower + 1e-6, Verdict.GENUINE)):
        found = recert.audit(network(), inputs(), store, samples=40, tolerate=tolerate, detect=0.1)
        assert (found.replayed[3], found.wrong[3]) == (40, 40)
        assert found.verdict is verdict


def test_both_kinds_of_votes_must_be_shown_to_be_right(store: Path) -> None:
    """All selection votes are replayed, and 180 of the others: the share that is then excluded decides."""
    upper = 1 - 0.0005 ** (1 / 180)
    found = recert.audit(network(), inputs(), store, samples=60)
    assert (found.selection.upper, found.estimation.upper) == (0.0, pytest.approx(upper, rel=1e-9))
    assert found.verdict is Verdict.NOT_DECIDED
    for detect, verdict in ((found.estimation.upper, Verdict.GENUINE), (upper - 1e-6, Verdict.NOT_DECIDED)):
        assert recert.audit(network(), inputs(), store, samples=60, detect=detect).verdict is verdict


def test_sentences(store: Path) -> None:
    found = replace(
        recert.audit(network(), inputs(), store, samples=10),
        alpha=0.25, tolerate=0.125, detect=0.25, samples_to_decide=1234,
        selection=Share(0, 10, 100, 0.0, 0.5), estimation=Share(0, 10, 100, 0.0, 0.75),
        input=np.array([f"{letter}23456789012345" for letter in "abc"], dtype=object),
        replayed=np.array([1, 5, 1000]), wrong=np.array([1, 3, 500]),
    )  # fmt: skip
    votes = "504 of 1,006 votes replayed are not what the model says"
    shown = "at most 50.000% of the selection votes and 75.000% of the others are wrong"
    assert replace(found, verdict=Verdict.NOT_GENUINE).sentence == (
        f"not genuine: {votes} (tolerated: 12.500%; most at input a23456789012)"
    )
    assert replace(found, verdict=Verdict.GENUINE).sentence == f"genuine: {votes}; with probability 0.75 {shown}"
    assert replace(found, verdict=Verdict.NOT_DECIDED).sentence == (
        f"not decided: {votes}, and only {shown} is shown, not 37.500%; replay 1,234 votes per input"
    )


def test_the_smallest_settings(store: Path) -> None:
    found = recert.audit(network(), inputs(), store, samples=2, tolerate=0.0, detect=1e-6)
    assert found.verdict is Verdict.NOT_DECIDED


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
    module = importlib.import_module("recert.auditing.audit")
    real = vars(module)["collect"]

    def spy(source: object, works: Sequence[Work], task: str, progress: object) -> object:
        asked.append([np.asarray(work.samples).tolist() for work in works])
        return real(source, works, task, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "collect", spy)
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
    "wrong",
    [
        {"tolerate": -0.1},
        {"tolerate": 1.0},
        {"detect": 0.0},
        {"detect": 1.0},
        {"detect": 1.5},
        {"samples": 1},
        {"alpha": 0.0},
    ],
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
        claim_one_sided(
            [0] * (budget + 1), np.maximum(0, k - np.arange(budget + 1)), m.samples, m.alpha, recert.Gaussian(0.5)
        )
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


def one_input(selection: Sequence[int], estimation: Sequence[int], certificate: str = "two-sided") -> Cache:
    """Numbers of votes per class; what is missing of a hundred votes that bound is for nobody. Sigma is 1."""
    votes = [np.repeat(np.arange(len(counts)), counts)[None, :] for counts in (selection, estimation)]
    votes[1] = np.pad(votes[1], ((0, 0), (0, 100 - sum(estimation))), constant_values=-1)
    return recert.certify(
        recert.StoredVotes(votes[1], selection=votes[0], classes=3), None, noise=recert.Gaussian(1.0), samples=100,
        selection_samples=sum(selection), alpha=0.01, certificate=certificate,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("selection", "cost"), [((30, 20, 0), 5), ((30, 21, 4), 5), ((30, 22, 1), 4), ((30, 29, 2), 1), ((30, 30, 5), 1)]
)
def test_what_a_wrong_choice_costs(selection: tuple[int, ...], cost: int) -> None:
    """As many wrong votes as half of the lead turn a choice round; for fewer, the radius is lost in proportion at most."""
    cache = one_input(selection, (90, 6, 4))
    radius = cache.certificates.radius[0]
    assert radius > 0.5
    for wrong in range(cost + 2):
        left = surviving_radii(cache, np.array([True]), wrong_selection=wrong, wrong_estimation=0)
        assert left == pytest.approx(max(0.0, 1 - wrong / cost) * radius, abs=1e-9)


def radius_left(estimation: Sequence[int], wrong: int) -> float:
    """Two-sided, at an error of .01, had so many votes been the largest rival's and not the first class's."""
    n, first, rival = 100, estimation[0] - wrong, max(estimation[1:]) + wrong
    lower, upper = beta.ppf(0.005, first, n - first + 1), beta.isf(0.005, rival + 1, n - rival)
    upper = min(upper, 1 - lower)
    return float((norm.ppf(lower) - norm.ppf(upper)) / 2) if lower > upper else 0.0


@pytest.mark.parametrize("estimation", [(100, 0, 0), (60, 25, 15), (60, 15, 25), (80, 1, 19), (60, 0, 0)])
def test_what_a_wrong_count_costs_on_both_sides(estimation: tuple[int, ...]) -> None:
    """Of one input no more can be lost than the votes that were wrong are worth."""
    cache = one_input((50, 0, 0), estimation)
    assert cache.certificates.radius[0] == pytest.approx(radius_left(estimation, 0), rel=1e-9)
    everything = np.array([True])
    for wrong in (0, 1, 2, 5):
        left = surviving_radii(cache, everything, wrong_selection=0, wrong_estimation=wrong)
        assert radius_left(estimation, wrong) - 0.002 < left <= radius_left(estimation, wrong) + 1e-9
    assert surviving_radii(cache, everything, wrong_selection=0, wrong_estimation=100) == pytest.approx(0, abs=1e-6)


def test_only_inputs_that_count_and_were_certified_are_lost() -> None:
    """Of three inputs one does not count, and another's votes contradict its choice: it has no radius to lose."""
    rows = [np.repeat([0, 1, 2], counts) for counts in ((90, 6, 4), (90, 6, 4), (5, 90, 5))]
    votes = recert.StoredVotes(np.stack(rows), selection=np.zeros((3, 50), int))
    cache = recert.certify(
        votes, None, noise=recert.Gaussian(1.0), samples=100, selection_samples=50, alpha=0.01
    )  # fmt: skip
    counted = np.array([True, False, True])
    for wrong in (0, 1, 5):
        left = surviving_radii(cache, counted, wrong_selection=0, wrong_estimation=wrong)
        assert radius_left((90, 6, 4), wrong) - 0.002 < left <= radius_left((90, 6, 4), wrong) + 1e-9
    for wrong_selection, wrong_estimation in ((5, 0), (0, 5)):
        assert surviving_radii(
            cache, ~counted & False, wrong_selection=wrong_selection, wrong_estimation=wrong_estimation
        ) == 0  # fmt: skip


def test_what_survives_with_labels(store: Path) -> None:
    """Everything was replayed and found right: all radii survive, those of right predictions."""
    found = recert.audit(network(), inputs(), store, samples=640)
    result = found.cache.certificates
    assert found.surviving_average_radius() == pytest.approx(result.radius.mean())
    labels = np.where(np.arange(6) % 2, result.prediction, 99)
    right = result.certified & (labels == result.prediction)
    assert right.any()
    assert found.surviving_average_radius(labels) == pytest.approx(np.where(right, result.radius, 0).mean())
    some, none = Share(0, 1, 100, 0.0, 1.0), Share(0, 1, 100, 0.0, 0.0)
    # 100 wrong selection votes of 120 turn every choice round; of 1,800 others they do not take every radius away
    assert replace(found, selection=some, estimation=none).surviving_average_radius() == pytest.approx(0, abs=1e-9)
    assert replace(found, selection=none, estimation=some).surviving_average_radius() > 0


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
