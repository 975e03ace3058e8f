"""Trying again until it passes: every look at the cached votes is counted, and what is said of all looks together holds."""

import base64
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, norm

import recert
from recert import Gaussian, StoredVotes
from recert.cache import looks, merge
from recert.errors import CorruptCache
from recert.models.identity import ModelIdentity
from recert.sampling import VoteChunk
from tests.cache.stores import inputs, make, network
from tests.halfspaces import HalfSpace
from tests.test_coverage import assert_covered

NOISE = Gaussian(0.5)
INPUTS, SAMPLES = 4_000, 400


@pytest.fixture(autouse=True)
def nothing_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_of_this_process", {})
    monkeypatch.setattr(looks, "_sizes_of_this_process", {})


def votes_of(seed: int, share: float, rows: int = INPUTS, samples: int = SAMPLES) -> np.ndarray:
    return (np.random.default_rng(seed).random((rows, samples)) < share).astype(int)


def stored(estimation: np.ndarray, rows: int = INPUTS) -> StoredVotes:
    return StoredVotes(estimation, selection=np.ones((rows, 50), int), classes=2)


def unanimous_cache(certificate: str = "one-sided") -> recert.Cache:
    """The original always votes for class 1; a changed model keeps the class with a probability of its own."""
    return recert.certify(
        stored(np.ones((INPUTS, SAMPLES), int)), None, noise=NOISE, samples=SAMPLES, selection_samples=50, alpha=0.01,
        certificate=certificate,
    )  # fmt: skip


def false_claims(result: recert.Certificates, share: float) -> np.ndarray:
    return result.certified & (result.top_lower > share)


# Budgets that are raised until an input is certified with what would be a false radius.
BUDGETS = (20, 40, 80, 130, 200)


@pytest.mark.parametrize("method", ["series", "joint"])
def test_trying_again_is_wrong_more_often_than_alpha_and_less_often_than_is_said(method: str) -> None:
    share, alpha = 0.9, 0.05
    cache, changed = unanimous_cache(), stored(votes_of(1, share))
    wrong = np.zeros(INPUTS, dtype=bool)
    for number, budget in enumerate(BUDGETS, 1):
        result = recert.recertify(
            changed, None, cache, samples=budget, alpha=alpha, method=method, plan="uniform", certificate="one-sided"
        )
        wrong |= false_claims(result, share)
        assert result.settings.together is not None
        assert result.settings.together.looks == number
        assert result.settings.together.looks_error == pytest.approx(number * alpha)
    assert_covered(int(wrong.sum()), 5 * alpha, INPUTS)
    # Why looks are counted: alpha alone is exceeded.
    assert binomtest(int(wrong.sum()), INPUTS, alpha, alternative="greater").pvalue < 1e-6


def test_the_best_of_several_methods_is_as_many_looks() -> None:
    share, alpha = 0.05 ** (1 / 100) * (1 - 1e-4), 0.05
    cache, changed = unanimous_cache(), stored(votes_of(2, share))
    wrong = np.zeros(INPUTS, dtype=bool)
    for method in ("series", "joint", "paired"):
        result = recert.recertify(changed, None, cache, samples=100, alpha=alpha, method=method, plan="uniform")
        wrong |= false_claims(result, share)
    assert result.settings.together == recert.certificates.Together(3, 3 * alpha, 1, 3 * alpha, 0)
    assert "re-certified 3 times from this cache" in result.guarantee
    assert "all 3 hold together has error at most 0.15" in result.guarantee
    assert_covered(int(wrong.sum()), 3 * alpha, INPUTS)


@pytest.mark.parametrize("method", ["series", "joint", "auto"])
def test_planned_looks_hold_together(method: str) -> None:
    alpha, share = 0.1, 0.9
    cache, changed = unanimous_cache(), stored(votes_of(3, share))
    wrong = np.zeros(INPUTS, dtype=bool)
    for budget in (25, 50, 100, 200):
        result = recert.recertify(
            changed, None, cache, samples=budget, alpha=alpha, method=method, plan="uniform", looks=4
        )
        wrong |= false_claims(result, share)
        assert (result.alpha == alpha / 4).all()
        assert result.settings.planned == (25, 50, 100, 200)
        assert "4 looks that were planned, with budgets of 25, 50, 100, 200" in result.guarantee
        assert "hold together with probability at least 0.9." in result.guarantee
        assert "was re-certified" not in result.guarantee
    assert wrong.sum() > 0
    assert_covered(int(wrong.sum()), alpha, INPUTS)
    with pytest.raises(ValueError, match="one of 25, 50, 100, 200, the budgets that the first"):
        recert.recertify(changed, None, cache, samples=90, alpha=alpha, method=method, plan="uniform", looks=4)
    with pytest.raises(ValueError, match="settings of the first of the 4 looks"):
        recert.recertify(changed, None, cache, samples=50, alpha=alpha, method="paired", plan="uniform", looks=4)
    on_top = recert.recertify(changed, None, cache, samples=90, alpha=alpha, method="paired", plan="uniform")
    assert on_top.settings.together is not None
    assert on_top.settings.together.looks_error == pytest.approx(2 * alpha)


@pytest.mark.parametrize("bad", [0, -1, 1, 2.5, True, 21, 100])
def test_looks_are_a_small_whole_number(bad: object) -> None:
    cache = recert.certify(network(), inputs(2), noise=NOISE, samples=100, selection_samples=20)
    with pytest.raises(ValueError, match="expected looks as a whole number from 2 to 20"):
        recert.recertify(network(1), inputs(2), cache, samples=40, looks=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("good", [2, np.int64(2), 20])
def test_alpha_is_shared_among_looks(good: int) -> None:
    cache = recert.certify(network(), inputs(2), noise=NOISE, samples=100, selection_samples=20)
    result = recert.recertify(network(1), inputs(2), cache, samples=40, alpha=0.02, looks=good)
    assert result.alpha.tolist() == [0.02 / good] * 2
    assert result.settings.planned == tuple(40 * 2**i for i in range(good))


def planned(store: object, seed: int = 1, rows: slice = slice(None), **options: object) -> tuple[int, ...]:
    arguments = {"samples": 40, "alpha": 0.02, "looks": 2, **options}
    return recert.recertify(network(seed), inputs()[rows], store, **arguments).settings.planned  # type: ignore[arg-type]


def test_a_plan_is_for_one_model_and_its_inputs(tmp_path: Path) -> None:
    make(tmp_path)
    recert.recertify(network(1), inputs(), tmp_path, samples=30)  # was not planned, and binds nobody
    assert planned(tmp_path, rows=slice(0, 3)) == (40, 80)
    assert planned(tmp_path, rows=slice(0, 3), samples=80) == (40, 80)
    assert planned(tmp_path, rows=slice(0, 3), samples=30, seed=2) == (30, 60)
    assert planned(tmp_path, rows=slice(3, 6), samples=30) == (30, 60)
    for other in ({"rows": slice(0, 4)}, {"rows": slice(0, 3), "alpha": 0.04}, {"rows": slice(0, 3), "looks": 3}):
        with pytest.raises(ValueError, match="settings of the first of the 2 looks"):
            planned(tmp_path, **other)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one of 40, 80, the budgets that the first"):
        planned(tmp_path, rows=slice(0, 3), samples=160)


def test_a_plan_must_agree_with_all_that_were_made(tmp_path: Path) -> None:
    """Of stores that were merged, two plans may be known for the same inputs: then none of them can be gone on with."""
    make(tmp_path)
    planned(tmp_path)
    kept = recert.Cache.open(tmp_path).looks
    (first,) = kept.known()
    kept.add(replace(first, planned=(30, 60), asked='{"method": "another"}'))
    with pytest.raises(ValueError, match="settings of the first of the 2 looks"):
        planned(tmp_path, samples=80)


LOOK = looks.Look(ModelIdentity("weights", "structure"), "{}", 50, 0.01, 1, (), looks.Inputs(b"8 bytes."))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"samples": bad} for bad in (0, -1, True, 1.5, "50", None, 2**32)),
        *({"family": bad} for bad in (0, True, 2.0, 2**63)),
        *({"planned": bad} for bad in ([0], [50, 0], [True], [2.5], [50, 2**32])),
        *({"error": bad} for bad in (0.0, -0.1, 2.0, 2.5, 1, "0.1", None)),
        *({"asked": bad} for bad in (5, None, ["{}"])),
        *({"model": {"weights": a, "structure": b}} for a, b in ((1, "x"), ("x", 1), (None, None))),
        *({"inputs": base64.b64encode(bad).decode()} for bad in (b"7 bytes", b"nine byte")),
        {"inputs": "not base64"},
    ],
)  # fmt: skip
def test_what_is_no_look_is_refused(wrong: dict[str, object]) -> None:
    good = json.loads(LOOK.to_json())
    assert looks.Look.from_json(json.dumps(good).encode()) == LOOK
    with pytest.raises((ValueError, TypeError)):
        looks.Look.from_json(json.dumps(good | wrong).encode())


@pytest.mark.parametrize(
    "right",
    [
        {"samples": 1},
        {"samples": 2**32 - 1},
        {"family": 2**63 - 1},
        {"error": 1.99},
        {"planned": [1, 2]},
        {"inputs": ""},
    ],
)
def test_what_just_is_a_look(right: dict[str, object]) -> None:
    raw = json.loads(LOOK.to_json()) | right
    assert json.loads(looks.Look.from_json(json.dumps(raw).encode()).to_json()) == raw


def test_a_look_is_named_by_half_of_its_digest() -> None:
    assert LOOK.name == f"_look-{hashlib.sha256(LOOK.to_json()).hexdigest()[:32]}.json"


def test_errors_add_up() -> None:
    """Per input a claim each; of families all claims; of planned looks all that were planned, once."""
    family = replace(LOOK, family=6)
    other = replace(LOOK, model=ModelIdentity("others", "structure"), error=0.02, family=2)
    elsewhere = replace(LOOK, inputs=looks.Inputs(b"others.."), family=3)
    taken = [replace(LOOK, samples=n, planned=(50, 100, 200)) for n in (50, 100)]
    together = recert.certificates.Together
    assert looks.all_together(family, [], 1) == together(1, 0.01, 1, 0.01, pytest.approx(0.06))
    assert looks.all_together(family, [family], 1) == together(1, 0.01, 1, 0.01, pytest.approx(0.06))
    assert looks.all_together(family, [other, elsewhere], 2) == together(
        1, 0.02, 2, pytest.approx(2 * 0.03), pytest.approx(2 * (0.06 + 0.03))
    )
    assert looks.all_together(taken[1], [taken[0], family], 1) == together(
        3, pytest.approx(0.04), 1, pytest.approx(0.04), pytest.approx(0.06)
    )
    pair = [replace(look, family=2) for look in taken]
    assert looks.all_together(pair[1], [pair[0], family], 1) == together(
        3, pytest.approx(0.04), 1, pytest.approx(0.04), pytest.approx(2 * 0.03 + 0.06)
    )


def test_a_store_has_so_many_looks_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_MOST", 2)
    make(tmp_path)
    assert [again(tmp_path, samples=samples).looks for samples in (40, 50, 60)] == [1, 2, 3]
    with pytest.raises(CorruptCache, match=r"at most 2 looks in .*, got 3"):
        again(tmp_path)


def test_what_this_process_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_MOST_CONTEXTS", 2)
    one, other = (looks.Inputs.of([digit * 64]) for digit in "01")

    def sizes(context: str, samples: int, selected: int = 5, inputs: looks.Inputs = one) -> tuple[int, ...]:
        looks.note_size(context, looks.Size(samples, selected, inputs))
        return looks.sizes_seen(context, one)

    assert [sizes("a", n) for n in (20, 10, 30, 10)] == [(20,), (10, 20), (10, 20, 30), (10, 20, 30)]
    assert sizes("a", 30, selected=6) == (10, 20, 30, 30), "more votes that choose are another look"
    assert sizes("a", 40, inputs=other) == (10, 20, 30, 30), "at other inputs"
    assert [sizes(context, 50) for context in "bc"] == [(50,), (50,)]
    assert (sizes("b", 60), sizes("a", 10)) == ((50, 60), (10,))  # a was forgotten when c came

    kept = {context: looks.Looks(None, context) for context in "abc"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a cache in memory has nowhere to record it
        for each in kept.values():
            each.add(LOOK)
    assert [len(each.known()) for each in kept.values()] == [0, 1, 1]


def again(store: object, seed: int = 1, rows: slice = slice(None), **options: object) -> recert.certificates.Together:
    arguments = {"samples": 50, "alpha": 0.01, **options}
    together = recert.recertify(network(seed), inputs()[rows], store, **arguments).settings.together  # type: ignore[arg-type]
    assert together is not None
    return together


def test_what_counts_as_a_look(tmp_path: Path) -> None:
    store = tmp_path / "run"
    make(store)
    assert again(store).looks == 1
    assert again(store).looks == 1, "the same question has the same answer"
    assert again(store, samples=60) == recert.certificates.Together(2, 0.02, 1, 0.02, 0)
    assert again(store, alpha=0.02).looks_error == pytest.approx(0.04)
    assert again(store, method="series").looks == 4
    assert again(store, plan="uniform").looks == 5
    assert again(store, rows=slice(0, 2)).looks == 6, "another set of inputs is given other budgets"
    assert again(store, seed=2) == recert.certificates.Together(1, 0.01, 2, pytest.approx(0.08), 0)
    files = sorted(file.name for file in store.glob("_look-*.json"))
    assert len(files) == 7
    copy = tmp_path / "copy"
    merge(copy, [store])
    assert sorted(file.name for file in copy.glob("_look-*.json")) == files
    assert again(copy, samples=70).looks == 7
    assert recert.Cache.open(store).verify() == []


@pytest.mark.parametrize(
    ("method", "other"),
    [
        ("irs", recert.Irs(reuse_threshold=0.5)),
        ("irs", recert.Irs(form="exact")),
        ("scratch", recert.Scratch(selection_samples=30)),
    ],
)
def test_a_knob_of_a_method_makes_another_look(tmp_path: Path, method: str, other: recert.Method) -> None:
    make(tmp_path)
    assert again(tmp_path, method=method).looks == 1
    assert again(tmp_path, method=type(other)()).looks == 1, "the same, by its usual knobs"
    assert again(tmp_path, method=other).looks == 2


def test_inputs_that_were_not_looked_at_have_no_looks(tmp_path: Path) -> None:
    make(tmp_path)
    assert again(tmp_path, rows=slice(0, 3)).looks == 1
    assert again(tmp_path, rows=slice(3, 6)).looks == 1
    assert again(tmp_path).looks == 3
    assert again(tmp_path, rows=slice(3, 6)).looks == 2


def test_a_cache_that_was_extended_counts_every_size(tmp_path: Path) -> None:
    make(tmp_path)
    again(tmp_path)
    make(tmp_path, samples=400)
    result = recert.recertify(network(1), inputs(), tmp_path, samples=60, alpha=0.01)
    assert result.settings.together is not None
    assert result.settings.together.looks_error == pytest.approx(2 * 2 * 0.01)


def test_functions_without_a_name_are_not_taken_for_one_another() -> None:
    x = inputs(2)
    cache = recert.certify(network(), x, noise=NOISE, samples=100, selection_samples=20)
    for seed in (1, 2):
        function = network(seed).forward
        result = recert.recertify(lambda batch, f=function: f(batch), x, cache, samples=40 + seed)
        assert result.settings.together is not None
        assert result.settings.together.looks == 1


def test_certify_in_memory_counts_sizes() -> None:
    x = inputs(3)
    once = recert.certify(network(), x, noise=NOISE, samples=100, selection_samples=20, alpha=0.01)
    assert once.certificates.settings.looks == (100,)
    again = recert.certify(network(), x[1:], noise=NOISE, samples=200, selection_samples=20, alpha=0.01)
    assert again.certificates.settings.looks == (100, 200)
    assert "all hold together has error at most 0.02" in again.certificates.guarantee
    smaller = recert.certify(network(), x, noise=NOISE, samples=50, selection_samples=20, alpha=0.01)
    assert smaller.certificates.settings.looks == (50, 100, 200)
    for other in ({"seed": 1}, {"noise": Gaussian(0.25)}):
        fresh = recert.certify(
            network(), x, **{"noise": NOISE, "samples": 300, "selection_samples": 20, **other}
        )  # fmt: skip
        assert fresh.certificates.settings.looks == (300,)


def test_a_store_that_cannot_be_written_counts_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)

    def refuse(*_: object) -> None:
        raise PermissionError("the disk is read-only")

    monkeypatch.setattr("recert.storage.Directory.write", refuse)
    for number in (1, 2):
        with pytest.warns(UserWarning, match="counts in this process only: the disk is read-only"):
            assert again(tmp_path, samples=40 + number).looks == number


class NeverAsked(StoredVotes):
    """Votes that must not be drawn."""

    def draw(self, *_: object) -> Iterator[VoteChunk]:
        raise AssertionError("votes were drawn")


@pytest.mark.parametrize(
    "damage",
    [
        lambda look: b"",
        lambda look: b"[]",
        lambda look: json.dumps(look | {"error": 0.5}).encode(),
        lambda look: json.dumps(look | {"inputs": "?"}).encode(),
        lambda look: json.dumps(look | {"samples": -1}).encode(),
        lambda look: json.dumps({**look, "model": {"weights": 1, "structure": "x"}}).encode(),
    ],
)
def test_a_damaged_record_is_refused_before_any_vote_is_drawn(tmp_path: Path, damage: object) -> None:
    make(tmp_path)
    again(tmp_path)
    (file,) = tmp_path.glob("_look-*.json")
    file.write_bytes(damage(json.loads(file.read_text())))  # type: ignore[operator]

    changed = NeverAsked(np.zeros((6, 10), int), classes=3)
    changed.digests = list(recert.Cache.open(tmp_path).digests)
    with pytest.raises(CorruptCache, match=f"{re.escape(file.name)}.*(restore|remove)"):
        recert.recertify(changed, None, tmp_path, samples=50)
    os.remove(file)
    assert again(tmp_path).looks == 1


def test_compare_counts_its_methods_and_not_its_baselines(tmp_path: Path) -> None:
    from recert.comparison import compare

    make(tmp_path)
    cache = recert.Cache.open(tmp_path)
    compared = compare(network(1), inputs(), cache, cache.certificates.prediction, budgets=[40, 60], alpha=0.01)
    assert {curve.results[0].settings.together for curve in compared.baselines.values()} == {None}
    assert again(tmp_path).looks == 3


def test_select_is_a_look_at_every_finalist(tmp_path: Path) -> None:
    make(tmp_path)
    labels = recert.Cache.open(tmp_path).certificates.prediction
    chosen = recert.select({"same": network()}, inputs(), tmp_path, labels, metric="acr", tolerance=1.0, alpha=0.02)
    assert chosen.winner == "same"
    assert again(tmp_path, seed=0).looks_error == pytest.approx(0.02 + 0.01)  # what all finalists together may have


def test_a_family_that_grows_says_what_holds(tmp_path: Path) -> None:
    """Three claims at a third of .05 each, three more later: of six only .9 is proved."""
    make(tmp_path / "run", slice(0, 3), alpha=0.05, family="bonferroni")
    grown = make(tmp_path / "run", slice(3, 6), alpha=0.05, family="bonferroni").certificates
    assert (grown.alpha == 0.05 / 3).all()
    assert "all 6 claims of the family hold together with probability at least 0.9;" in grown.guarantee
    assert "divided by 3 only" in grown.guarantee
    for i in range(6):
        single = make(tmp_path / "one", slice(i, i + 1), alpha=0.05, family="bonferroni").certificates
    assert "all 6 claims of the family hold together with probability at least 0.7" in single.guarantee
    planned = make(tmp_path / "planned", slice(0, 3), alpha=0.05, family=6)
    planned = make(tmp_path / "planned", slice(3, 6), alpha=0.05, family=6)
    assert "all 6 claims of the family hold together with probability at least 0.95." in planned.certificates.guarantee
    alone = make(tmp_path / "run", slice(0, 6), alpha=0.05).certificates
    assert "Bonferroni" not in alone.guarantee
    with pytest.raises(ValueError, match="a family of at least 6, one claim for every input, got 5"):
        make(tmp_path / "few", alpha=0.05, family=5)


def test_families_and_sizes_are_both_counted(tmp_path: Path) -> None:
    for samples in (300, 400, 500):
        looked = make(tmp_path, alpha=0.05, family="bonferroni", samples=samples).certificates
    assert "with probability at least 0.85" in looked.guarantee  # 6 claims, 3 sizes, .05 / 6 each
    for samples in (50, 60):
        result = recert.recertify(network(1), inputs(), tmp_path, samples=samples, alpha=0.06, family="bonferroni")
    assert "all claims of all these families hold has error at most 0.36" in result.guarantee  # 3 sizes, 2 looks at .06


def test_what_is_said_of_a_grown_family_holds() -> None:
    """Families of six at a third of alpha each: any of a family is wrong at most twice alpha often."""
    alpha, families = 0.15, 1_500
    distance = float(0.5 * norm.ppf(0.9))
    along = np.random.default_rng(0).normal(size=6 * families)
    x = np.stack([np.full(6 * families, distance), along], axis=1).astype(np.float32)
    cache = recert.certify(
        HalfSpace([1.0, 0.0], 0.0), x, noise=NOISE, samples=100, selection_samples=10, alpha=alpha / 3, certificate="one-sided"
    )  # fmt: skip
    wrong = (cache.certificates.radius > distance).reshape(families, 6).any(axis=1)
    assert_covered(int(wrong.sum()), 2 * alpha, families)
