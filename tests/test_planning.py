"""The plan: optimal on small cases by brute force, deterministic, within its budget, blind to what it must not see."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recert
from recert import Gaussian, StoredVotes, bounds
from recert.planning import Beliefs, Objective, allocate, parse_plan, plan_budget
from recert.planning.prediction import Circumstances, paired_table, series_table
from recert.radius import one_sided_radius


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 60))
def test_allocation_is_close_to_the_best_of_all(seed: int, budget: int) -> None:
    """Concave values: the multiplier finds the optimum up to the last step that does not fit."""
    rng = np.random.default_rng(seed)
    steps = np.sort(rng.random((4, 4)), axis=1)[:, ::-1]
    values = np.concatenate([np.zeros((4, 1)), np.cumsum(steps, axis=1)], axis=1)
    costs = np.array([0.0, 5.0, 10.0, 15.0, 20.0])
    chosen = allocate(values, costs, budget)
    assert costs[chosen].sum() <= budget
    best = max(
        values[np.arange(4), list(c)].sum()
        for c in itertools.product(range(5), repeat=4)
        if costs[list(c)].sum() <= budget
    )
    assert values[np.arange(4), chosen].sum() >= best - 1e-9


def test_more_budget_is_never_worse() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([np.zeros((30, 1)), np.sort(rng.random((30, 8)), axis=1)], axis=1)
    costs = np.concatenate([[0.0], np.geomspace(10, 500, 8)])
    sums = [values[np.arange(30), allocate(values, costs, budget)].sum() for budget in (50, 200, 800, 3_000, 20_000)]
    assert sums == sorted(sums)


@pytest.mark.parametrize(("p", "m"), [(0.6, 300), (0.9, 77), (0.97, 1_234), (0.999, 2_000)])
def test_predictions_are_near_the_bounds_they_predict(p: float, m: int) -> None:
    n, flips = 10_000, 0.05
    predicted = series_table(Circumstances(n, 0.002, flips), n // 2)(np.array(p), np.array(float(m)))
    lost = m * flips * (1 - p)
    around = bounds.series_lower(round(p * n), n, m - np.array([np.floor(lost), np.ceil(lost)]), m, 0.002)
    assert around.min() - 0.003 <= predicted <= around.max() + 0.003


def test_the_paired_split_goes_to_gains_only_when_there_are_flips() -> None:
    assert (
        paired_table(Circumstances(100_000, 0.002, 0.0), 5_000).other_share(np.array([0.8]), np.array([2_000.0])) == 0
    )
    assert (
        paired_table(Circumstances(100_000, 0.002, 0.05), 5_000).other_share(np.array([0.8]), np.array([2_000.0])) > 0
    )


def predictor(table):  # type: ignore[no-untyped-def]
    return lambda p, _, m: one_sided_radius(table(p, m), 0.5)


def test_the_plan_keeps_to_its_budget_and_spends_nothing_where_nothing_grows() -> None:
    votes = np.array([200, 210, 300, 400, 480, 499, 500])
    counts = np.stack([votes, 500 - votes], axis=1)
    beliefs = Beliefs.from_votes(counts, np.zeros(7, dtype=int))
    table = series_table(Circumstances(10_000, 0.002), 5_000)
    choice = plan_budget(beliefs, [predictor(table)], Objective(), 3_000, 5_000)
    assert choice.passes.sum() <= 3_000
    assert choice.passes.sum() > 2_700
    assert choice.passes[:2].tolist() == [0, 0]
    assert choice.passes[-1] == choice.passes.max()
    for radius in (0.5, 1.0):
        focused = plan_budget(beliefs, [predictor(table)], Objective(radius), 3_000, 5_000)
        assert focused.passes[2] < max(focused.passes)


def test_beliefs_do_not_depend_on_neighbours() -> None:
    counts = np.array([[90, 5, 5], [60, 40, 0], [100, 0, 0]])
    together = Beliefs.from_votes(counts, np.zeros(3, dtype=int))
    alone = Beliefs.from_votes(counts[1:2], np.zeros(1, dtype=int))
    assert together.top[1].tolist() == alone.top[0].tolist()
    assert ((together.top + together.runner_up) <= 1).all()


@pytest.mark.parametrize("text", ["accuracy", "accuracy:-1", "accuracy:x", "ACR", ""])
def test_bad_plans(text: str) -> None:
    with pytest.raises(ValueError, match="a plan of acr, accuracy:RADIUS or uniform"):
        parse_plan(text)


def votes_of(seed: int) -> tuple[StoredVotes, StoredVotes, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.4, 1, (80, 1))
    base = np.where(rng.random((80, 3_200)) < p, 1, rng.integers(0, 4, (80, 3_200)))
    changed = np.where(rng.random(base.shape) < 0.01, rng.integers(0, 4, base.shape), base)
    make = lambda v: StoredVotes(v[:, 200:], selection=v[:, :200], fresh=v[:, 200:], classes=4)  # noqa: E731
    return make(base), make(changed), base


def test_the_plan_is_deterministic_and_blind_to_an_inputs_own_estimation_votes() -> None:
    """Shuffling one input's estimation votes among classes, its certificate kept, does not change anyone's budget."""
    base, changed, votes = votes_of(0)
    run = lambda cache: recert.recertify(changed, None, cache, samples=100, method="series")  # noqa: E731
    cache = recert.certify(base, None, noise=Gaussian(0.5), samples=3_000)
    first, again = run(cache), run(cache)
    assert first.forward_passes.tolist() == again.forward_passes.tolist()
    row = int(np.argmax(cache.certificates.certified))
    other = votes.copy()
    other[row, 200:260] = 1 - other[row, 200:260] % 2
    altered = StoredVotes(other[:, 200:], selection=other[:, :200], fresh=other[:, 200:], classes=4)
    second = recert.certify(altered, None, noise=Gaussian(0.5), samples=3_000)
    assert second.certificates.certified[row]
    pilot_or_same = recert.recertify(changed, None, second, samples=100, method="series", certificate="one-sided")
    reference = recert.recertify(changed, None, cache, samples=100, method="series", certificate="one-sided")
    assert pilot_or_same.replayed[row] == reference.replayed[row]


def test_an_input_that_the_plan_leaves_out_says_so() -> None:
    base, changed, _ = votes_of(1)
    cache = recert.certify(base, None, noise=Gaussian(0.5), samples=3_000)
    result = recert.recertify(changed, None, cache, samples=15)
    left_out = result.outcome == "left-out-by-plan"
    assert 0 < left_out.mean() < 1
    assert (result.forward_passes[left_out] == 0).all()
    assert (result.outcome[~cache.certify(alpha=0.002).certified] == "not-certified-before").all()


def test_the_plan_beats_uniform_on_real_votes(test_data: Path) -> None:
    real = np.load(test_data / "votes_r20_s0.5.npz")

    def stored(name: str) -> StoredVotes:
        v = real[name].astype(np.int64)
        return StoredVotes(v[:, 500:9_000], selection=v[:, :500], fresh=v[:, 9_000:], classes=10)

    cache = recert.certify(stored("fp32"), None, noise=Gaussian(0.5), samples=8_500, alpha=0.001)
    for name in ("fp16", "int8"):
        planned, uniform, irs = (
            recert.recertify(stored(name), None, cache, samples=samples, alpha=0.002, method=method, plan=plan, certificate="one-sided")
            for method, plan, samples in (("auto", "acr", 300), ("series", "uniform", 360), ("irs", "uniform", 360))
        )  # fmt: skip
        radii = [r.average_certified_radius(real["labels"]) for r in (irs, uniform, planned)]
        assert radii == sorted(radii), "at more passes for the ones before"
        assert planned.mean_forward_passes <= min(uniform.mean_forward_passes, irs.mean_forward_passes) + 15
    focused = recert.recertify(
        stored("int8"), None, cache, samples=100, alpha=0.002, plan="accuracy:0.5", certificate="one-sided"
    )
    spread = recert.recertify(
        stored("int8"), None, cache, samples=100, alpha=0.002, plan="acr", certificate="one-sided"
    )
    at = [r.certified_accuracy(real["labels"], 0.5) for r in (spread, focused)]
    assert at[1] >= at[0]
