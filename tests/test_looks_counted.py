"""Looks are neither lost nor counted wrongly, wherever the cache lies, whoever asks, and whatever fails meanwhile."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import recert
from recert import Gaussian
from recert.cache import looks
from recert.certificates import Together
from recert.comparison import compare
from recert.errors import CorruptCache
from recert.report.reading import NotAResult, read_result
from tests.cache.stores import inputs, make, network

NOISE = Gaussian(0.5)


@pytest.fixture(autouse=True)
def nothing_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_of_this_process", {})
    monkeypatch.setattr(looks, "_sizes_of_this_process", {})


def again(store: object, **options: object) -> recert.Certificates:
    return recert.recertify(network(1), inputs(), store, **{"samples": 50, "alpha": 0.01, **options})  # type: ignore[arg-type]


def together(store: object, **options: object) -> Together:
    found = again(store, **options).settings.together
    assert found is not None
    return found


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    make(tmp_path)
    result = again(
        tmp_path, samples=np.int64(50), alpha=np.float32(0.01), family=np.int64(6),
        method=recert.Scratch(np.int64(100)), looks=np.int64(2),
    )  # fmt: skip
    assert result.alpha.tolist() == pytest.approx([0.01 / 6 / 2] * 6)
    assert result.settings.planned == (50, 100)


def test_a_storage_that_fails_in_its_own_way_costs_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)

    def refuse(*_: object) -> None:
        raise RuntimeError("403 from the cloud")

    monkeypatch.setattr("recert.storage.Directory.write", refuse)
    with pytest.warns(UserWarning, match="counts in this process only: 403 from the cloud"):
        assert len(again(tmp_path)) == 6


def test_nothing_is_sent_to_a_web_server(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = recert.certify(network(), inputs(), noise=NOISE, samples=100, selection_samples=20)
    found = again(cache).settings.together

    class Web:
        url = "https://example.org/store"

        def write(self, *_: object) -> None:
            raise AssertionError("a file was sent")

    kept = looks.Looks(Web(), cache.manifest.context)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="only read from"):
        kept.add(cache.looks.known()[0])
    assert found is not None


def test_scratch_counts_the_sizes_of_what_was_looked_at_before(tmp_path: Path) -> None:
    make(tmp_path)
    again(tmp_path)
    make(tmp_path, samples=600)
    again(tmp_path)
    assert together(tmp_path, method="scratch").looks_error >= 0.03  # two claims by replays, one on fresh votes


def test_a_plan_is_about_the_votes_that_the_cache_had(tmp_path: Path) -> None:
    make(tmp_path)
    first = again(tmp_path, alpha=0.08, looks=4)
    assert "hold together with probability at least 0.92." in first.guarantee
    make(tmp_path, samples=600)
    with pytest.raises(ValueError, match="got another cached samples: 300 then, 600 now"):
        again(tmp_path, alpha=0.08, looks=4)
    late = recert.recertify(network(2), inputs(), tmp_path, samples=50, alpha=0.08, looks=4)
    assert (
        "hold together with probability at least 0.84." in late.guarantee
    )  # two sizes, any of which may have been kept


def test_a_plan_needs_a_model_that_can_be_told_and_budgets_that_can_be_spent() -> None:
    cache = recert.certify(network(), inputs(), noise=NOISE, samples=300, selection_samples=20)
    with pytest.raises(ValueError, match="function without a name; pass identity="):
        recert.recertify(lambda batch: network(1)(batch), inputs(), cache, samples=25, looks=4)
    with pytest.raises(ValueError, match="at most 150 samples for method 'series'"):
        again(cache, samples=100, method="series", plan="uniform", looks=4)
    with pytest.raises(ValueError, match="after a family or planned looks have divided it"):
        again(cache, samples=20, alpha=0.002, method="irs", looks=4)


def test_what_differs_from_a_plan_is_named(tmp_path: Path) -> None:
    make(tmp_path)
    again(tmp_path, looks=2)
    with pytest.raises(ValueError, match="got another method: auto then, series now"):
        again(tmp_path, samples=100, method="series", looks=2)
    with pytest.raises(ValueError, match="got another looks: 2 then, 3 now"):
        again(tmp_path, samples=100, alpha=0.015, looks=3)


def test_older_caches_in_memory_know_of_later_looks() -> None:
    options = {"noise": NOISE, "alpha": 0.01}
    old = recert.certify(network(), inputs(), samples=300, selection_samples=20, **options)  # type: ignore[arg-type]
    recert.certify(network(), inputs(), samples=300, selection_samples=50, **options)  # type: ignore[arg-type]
    assert old.certificates.settings.looks == (300, 300), "other votes chose"
    recert.certify(network(), inputs(), samples=600, selection_samples=50, **options)  # type: ignore[arg-type]
    assert together(old).looks_error == pytest.approx(0.03)


def test_stores_and_memory_see_each_other(tmp_path: Path) -> None:
    make(tmp_path)
    memory = recert.certify(network(), inputs(), noise=NOISE, samples=300, selection_samples=20, seed=1, batch_size=32)
    assert together(tmp_path).looks == 1
    assert together(memory, samples=60).looks == 2
    assert together(tmp_path, samples=70).looks == 3


def test_select_states_what_was_chosen_among(tmp_path: Path) -> None:
    """The winner's certificates were chosen among finalists: each look at it has the error of all of them."""
    make(tmp_path)
    labels = recert.Cache.open(tmp_path).certificates.prediction
    for tolerance in (0.8, 0.9):
        chosen = recert.select({"same": network()}, inputs(), tmp_path, labels, metric="acr", tolerance=tolerance, alpha=0.02)  # fmt: skip
    assert chosen.certificates is not None
    assert chosen.certificates.settings.together is not None
    assert chosen.certificates.settings.error == 0.02
    assert chosen.certificates.settings.together.looks_error == pytest.approx(0.04)
    other = np.roll(labels, 1)
    recert.select({"same": network()}, inputs(), tmp_path, other, metric="acr", tolerance=9.0, alpha=0.02)
    assert together_of(network(), tmp_path).looks == 4, "other labels are another question"


def together_of(model: object, store: Path) -> Together:
    found = recert.recertify(model, inputs(), store, samples=50, alpha=0.01).settings.together  # type: ignore[arg-type]
    assert found is not None
    return found


def test_irs_asks_another_question_of_a_cache_with_another_alpha(tmp_path: Path) -> None:
    make(tmp_path, alpha=0.001, certificate="one-sided")
    again(tmp_path, alpha=0.05, method="irs")
    make(tmp_path, alpha=0.02, certificate="one-sided")
    assert together(tmp_path, alpha=0.05, method="irs").looks == 2


def test_families_are_those_that_were_asked_for(tmp_path: Path) -> None:
    make(tmp_path, alpha=0.06, family="bonferroni")
    alone = again(tmp_path)
    assert "Bonferroni" not in alone.guarantee
    pair = recert.recertify(network(1), inputs(2), tmp_path, samples=50, alpha=0.06, family="bonferroni")
    assert "all 2 claims of the family hold together with probability at least 0.94." in pair.guarantee
    assert "families hold has error at most 0.06." in pair.guarantee


def test_baselines_of_compare_are_checked(tmp_path: Path) -> None:
    make(tmp_path)
    cache = recert.Cache.open(tmp_path)
    for wrong in ({"alpha": 1.5}, {"baseline_budgets": (3,)}):
        with pytest.raises(ValueError, match="expected"):
            compare(
                network(1), inputs(), cache, cache.certificates.prediction, budgets=(50,), methods=("scratch",), **wrong
            )  # type: ignore[arg-type]


def test_no_probability_lies_outside_of_0_and_1(tmp_path: Path) -> None:
    make(tmp_path, alpha=0.4, certificate="one-sided")
    for samples in (50, 60, 70):
        wild = again(tmp_path, alpha=0.9, method="irs", samples=samples)
    assert "-" not in wild.guarantee.replace("one-sided", "").replace("re-certified", "")
    assert "has error at most 1." in wild.guarantee


def test_no_sentence_is_rounded_in_its_own_favour() -> None:
    cache = recert.certify(network(), inputs(), noise=NOISE, samples=300, selection_samples=20)
    assert "with probability at least 0.9921875 over" in cache.certify(alpha=1 / 128).guarantee  # not 0.992188
    assert "with probability at least 0.9999996 over" in cache.certify(alpha=4e-7).guarantee
    for samples in (50, 60, 70):
        guarantee = again(cache, alpha=0.0123456789, samples=samples).guarantee
    assert "has error at most 0.03703704." in guarantee  # not 0.037037


def test_what_was_asked_is_a_mapping(tmp_path: Path) -> None:
    make(tmp_path)
    again(tmp_path, looks=2)
    kept = recert.Cache.open(tmp_path).looks
    for asked in ("?", "[1]"):
        (look,) = kept.known()
        kept.add(replace(look, asked=asked))
        looks._of_this_process.clear()
        with pytest.raises(CorruptCache, match="_look-"):
            again(tmp_path, samples=100, looks=2)
        (tmp_path / replace(look, asked=asked).name).unlink()


def test_a_damaged_look_is_found_by_verify(tmp_path: Path) -> None:
    make(tmp_path)
    again(tmp_path)
    (file,) = tmp_path.glob("_look-*.json")
    file.write_text("{}")
    assert file.name in recert.Cache.open(tmp_path).verify()[0]


HOSTILE = [
    {"planned": ("\x1b[2J<script>",)},
    {"planned": ("a", "b")},
    {"looks": (True,)},
    {"family": 10**400},
    {"claims": -1},
    {"claims": 2.5},
    {"together": Together(2, 1e301, 1, 0.1, 0.1)},
    {"together": Together(2.5, 0.1, 1, 0.1, 0.1)},  # type: ignore[arg-type]
    {"together": Together(2, float("nan"), 1, 0.1, 0.1)},
    {"error": True},
]


@pytest.mark.parametrize("wrong", HOSTILE)
def test_results_that_state_nonsense_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    cache = recert.certify(network(), inputs(), noise=NOISE, samples=100, selection_samples=20)
    result = again(cache, looks=2)
    result.to_parquet(tmp_path / "good.parquet")
    assert read_result(tmp_path / "good.parquet").certificates.settings == result.settings
    replace(result, settings=replace(result.settings, **wrong)).to_parquet(tmp_path / "bad.parquet")  # type: ignore[arg-type]
    with pytest.raises(NotAResult):
        read_result(tmp_path / "bad.parquet")


def test_questions_at_other_radii_are_looks_of_their_own(tmp_path: Path) -> None:
    """By the union bound each adds its alpha; to go on with one adds nothing, and so does what is asked of other inputs."""

    def asked(at: object, samples: int = 200, rows: slice = slice(None), **options: object) -> recert.Certificates:
        return recert.certify(
            network(0), inputs()[rows], noise=NOISE, at=at, samples=samples, store=tmp_path, **options
        )  # type: ignore[call-overload, no-any-return]

    def counted(result: recert.Certificates) -> tuple[int, float]:
        assert result.settings.together is not None
        return result.settings.together.looks, result.settings.together.looks_error

    first = asked(0.2)
    assert counted(first) == (1, pytest.approx(0.001))
    assert "such questions" not in first.guarantee
    assert counted(asked(0.2, samples=400)) == (1, pytest.approx(0.001))
    second = asked([0.2, 0.3], alpha=0.004)
    assert counted(second) == (2, pytest.approx(0.005))
    assert "was asked 2 such questions by the votes of this store" in second.guarantee
    assert "an input's claims of all 2 hold together has error at most 0.005" in second.guarantee
    assert counted(asked(0.2, certificate="one-sided")) == (3, pytest.approx(0.006))
    # In another process all are read from the store.
    looks._of_this_process.clear()
    assert counted(asked(0.25)) == (4, pytest.approx(0.007))
    assert counted(asked(0.25, selection_samples=60)) == (5, pytest.approx(0.008))


def test_questions_about_the_original_are_no_looks_of_a_changed_model(tmp_path: Path) -> None:
    make(tmp_path)
    recert.certify(network(0), inputs(), noise=NOISE, seed=1, at=0.2, samples=200, store=tmp_path)
    found = together(tmp_path)
    assert (found.looks, found.models) == (1, 1)


def test_of_several_questions_one_is_wrong_more_often_than_each() -> None:
    """Why they are counted. The votes are the same, and the radius is a little too large; other votes choose the bets."""
    rows, share = 1_200, 0.75
    votes = (np.random.default_rng(5).random((rows, 1_060)) >= share).astype(np.int64)
    source = recert.StoredVotes(votes[:, 60:], selection=votes[:, :60], classes=2)
    at, wrong = 0.5 * float(norm.ppf(share)) + 1e-6, []
    for selection in (2, 5, 10, 20, 60):
        result = recert.certify(
            source, None, noise=NOISE, at=at, alpha=0.1, samples=1_000, selection_samples=selection, certificate="one-sided"
        )  # fmt: skip
        wrong.append(result.certified & (result.prediction == 0))
    assert max(each.mean() for each in wrong) <= 0.1
    assert 1.1 * max(each.mean() for each in wrong) < np.any(wrong, axis=0).mean() <= 0.5
