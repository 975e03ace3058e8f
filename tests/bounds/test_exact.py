"""The proofs on sizes small enough to sum everything: coverage of all three bounds, the lemma of cells, tiny alphas.

Truth is summed by scipy or mpmath. All of this also runs without compilation, so that changed code can be tried quickly.
"""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from recert import bounds
from recert.bounds import clopper_pearson_lower, clopper_pearson_upper, joint_lower, paired_lower, series_lower
from recert.bounds._joint_cells import Cell, _sub_gaussian, bound_cell_where_p_follows, lifted, p_on_surface
from recert.bounds._joint_chance import Outcomes, log_chance

SHARES = np.array([0.0, 0.05, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0])
RATES = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0])


@pytest.mark.parametrize(("n", "m1", "m0", "alpha"), [(6, 4, 2, 0.2), (5, 5, 0, 0.1), (4, 3, 4, 0.3)])
def test_joint_and_paired_miss_at_most_alpha(n: int, m1: int, m0: int, alpha: float) -> None:
    k, f, g = np.arange(n + 1)[:, None, None], np.arange(m1 + 1)[:, None], np.arange(m0 + 1)
    found = {bound: bound(k, n, f, m1, g, m0, alpha) for bound in (joint_lower, paired_lower)}
    worst = dict.fromkeys(found, 0.0)
    for p, x, y in itertools.product(SHARES, RATES, RATES):
        chance = stats.binom.pmf(k, n, p) * stats.binom.pmf(f, m1, x) * stats.binom.pmf(g, m0, y)
        for bound, values in found.items():
            worst[bound] = max(worst[bound], float(chance[values > p * (1 - x) + (1 - p) * y].sum()))
    assert max(worst.values()) <= alpha + 1e-9
    assert worst[joint_lower] > 0.5 * alpha
    assert worst[paired_lower] > 0.03 * alpha


@pytest.mark.parametrize(("n", "m", "alpha"), [(8, 5, 0.1), (5, 8, 0.3), (12, 3, 0.05)])
def test_series_misses_at_most_alpha_and_spends_it(n: int, m: int, alpha: float) -> None:
    k, s = np.arange(n + 1)[:, None], np.arange(m + 1)
    found = series_lower(k, n, s, m, alpha)
    rates = np.append(np.linspace(0, 1, 25), alpha ** (1 / m) + np.array([-1e-6, 1e-6]))
    misses = [
        float((stats.binom.pmf(k, n, p) * stats.binom.pmf(s, m, r))[found > p * r].sum())
        for p, r in itertools.product(rates, rates)
    ]
    assert 0.9 * alpha <= max(misses) <= alpha + 1e-9


def test_series_is_buehlers_bound_where_it_can_be_written_down() -> None:
    """All votes and all replays but f for the class: the supremum is at p = 1 or r = 1, for a few outcomes."""
    for n, m, alpha in ((40, 10, 0.05), (10, 40, 0.01), (25, 25, 0.2)):
        assert series_lower(n, n, m, m, alpha) == pytest.approx(min(alpha ** (1 / n), alpha ** (1 / m)), abs=1e-9)


def log_tail(k: int, n: int, p: float) -> float:
    return float(stats.binom.logsf(k - 1, n, p))


def moved(p: float, lift: float) -> float:
    return p / (p + (1 - p) * math.exp(-lift))


def test_lifting_the_log_odds_raises_a_tail_by_no_more_than_is_proved() -> None:
    """Random tails and lifts, most of them at p below 1/2, where the variance at p alone is too little."""
    rng = np.random.default_rng(0)
    tight = 0
    for _ in range(4_000):
        n = int(rng.integers(1, 3_000))
        p = float(rng.choice([rng.uniform(0, 1), 10 ** rng.uniform(-4, -0.3), 1 - 10 ** rng.uniform(-4, -0.3)]))
        k = int(np.clip(n * p + rng.uniform(-1, 8) * math.sqrt(n * p * (1 - p)) + 1, 0, n))
        lift = float(rng.exponential(0.4))
        value, after, higher = log_tail(k, n, p), log_tail(k, n, moved(p, lift)), moved(p, lift)
        if not -600 < value < 0:
            continue
        bound = lifted(value, lift, n * _sub_gaussian(higher, higher))
        assert after <= bound + 1e-9, (n, k, p, lift)
        if p >= 0.5:
            assert after <= lifted(value, lift, n * p * (1 - p)) + 1e-9, (n, k, p, lift)
        tight += bound < 0.9 * after
    assert tight > 300  # not only trivial bounds


def test_the_variance_at_p_would_not_do_below_one_half() -> None:
    """The case that shows why: ln P is -7.52, the variance at the larger p would claim -7.75."""
    n, k, low, high = 1256, 15, 0.00302, 0.00435
    lift = math.log(high / low * (1 - low) / (1 - high))
    value, after = log_tail(k, n, low), log_tail(k, n, high)
    assert lifted(value, lift, n * high * (1 - high)) < after
    assert lifted(value, lift, n * _sub_gaussian(high, high)) >= after


@pytest.mark.parametrize("p", [1e-9, 0.003, 0.2, 0.499999, 0.5, 0.500001, 0.8, 1 - 1e-9])
def test_the_constant_of_kearns_and_saul(p: float) -> None:
    t = np.concatenate([-np.geomspace(1e-3, 300, 60), np.geomspace(1e-3, 300, 60)])
    moment = np.logaddexp(math.log1p(-p) - t * p, math.log(p) + t * (1 - p))  # ln E exp(t (X - p))
    assert (moment <= _sub_gaussian(p, p) * t**2 / 2 * (1 + 1e-9) + 1e-12).all()
    assert _sub_gaussian(p, p) <= 0.25
    assert _sub_gaussian(p / 2, p) >= _sub_gaussian(p, p) * (1 - 1e-12) or p > 0.5
    assert _sub_gaussian(min(p, 0.4), max(p, 0.6)) == 0.25


def random_outcomes(rng: np.random.Generator) -> tuple[Outcomes, float, float, float]:
    """A set of outcomes that rises in k, falls in f and rises in g, and a point near which it is not sure."""
    n, m1, m0 = int(rng.integers(5, 400)), int(rng.integers(2, 40)), int(rng.integers(1, 30))
    p, x, y = float(rng.uniform(0.02, 0.98)), float(rng.uniform(0.01, 0.4)), float(rng.uniform(0.01, 0.4))
    f, g = np.arange(m1 + 1)[:, None], np.arange(m0 + 1)
    edge = n * p + rng.uniform(-1, 5) * math.sqrt(n * p * (1 - p)) + n * (f / m1 - x) * p - n * (g / m0 - y) * (1 - p)
    fewest = np.clip(np.ceil(edge), 0, n + 1).astype(np.int64)
    fewest = np.minimum.accumulate(np.maximum.accumulate(fewest, axis=0), axis=1)
    return Outcomes(fewest, 0, 0, n, m1, m0, math.log(0.01)), p, x, y


def exact_log_chance(outcomes: Outcomes, p: float, x: float, y: float) -> float:
    of_f = stats.binom.pmf(np.arange(outcomes.m1 + 1), outcomes.m1, x)
    of_g = stats.binom.pmf(np.arange(outcomes.m0 + 1), outcomes.m0, y)
    chance = float(of_f @ stats.binom.sf(outcomes.fewest - 1, outcomes.n, p) @ of_g)
    return math.log(chance) if chance > 0 else -math.inf


def test_no_point_of_a_cell_exceeds_its_bound() -> None:
    """Random cells of the surface, for p near 0 as for p near 1, against exact sums at random points of the cell."""
    rng = np.random.default_rng(1)
    low = 0
    for _ in range(200):
        outcomes, p, x, y = random_outcomes(rng)
        q = p * (1 - x) + (1 - p) * y
        x1, x2 = x * (1 - rng.uniform(0, 0.4)), min(0.95, x * (1 + rng.uniform(0, 0.4)))
        y1, y2 = y * (1 - rng.uniform(0, 0.4)), min(0.95, y * (1 + rng.uniform(0, 0.4)))
        x1, y1 = (0.0 if rng.random() < 0.1 else x1), (0.0 if rng.random() < 0.1 else y1)
        if x2 >= 1 - q or y2 >= q:
            continue
        corners = [log_chance(outcomes, p_on_surface(q, a, b), a, b) for a in (x1, x2) for b in (y1, y2)]
        bound, _, _ = bound_cell_where_p_follows(outcomes, q, Cell(x1, x2, y1, y2, *corners))
        for _ in range(12):
            a, b = rng.uniform(x1, x2), rng.uniform(y1, y2)
            assert exact_log_chance(outcomes, p_on_surface(q, a, b), a, b) <= bound + 1e-9
        low += p < 0.5
    assert low > 30


@pytest.mark.parametrize("alpha", [1e-60, 1e-40, 1e-12])
def test_tiny_alphas_have_true_bounds(alpha: float) -> None:
    with mpmath.workdps(90):
        for n in (1, 2, 7, 300):
            exact = mpmath.mpf(alpha) ** (mpmath.mpf(1) / n)
            assert exact * (1 - mpmath.mpf("1e-12")) <= mpmath.mpf(clopper_pearson_lower(n, n, alpha)) <= exact
            assert mpmath.mpf(clopper_pearson_upper(0, n, alpha)) >= 1 - exact
        for k, n in ((60, 100), (5, 9)):
            bound = mpmath.mpf(clopper_pearson_lower(k, n, alpha))
            tail = sum(mpmath.binomial(n, j) * bound**j * (1 - bound) ** (n - j) for j in range(k, n + 1))
            assert tail <= alpha
    for n, m in ((300, 40), (40, 300)):
        limit = min(alpha ** (1 / n), alpha ** (1 / m))
        for found in (series_lower(n, n, m, m, alpha), joint_lower(n, n, 0, m, 0, 0, alpha), paired_lower(n, n, 0, m, 0, 0, alpha)):  # fmt: skip
            assert found <= limit
    # Where the counts of votes alone say less than the bound would, it is false: y = 0 is allowed.
    assert joint_lower(60, 100, 0, 50, 0, 10, alpha) <= clopper_pearson_lower(60, 100, alpha)


TOO_SMALL = [
    lambda a: clopper_pearson_lower(5, 10, a),
    lambda a: clopper_pearson_upper(5, 10, a),
    lambda a: series_lower(5, 10, 3, 4, a),
    lambda a: joint_lower(5, 10, 1, 4, 0, 2, a),
    lambda a: paired_lower(5, 10, 1, 4, 0, 2, a),
    lambda a: bounds.paired_losses_lower(5, 10, 1, 4, a),
    lambda a: bounds.smallest_samples_to_certify(a),
]


@pytest.mark.parametrize("bound", TOO_SMALL)
def test_alphas_below_what_is_proved_are_refused(bound) -> None:  # type: ignore[no-untyped-def]
    bound(1e-60)
    for alpha in (9e-61, 1e-108, 1e-300):
        with pytest.raises(ValueError, match=r"alpha of at least 1e-60.*divide it over fewer claims"):
            bound(alpha)


@pytest.mark.parametrize(("n", "m", "alpha"), [(8, 5, 0.1), (5, 8, 0.3), (12, 3, 0.05)])
def test_the_bound_for_few_flips_misses_at_most_alpha(n: int, m: int, alpha: float) -> None:
    k, s = np.arange(n + 1)[:, None], np.arange(m + 1)
    found = bounds.few_flips_lower(k, n, s, m, alpha)
    rates = np.append(np.linspace(0, 1, 25), alpha ** (1 / m) + np.array([-1e-6, 1e-6]))
    misses = [
        float((stats.binom.pmf(k, n, p) * stats.binom.pmf(s, m, r))[found > p * r].sum())
        for p, r in itertools.product(rates, rates)
    ]
    assert 0.9 * alpha <= max(misses) <= alpha + 1e-9
    assert np.diff(found, axis=0).min() >= 0
    assert np.diff(found, axis=1).min() >= 0


def test_the_bound_for_few_flips_is_buehlers_for_its_ordering() -> None:
    """Summed over a fine grid of p, with the ordering written down anew: above by nothing, below by the grid of the search."""
    n, m, alpha = 30, 12, 0.05
    k, s = np.arange(n + 1), np.arange(m + 1)
    lower = np.where(k == 0, 0.0, stats.beta.ppf(alpha, np.maximum(k, 1), n - k + 1))
    order = np.outer(lower, np.where(s == 0, 0.0, np.exp(-4 * (m - s) / m)))
    for votes, kept in ((30, 12), (27, 12), (28, 11), (20, 10)):
        good = order >= order[votes, kept] * (1 - 1e-10)

        def largest(q: float, good: np.ndarray = good) -> float:
            p = np.concatenate([q + (1 - q) * np.linspace(0, 1, 3_000) ** 2, [1.0]])
            of_k, of_s = stats.binom.pmf(k, n, p[:, None]), stats.binom.pmf(s, m, np.minimum(q / p, 1)[:, None])
            return float(np.einsum("ik,ks,is->i", of_k, good, of_s).max())

        found = bounds.few_flips_lower(votes, n, kept, m, alpha)
        assert largest(found) <= alpha + 1e-9
        assert largest(found + 5e-6) > alpha
