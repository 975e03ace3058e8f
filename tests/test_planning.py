"""The plan: optimal on small cases by brute force, deterministic, within its budget, blind to what it must not see."""

import itertools
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RectBivariateSpline
from scipy.stats import beta, norm

import recert
from recert import Gaussian, StoredVotes, bounds
from recert.planning import Beliefs, Objective, Selection, allocate, equal_passes, parse_plan, plan_budget
from recert.planning.splines import interpolation
from recert.planning.tables import Circumstances
from recert.recertification import run, series
from recert.recertification.auto import Auto
from recert.recertification.irs import Irs
from recert.recertification.joint import Joint
from recert.recertification.method import Bounds, Method, Option, Terms
from recert.recertification.paired import Paired, split_table
from recert.recertification.replays import EventCounts
from recert.recertification.scratch import ScratchCached
from recert.recertification.series import FewFlips, Series, bound_table
from recert.votes import SelectionCounts

NOISE = Gaussian(0.5)


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
    table = bound_table(Series(), Circumstances(n, 0.002, NOISE, flips), n // 2)
    predicted = norm.cdf(table.on_scale(np.array(p), np.array(float(m))))
    lost = m * flips * (1 - p)
    around = bounds.series_lower(round(p * n), n, m - np.array([np.floor(lost), np.ceil(lost)]), m, 0.002)
    assert around.min() - 0.003 <= predicted <= around.max() + 0.003


class Expected:
    """Bounds of every method at the counts that are expected, on `M` noises of a cache with `N` votes."""

    N, M, ALPHA, CACHE_ALPHA, FLIPS = 10_000, 1_000, 0.004, 0.001, 0.05

    def radius(self, method: Method, sides: int, p: float, q: float) -> float:
        if sides == 1:
            return float(0.5 * norm.ppf(self.lower(method.name, p, self.M, self.ALPHA, [0.0, 0.1, 0.25, 0.5])))
        # Series replays noises of one kind only, as many as there are among the first M; others replay all of these.
        m = (self.M * p, self.M * (1 - q)) if isinstance(method, Series) else (self.M, self.M)
        top, rival = (
            norm.ppf(self.lower(method.name, event, of, self.ALPHA / 2, [1 - event]))
            for event, of in zip((p, 1 - q), m, strict=True)
        )
        return float(0.25 * (top + max(top, rival)))

    def lower(self, method: str, p: float, m: float, alpha: float, shares: list[float]) -> float:
        """On an event of probability p. `shares`: of m replays, how many may be where it does not hold; the best is taken."""
        k, n = round(p * self.N), self.N
        lost = m * self.FLIPS * (1 - p)
        fresh = np.floor(p * m)
        if method == "series":
            return float(bounds.series_lower(k, n, round(m - lost), round(m), alpha))
        if method == "few-flips":
            return float(bounds.few_flips_lower(k, n, round(m - 2 * lost), round(m), alpha))
        cached = beta.ppf(self.CACHE_ALPHA, k, n - k + 1)
        if method == "irs" and cached < 0.99:
            return float(cached - beta.isf(alpha - self.CACHE_ALPHA, 2 * lost * p + 1, m - 2 * lost * p))
        if method in ("irs", "scratch-cached"):
            return float(beta.ppf(alpha, fresh, m - fresh + 1))
        lower = {"joint": bounds.joint_lower, "paired": bounds.paired_lower}[method]
        return max(
            float(
                lower(k, n, round(lost * (1 - s)), round(m - s * m), round(s * m * self.FLIPS * p), round(s * m), alpha)
            )
            for s in shares
        )


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize(
    "method", [Series(), FewFlips(), Joint(), Paired(), Irs(), ScratchCached()], ids=lambda m: m.name
)
def test_a_plan_expects_the_radius_of_the_bounds_at_the_expected_counts(method: Method, sides: int) -> None:
    """Close enough to choose by: tables are read between their lines."""
    if sides == 2 and method.name == "irs":
        return
    expected = Expected()
    terms = Terms(expected.N, 500, 10, NOISE, expected.ALPHA, expected.CACHE_ALPHA, sides, expected.FLIPS)
    predict = method.expected_radius(terms, expected.N // 2)
    for p, q in ((0.8, 0.1), (0.9, 0.05), (0.95, 0.04), (0.998, 0.001)):
        found = float(predict(np.array(p), np.array(q), np.array(float(expected.M))))
        assert found == pytest.approx(expected.radius(method, sides, p, q), rel=0.02)


def test_the_paired_split_goes_to_gains_only_when_there_are_flips() -> None:
    assert (
        split_table(Circumstances(100_000, 0.002, NOISE, 0.0), 5_000).other_share(np.array([0.8]), np.array([2_000.0]))
        == 0
    )
    assert (
        split_table(Circumstances(100_000, 0.002, NOISE, 0.05), 5_000).other_share(np.array([0.8]), np.array([2_000.0]))
        > 0
    )


def test_the_plan_keeps_to_its_budget_and_spends_nothing_where_nothing_grows() -> None:
    votes = np.array([200, 210, 300, 400, 480, 499, 500])
    others = (500 - votes) // 2
    counts = np.stack([votes, others, 500 - votes - others], axis=1)
    beliefs = Beliefs.from_votes(Selection(SelectionCounts(counts)))
    predict = bound_table(Series(), Circumstances(10_000, 0.002, NOISE), 5_000).radius(1)
    choice = plan_budget(beliefs, [predict], Objective(), 3_000, 5_000)
    assert choice.passes.sum() <= 3_000
    assert choice.passes.sum() > 2_700
    assert choice.passes[:2].tolist() == [0, 0]
    assert choice.passes[-1] == choice.passes.max()
    for radius in (0.5, 1.0):
        focused = plan_budget(beliefs, [predict], Objective(radius), 3_000, 5_000)
        assert focused.passes[2] < max(focused.passes)


def test_beliefs_do_not_depend_on_neighbours() -> None:
    counts = np.array([[90, 5, 5], [60, 40, 0], [100, 0, 0]])
    together = Beliefs.from_votes(Selection(SelectionCounts(counts)))
    alone = Beliefs.from_votes(Selection(SelectionCounts(counts[1:2])))
    assert together.top[together.of_inputs[1]].tolist() == alone.top[0].tolist()
    assert ((together.top + together.runner_up) <= 1).all()


def test_beliefs_are_the_posterior_of_class_and_runner_up() -> None:
    """Twelve draws have about the mean and spread of the Dirichlet distribution, whose margins are beta distributions."""
    counts = np.array([[450, 30, 20], [300, 150, 50], [90, 10, 0]])
    beliefs = Beliefs.from_votes(Selection(SelectionCounts(counts)))
    for row, (top, rival, rest) in enumerate(counts):
        mine = beliefs.of_inputs[row]
        for draws, a in ((beliefs.top[mine], top), (beliefs.runner_up[mine], rival)):
            margin = beta(a + 0.5, top + rival + rest - a + 1.0)
            assert draws.mean() == pytest.approx(margin.mean(), abs=margin.std() / 5)
            assert draws.std() == pytest.approx(margin.std(), rel=0.35)


def test_inputs_of_equal_counts_are_one_kind_and_get_the_same_until_the_budget_ends() -> None:
    """What is left at the end is spent on the first of them, as for single inputs: by the same rule, kind by kind."""
    counts = np.array([[90, 5, 5], [80, 15, 5], [90, 5, 5], [80, 5, 15], [90, 4, 6], [90, 5, 5]])
    beliefs = Beliefs.from_votes(Selection(SelectionCounts(counts)))
    assert len(beliefs.top) == 3
    kinds = beliefs.of_inputs
    assert kinds[0] == kinds[2] == kinds[5]  # whose class and runner-up have as many votes
    assert kinds[1] == kinds[3]
    assert len(beliefs.of(np.array([2, 5, 3])).top) == 2
    rng = np.random.default_rng(0)
    values = np.concatenate([np.zeros((3, 1)), np.cumsum(np.sort(rng.random((3, 8)))[:, ::-1], axis=1)], axis=1)
    costs = np.append(0.0, np.geomspace(8, 500, 8).round())
    for budget in range(0, 3_200, 37):
        together, alone = allocate(values, costs, budget, kinds), allocate(values[kinds], costs, budget)
        assert costs[together].sum() <= budget
        assert values[kinds, together].sum() == pytest.approx(values[kinds, alone].sum(), abs=1e-9)
        for kind in range(3):
            got = together[kinds == kind]
            assert len(set(got.tolist())) <= 2
            assert (np.diff(got) <= 0).all(), "the first have more"


def test_each_option_has_its_own_largest_number_of_passes() -> None:
    """The first promises more, but ends at 100: at small budgets all take it, at large ones the other, with more than 100."""
    beliefs = Beliefs(np.linspace(0.6, 0.95, 8)[:, None], np.zeros((8, 1)))
    first = lambda p, _, m: p * np.log(1 + m) / 5  # noqa: E731
    second = lambda p, _, m: p * np.log(1 + m / 2) / 5  # noqa: E731
    few = plan_budget(beliefs, [first, second], Objective(), 8 * 60, [100, 5_000])
    assert (few.option == 0).all()
    many = plan_budget(beliefs, [first, second], Objective(), 8 * 1_500, [100, 5_000])
    assert (many.option == 1).all()
    assert many.passes.min() > 200
    assert many.passes.sum() <= 8 * 1_500
    for mean in (60, 100, 150, 300):  # between, both; and nowhere more than an option allows
        choice = plan_budget(beliefs, [first, second], Objective(), 8 * mean, [100, 5_000])
        assert choice.passes[choice.option == 0].max(initial=0) <= 100


def test_the_worth_of_a_plan_and_the_passes_of_one_option_that_equal_it() -> None:
    beliefs = Beliefs(np.full((2, 1), 0.9), np.zeros((2, 1)), np.array([0, 1, 1, 0]))
    double = lambda p, _, m: 2 * np.log(m / 4) + 0 * p  # noqa: E731
    single = lambda p, _, m: np.log(m / 4) + 0 * p  # noqa: E731
    choice = plan_budget(beliefs, [double], Objective(), 4 * 64, 1_000)
    assert choice.worth == pytest.approx(4 * 2 * np.log(16), rel=0.02)  # all get about 64
    assert equal_passes(beliefs, single, Objective(), 8 * np.log(16), 5_000) == pytest.approx(4 * 16**2, rel=0.02)
    assert equal_passes(beliefs, single, Objective(), 8 * np.log(16), 500) == np.inf


def test_many_inputs_are_planned_in_little_time_and_memory() -> None:
    """20,000 inputs with 500 votes: seconds were minutes, and gigabytes, when every input had predictions of its own."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([0.3] * 10, 20_000)
    counts = rng.multinomial(500, shares)
    predictors = [
        option.method.expected_radius(Terms(10_000, 500, 10, NOISE, 0.002, 0.001, option.sides, 0.01), 5_000)
        for option in Auto().options("two-sided")
    ]
    tracemalloc.start()
    started = time.process_time()
    beliefs = Beliefs.from_votes(Selection(SelectionCounts(counts)))
    choice = plan_budget(beliefs, predictors, Objective(), 20_000 * 300, 5_000)
    took, memory = time.process_time() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert choice.passes.sum() == pytest.approx(20_000 * 300, rel=0.01)
    assert took < 2
    assert memory < 250e6


def test_plans() -> None:
    assert parse_plan("uniform") is None
    assert parse_plan("acr") == Objective(None)
    assert parse_plan("accuracy:0.5") == Objective(0.5)
    assert parse_plan("accuracy:0") == Objective(0.0)
    radii = np.array([0.4, 0.5, 0.6])
    assert Objective(0.5).value(radii).tolist() == [0, 1, 1]
    assert Objective().value(radii).tolist() == radii.tolist()


def test_an_allocation_by_hand() -> None:
    costs = np.array([0.0, 10.0, 20.0])
    values = np.array([[0, 1.0, 1.5], [0, 3.0, 3.1]])
    best = {0: [0, 0], 9: [0, 0], 10: [0, 1], 19: [0, 1], 20: [1, 1], 30: [2, 1], 39: [2, 1], 40: [2, 2], 1000: [2, 2]}
    assert {budget: allocate(values, costs, budget).tolist() for budget in best} == best
    # What is left is spent on the best step per cost that fits, even if a better one does not.
    steep = np.array([[0, 0.0, 5.0], [0, 0.1, 0.2]])
    assert allocate(steep, costs, 15).tolist() == [0, 1]
    assert allocate(steep, costs, 30).tolist() == [2, 1]
    # Every input may have costs of its own.
    assert allocate(np.array([[0, 1.0], [0, 1.0]]), np.array([[0, 5.0], [0, 50.0]]), 50).tolist() == [1, 0]


def test_a_plan_shares_out_what_its_objective_has_no_use_for() -> None:
    """Two inputs reach the radius with 8 passes each, the fewest that there are; the rest is theirs in proportion."""
    beliefs = Beliefs(np.ones((3, 2)), np.zeros((3, 2)))
    beliefs.top[2] = 0.0
    enough = lambda p, _, m: np.where((p == 1) & (m >= 8), 1.0, 0.0)  # noqa: E731
    for budget, each in ((16, 8), (17, 8), (60, 30), (10_000, 40)):
        choice = plan_budget(beliefs, [enough], Objective(0.5), budget, 40)
        assert choice.passes.tolist() == [each, each, 0]
        assert choice.option.tolist() == [0, 0, 0]
    assert plan_budget(beliefs, [enough], Objective(0.5), 15, 40).passes.tolist() == [15, 0, 0]
    assert plan_budget(beliefs, [enough], Objective(0.5), 7, 40).passes.tolist() == [0, 0, 0]
    nothing = lambda p, _, m: 0.0 * p * m  # noqa: E731
    later = plan_budget(beliefs, [nothing, nothing, enough], Objective(0.5), 100, 40)
    assert (later.option.tolist(), later.passes.tolist()) == ([2, 2, 0], [40, 40, 0])


@pytest.mark.parametrize("text", ["accuracy", "accuracy:-1", "accuracy:x", "accuracy:nan", "radius:0.5", "ACR", ""])
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


def test_the_plan_is_deterministic() -> None:
    base, changed, _ = votes_of(0)
    cache = recert.certify(base, None, noise=Gaussian(0.5), samples=3_000)
    first, again = (recert.recertify(changed, None, cache, samples=100, method="series") for _ in range(2))
    assert first.forward_passes.tolist() == again.forward_passes.tolist()


OUR_METHODS = ("series", "joint", "paired", "auto")
INPUTS, SAMPLES, SELECTION, CLASSES = 20, 400, 100, 4


class Lot:
    """Inputs on which the original is more or less sure of class 1, and a modification that flips a few votes."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.rng = rng
        p = np.linspace(0.5, 0.99, INPUTS)[:, None]
        self.selection, self.estimation = (
            np.where(rng.random((INPUTS, size)) < p, 1, rng.integers(0, CLASSES, (INPUTS, size)))
            for size in (SELECTION, SAMPLES)
        )
        self.modified = np.where(rng.random((INPUTS, SAMPLES)) < 0.02, 0, self.estimation)

    def stored(self, estimation: np.ndarray, rows: slice = slice(None)) -> StoredVotes:
        """The fresh votes are of no account here: they are drawn after everything was chosen."""
        votes = estimation[rows]
        return StoredVotes(votes, selection=self.selection[rows], fresh=votes, classes=CLASSES)

    def altered(self, row: int) -> "Lot":
        """Of one input all votes that claim are other ones: much surer where it was unsure, and the other way round; and
        the modification flips a third of them. Selection votes stay."""
        other = Lot()
        share = 0.9 if np.mean(self.estimation[row] == 1) < 0.78 else 0.62
        others = self.rng.choice([0, 2, 3], SAMPLES)
        other.estimation[row] = self.rng.permutation(np.where(np.arange(SAMPLES) < share * SAMPLES, 1, others))
        other.modified[row] = np.where(self.rng.random(SAMPLES) < 1 / 3, 3, other.estimation[row])
        return other

    def cache(self, rows: slice = slice(None)) -> recert.Cache:
        return recert.certify(
            self.stored(self.estimation, rows), None, noise=Gaussian(0.5), samples=SAMPLES, selection_samples=SELECTION
        )


@pytest.fixture(scope="module")
def lots() -> list[Lot]:
    """As they are, and then with each of the inputs altered in turn."""
    lot = Lot()
    return [lot, *(lot.altered(row) for row in range(INPUTS))]


@pytest.fixture(scope="module")
def caches(lots: list[Lot]) -> list[recert.Cache]:
    caches = [lot.cache() for lot in lots]
    for row, cache in enumerate(caches[1:]):
        for certificate in ("one-sided", "two-sided"):
            assert cache.certify(alpha=0.002, certificate=certificate).certified[row]
    return caches


class Chosen:
    """What is chosen for each input: option and passes. Nothing is bounded, which takes its time and decides nothing."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.of_row: dict[int, tuple[int, int]] = {}
        real = run.carry_out

        def noted(task, given, flips, pool, *more):  # type: ignore[no-untyped-def]
            new = {each.row: (task.options.index(each.option), each.passes) for each in given}
            assert not new.keys() & self.of_row.keys(), "chosen twice"
            self.of_row |= new
            return real(task, given, flips, pool, *more)

        patch.setattr(run, "carry_out", noted)
        for method in (Series, FewFlips, Joint, Paired):
            patch.setattr(method, "bound", Asked().bound)


class Asked:
    """Stands in for the bounds of the methods: notes numbers of replays and claims nothing."""

    def __init__(self) -> None:
        self.replays: set[tuple[int, ...]] = set()

    def bound(self, counts, terms):  # type: ignore[no-untyped-def]
        self.replays |= {(replayed, other) for each in counts for _, _, replayed, _, other in each.arguments}
        return Bounds(np.zeros(len(counts)))


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
@pytest.mark.parametrize(("method", "plan"), [*((method, "acr") for method in OUR_METHODS), ("auto", "accuracy:0.15")])
def test_no_inputs_votes_that_claim_enter_its_own_plan(
    method: str,
    plan: str,
    certificate: str,
    lots: list[Lot],
    caches: list[recert.Cache],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither those of the original nor the flips of the modification. On flips of others it may depend."""
    found: list[dict[int, tuple[int, int]]] = []
    for lot, cache in zip(lots, caches, strict=True):
        with monkeypatch.context() as patch:
            chosen = Chosen(patch)
            recert.recertify(
                lot.stored(lot.modified), None, cache, samples=60, alpha=0.002, method=method, plan=plan, certificate=certificate
            )  # fmt: skip
        found.append(chosen.of_row)
    planned = found[0]
    assert len({passes for _, passes in planned.values()}) > 4, "a plan that tells inputs apart"
    compared = 0
    for row, theirs in enumerate(found[1:]):
        if row in planned and row in theirs:  # otherwise no claim is made of the input, as it was or as it is altered
            assert theirs[row] == planned[row]
            compared += 1
    assert compared > (INPUTS / 3 if plan == "acr" else 2)
    assert any(theirs != planned for theirs in found[1:]), "what flips on some inputs tells what to expect on others"


@pytest.mark.parametrize("option", [0, 1])
@pytest.mark.parametrize("method", ["series", "joint", "paired"])
def test_no_inputs_votes_that_claim_enter_its_numbers_of_replays(
    method: str, option: int, lots: list[Lot], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each input on its own, with its class alone or with its rivals: how many noises of each kind every bound is about.

    With its rivals paired replays the first noises whatever the votes are, so that only their sum is fixed.
    """
    kind = {"series": Series, "joint": Joint, "paired": Paired}[method]
    monkeypatch.setattr(kind, "options", lambda self, certificate: (Option(self, 1 + option),))
    monkeypatch.setattr(run, "PILOT_FLIPS", 0.6)  # so many that some replays are to find gains
    compared = []
    for row in range(INPUTS):
        found = []
        for lot in (lots[0], lots[1 + row]):
            asked = Asked()
            monkeypatch.setattr(kind, "bound", asked.bound)
            only = slice(row, row + 1)
            recert.recertify(
                lot.stored(lot.modified, only),
                None,
                lot.cache(only),
                samples=60,
                alpha=0.002,
                method=method,
                plan="uniform",
            )
            found.append({(sum(m),) for m in asked.replays} if (method, option) == ("paired", 1) else asked.replays)
        if found[0] and found[1]:  # otherwise no claim is made, which is allowed to depend on everything
            assert found[1] == found[0]
            compared.append(found[0])
    assert len(compared) > INPUTS / 2
    if (method, option) not in (("series", 0), ("paired", 1)):  # of these all noises are of one kind
        assert len(set(map(frozenset, compared))) > 2, "numbers that tell inputs apart"


def test_no_input_is_planned_by_the_order_that_inputs_come_in() -> None:
    """Many inputs with equal counts, of which some get more where the budget ends."""
    rng = np.random.default_rng(5)
    p = np.repeat([0.7, 0.97], 30)[:, None]
    votes = np.where(rng.random((60, 1_030)) < p, 1, 0)
    votes[:, :30] = np.arange(30) < (30 * p).round()  # the same selection votes, which are otherwise few
    changed = np.where(rng.random(votes.shape) < 0.02, 0, votes)

    def passes(rows: np.ndarray, digests: np.ndarray) -> dict[int, int]:
        def make(v: np.ndarray) -> StoredVotes:
            source = StoredVotes(v[rows, 30:], selection=v[rows, :30], fresh=v[rows, 30:], classes=2)
            source.digests = [f"{digest:064x}" for digest in digests[rows]]
            return source

        cache = recert.certify(make(votes), None, noise=Gaussian(0.5), samples=1_000, selection_samples=30)
        result = recert.recertify(make(changed), None, cache, samples=97)
        return dict(zip(digests[rows].tolist(), result.forward_passes.tolist(), strict=True))

    digests = rng.permutation(60)
    found = passes(np.arange(60), digests)
    assert len(set(found.values())) > 2
    assert passes(rng.permutation(60), digests) == found


def test_an_input_that_the_plan_leaves_out_says_so() -> None:
    base, changed, _ = votes_of(1)
    cache = recert.certify(base, None, noise=Gaussian(0.5), samples=3_000)
    result = recert.recertify(changed, None, cache, samples=15)
    left_out = result.outcome == "left-out-by-plan"
    assert 0 < left_out.mean() < 1
    assert (result.forward_passes[left_out] == 0).all()
    assert (result.outcome[~cache.certify(alpha=0.002).certified] == "not-certified-before").all()


def test_the_plan_beats_uniform_on_real_votes(real_votes: dict[str, np.ndarray]) -> None:
    real = real_votes

    def stored(name: str) -> StoredVotes:
        v = real[name]
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


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
def test_auto_is_not_below_certifying_anew_at_any_budget_on_real_votes(
    certificate: str, real_votes: dict[str, np.ndarray]
) -> None:
    """A cache of 1,500 votes, budgets from a quarter of them to twice as many; more than replays may have goes to fresh votes."""
    n = 1_500

    def stored(name: str) -> StoredVotes:
        v = real_votes[name]
        return StoredVotes(v[:, 500 : 500 + n], selection=v[:, :500], fresh=v[:, 500 + n :], classes=10)

    cache = recert.certify(stored("fp32"), None, noise=Gaussian(0.5), samples=n, selection_samples=500, alpha=0.001)
    for name in ("fp16", "prune20"):
        before = 0.0
        for samples in (n // 4, n // 2, n, 2 * n):
            auto, anew = (
                recert.recertify(stored(name), None, cache, samples=samples, alpha=0.002, method=method, certificate=certificate)
                for method in ("auto", "scratch-cached")
            )  # fmt: skip
            radius = auto.average_certified_radius(auto.prediction)
            assert radius >= anew.average_certified_radius(anew.prediction) - 0.002
            assert auto.mean_forward_passes <= 1.02 * samples
            assert radius >= before - 0.002
            before = radius
            replays = auto.method != "scratch-cached"
            assert (
                auto.forward_passes[replays].max(initial=0) <= 1.1 * n / 2
            )  # questions about rivals share most noises
        assert auto.forward_passes[~replays].max() > n, "fresh votes go beyond the cache"


def test_auto_asks_for_no_more_fresh_votes_than_exist(real_votes: dict[str, np.ndarray]) -> None:
    """They are stored, and nobody can draw others."""

    def stored(name: str) -> StoredVotes:
        v = real_votes[name]
        return StoredVotes(v[:, 500:1_500], selection=v[:, :500], fresh=v[:, 1_500:3_500], classes=10)

    cache = recert.certify(stored("fp32"), None, noise=Gaussian(0.5), samples=1_000, selection_samples=500)
    for source in (stored("fp16"), recert.CachingSource(stored("fp16"))):
        result = recert.recertify(source, None, cache, samples=1_800)
        assert result.forward_passes.max() == 2_000
    with pytest.raises(ValueError, match="at least 2001 stored fresh votes"):
        recert.recertify(stored("fp16"), None, cache, samples=2_001, plan="uniform")


def test_equal_shares_beyond_half_of_the_cache_are_fresh_votes(real_votes: dict[str, np.ndarray]) -> None:
    def stored(name: str) -> StoredVotes:
        v = real_votes[name]
        return StoredVotes(v[:, 500:1_500], selection=v[:, :500], fresh=v[:, 1_500:], classes=10)

    cache = recert.certify(stored("fp32"), None, noise=Gaussian(0.5), samples=1_000, selection_samples=500)
    below, above = (recert.recertify(stored("fp16"), None, cache, samples=m, plan="uniform") for m in (500, 501))
    assert set(below.method[below.forward_passes > 0]) - {"scratch-cached"}
    assert set(above.method[above.forward_passes > 0]) == {"scratch-cached"}


@pytest.mark.filterwarnings("error")
def test_where_hardly_any_pass_is_saved_a_warning_says_so(real_votes: dict[str, np.ndarray]) -> None:
    def stored(name: str) -> StoredVotes:
        v = real_votes[name]
        return StoredVotes(v[:, 500:1_500], selection=v[:, :500], fresh=v[:, 1_500:4_500], classes=10)

    cache = recert.certify(stored("fp32"), None, noise=Gaussian(0.5), samples=1_000, selection_samples=500)
    recert.recertify(stored("fp16"), None, cache, samples=200)
    recert.recertify(stored("fp16"), None, cache, samples=2_800, method="scratch-cached")
    with pytest.warns(UserWarning, match="certifying anew .* may be as fast"):
        recert.recertify(stored("fp16"), None, cache, samples=2_800)


@pytest.mark.parametrize("passes", [2, 3, 4, 5, 6, 9, 20])
def test_splines_are_those_of_scipy(passes: int) -> None:
    """FITPACK's, which takes 24 MB to import; also through so few places that no cubic goes through them."""
    rng = np.random.default_rng(passes)
    x, y = np.cumsum(rng.uniform(0.2, 1.0, 14)), np.cumsum(rng.uniform(0.2, 1.0, passes))
    values = rng.normal(size=(len(x), len(y)))
    between_x, between_y = np.linspace(x[0], x[-1], 41), np.linspace(y[0], y[-1], 33)
    expected = RectBivariateSpline(x, y, values, ky=min(3, passes - 1))(between_x, between_y)
    found = interpolation(x, between_x) @ values @ interpolation(y, between_y).T
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(interpolation(x, x) @ values @ interpolation(y, y).T, values, atol=1e-10)


def test_planning_needs_only_the_special_functions_of_scipy() -> None:
    program = (
        "import sys, recert; recert.recertify; "
        "sys.exit(any(f'scipy.{name}' in sys.modules for name in ('interpolate', 'optimize', 'sparse', 'stats')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("samples", [10_000, 100_000, 2_000_000])
def test_tables_of_large_caches_are_searched_as_if_they_were_smaller(
    samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search takes as long as there are votes; what a plan expects may be a little wrong."""
    searched, about = set(), Series.about

    def noting(self: Series, of: EventCounts, samples: int, alpha: float) -> Any:
        searched.add(samples)
        return about(self, of, samples, alpha)

    monkeypatch.setattr(Series, "about", noting)
    bound_table.__wrapped__(Series(), Circumstances(samples, 0.001, NOISE, 0.02), 100)
    assert searched == {samples if samples <= 100_000 else 50_000}


def test_the_table_of_a_large_cache_is_close_to_the_one_that_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Circumstances(400_000, 0.001, NOISE, 0.02)

    def table(given: Circumstances) -> Any:
        return bound_table.__wrapped__(Series(), given, 20_480).scaled[
            :-4
        ]  # up to .9999; beyond, a vote more or less is a step

    about, smaller = table(large), table(replace(large, samples=50_000))
    monkeypatch.setattr(series, "SEARCHED", 10**9)
    exact = table(large)
    # On the scale of quantiles: with sigma .5, two thousandths of a radius in the mean.
    assert np.abs(about - exact).mean() < 0.004
    # With as many replays as there may be the votes decide, and there more of them count most.
    assert np.abs(about - exact)[:, -1].mean() < 0.2 * np.abs(smaller - exact)[:, -1].mean()
