"""The plan: optimal on small cases by brute force, deterministic, within its budget, blind to what it must not see."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, norm

import recert
from recert import Gaussian, StoredVotes, bounds
from recert.planning import Beliefs, Objective, Selection, allocate, parse_plan, plan_budget
from recert.planning.tables import Circumstances
from recert.recertification import run
from recert.recertification.irs import Irs
from recert.recertification.joint import Joint
from recert.recertification.method import Bounds, Method, Option, Terms
from recert.recertification.paired import Paired, split_table
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

        def noted(task, given, flips, pool):  # type: ignore[no-untyped-def]
            new = {each.row: (task.options.index(each.option), each.passes) for each in given}
            assert not new.keys() & self.of_row.keys(), "chosen twice"
            self.of_row |= new
            return real(task, given, flips, pool)

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
@pytest.mark.parametrize("method", OUR_METHODS)
def test_no_inputs_votes_that_claim_enter_its_own_plan(
    method: str, certificate: str, lots: list[Lot], caches: list[recert.Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those of the original nor the flips of the modification. On flips of others it may depend."""
    found: list[dict[int, tuple[int, int]]] = []
    for lot, cache in zip(lots, caches, strict=True):
        with monkeypatch.context() as patch:
            chosen = Chosen(patch)
            recert.recertify(
                lot.stored(lot.modified), None, cache, samples=60, alpha=0.002, method=method, certificate=certificate
            )
        found.append(chosen.of_row)
    planned = found[0]
    assert len({passes for _, passes in planned.values()}) > 4, "a plan that tells inputs apart"
    for row, theirs in enumerate(found[1:]):
        if row in planned:  # otherwise the input was not certified as it was
            assert theirs[row] == planned[row]
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
