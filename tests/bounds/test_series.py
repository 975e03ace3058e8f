"""series_lower against method's reference values, a slow oracle, exact coverage, and its laws."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recert.bounds import clopper_pearson_lower, clopper_pearson_upper
from recert.bounds._binomial_tails import point_probability, upper_tail
from recert.bounds._series_search import Outcomes, log_chance
from recert.bounds.series import _lower_table, few_flips_about, few_flips_lower, series_about, series_lower

# (top votes, samples, kept, replayed, exact bound at alpha = .002), computed by two other programs
REFERENCE = [
    (700, 1_000, 100, 100, 0.641328),
    (7_000, 10_000, 700, 700, 0.686646),
    (9_000, 10_000, 900, 900, 0.890606),
    (9_900, 10_000, 987, 990, 0.976797),
    (10_000, 10_000, 1_000, 1_000, 0.993805),
    (8_000, 10_000, 76, 80, 0.670459),
]
ALPHAS = [1e-9, 0.001, 0.002, 0.05, 0.3]


@pytest.mark.parametrize(("k", "n", "s", "m", "exact"), REFERENCE)
def test_reference_values(k, n, s, m, exact):
    bound = series_lower(k, n, s, m, 0.002)
    assert exact - 2e-6 <= bound <= exact


def buehler_by_brute_force(k, n, s, m, alpha, points=1500):
    """Buehler's bound with the supremum taken over a fine grid only: not below the exact value, and close to it."""
    ks, ss = np.arange(n + 1), np.arange(m + 1)
    lower_k = np.where(ks == 0, 0.0, stats.beta.ppf(0.9 * alpha, np.maximum(ks, 1), n - ks + 1))
    lower_s = np.where(ss == 0, 0.0, stats.beta.ppf(0.1 * alpha, np.maximum(ss, 1), m - ss + 1))
    inside = np.outer(lower_k, lower_s) >= lower_k[k] * lower_s[s] * (1 - 1e-12)
    fewest = np.where(inside.any(axis=0), inside.argmax(axis=0), n + 1)

    def largest_chance(q):
        # Dense at both ends, where the supremum is steepest.
        t = (1 - np.cos(np.linspace(0, np.pi, points))) / 2
        p = np.append(np.clip(q + (1 - q) * np.concatenate([t, 1 - np.geomspace(1e-9, 1e-3, 200)]), q, 1), q)
        r = np.minimum(q / p, 1.0)
        return (stats.binom.pmf(ss[None], m, r[:, None]) * stats.binom.sf(fewest[None] - 1, n, p[:, None])).sum(1).max()

    low, high = 0.0, 1.0
    for _ in range(30):
        q = (low + high) / 2
        low, high = (low, q) if largest_chance(q) > alpha else (q, high)
    return high


@pytest.mark.parametrize(
    ("k", "n", "s", "m", "alpha"),
    [
        (8, 10, 9, 10, 0.05),
        (10, 10, 3, 4, 0.05),
        (1, 10, 1, 10, 0.05),
        (1, 1, 1, 1, 0.3),
        (30, 40, 40, 40, 0.002),
        (55, 60, 1, 1, 0.05),
        (50, 60, 30, 40, 0.002),
        (7, 8, 55, 60, 0.01),
        (80, 100, 20, 20, 1e-9),
        (99, 100, 28, 30, 0.001),
        (60, 100, 5, 30, 0.05),
        (270, 300, 44, 45, 0.002),
    ],
)
def test_matches_brute_force(k, n, s, m, alpha):
    slow = buehler_by_brute_force(k, n, s, m, alpha)
    assert slow - 1e-5 <= series_lower(k, n, s, m, alpha) <= slow + 1e-8


@pytest.mark.parametrize(
    ("n", "m", "alpha"), [(20, 10, 0.05), (12, 12, 0.2), (30, 6, 0.01), (6, 20, 0.1), (40, 1, 0.05)]
)
def test_exact_coverage(n, m, alpha):
    ks, ss = np.arange(n + 1), np.arange(m + 1)
    bounds = series_lower(ks[:, None], n, ss[None], m, alpha)
    near = alpha ** (1 / m) + np.array([-1e-3, -1e-6, 1e-6, 1e-4, 1e-3, 1e-2])
    rates = np.unique(np.concatenate([np.linspace(0, 1, 61), 1 - np.geomspace(1e-4, 0.05, 12), np.clip(near, 0, 1)]))
    of_k, of_s = stats.binom.pmf(ks[:, None], n, rates), stats.binom.pmf(ss[:, None], m, rates)
    misses = [of_k[:, i] @ (bounds > p * r) @ of_s[:, j] for i, p in enumerate(rates) for j, r in enumerate(rates)]
    assert max(misses) <= alpha + 1e-9
    assert max(misses) >= 0.9 * alpha  # it spends what it may: the worst is approached at p = 1, r = alpha^(1/m)


counts = st.tuples(st.integers(1, 3000), st.integers(1, 400), st.floats(0, 1), st.floats(0, 1), st.sampled_from(ALPHAS))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(counts)
def test_laws(case):
    n, m, share, kept_share, alpha = case
    k, s = round(share * n), round(kept_share * m)
    bound = series_lower(k, n, s, m, alpha)
    assert bound <= min(clopper_pearson_lower(k, n, alpha), clopper_pearson_lower(s, m, alpha))
    assert bound >= clopper_pearson_lower(k, n, 0.9 * alpha) * clopper_pearson_lower(s, m, 0.1 * alpha)
    assert series_lower(min(k + 1, n), n, s, m, alpha) >= bound
    assert series_lower(k, n, min(s + 1, m), m, alpha) >= bound


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("m", [1, 7, 1_000, 50_000])
def test_is_the_bound_from_scratch_when_everything_agrees(m, alpha):
    exact = float(mpmath.mpf(alpha) ** (mpmath.mpf(1) / m))
    bound = series_lower(1_000_000, 1_000_000, m, m, alpha)
    assert exact - 1e-12 <= bound <= exact


def test_is_above_the_union_bound_of_the_paper():
    # Not for frequent flips where f is unanimous: there the ordering's .1 alpha for the replays is too little.
    samples = np.array([1_000, 10_000, 100_000])[:, None, None, None]
    for top_shares, flip_rates in (([0.55, 0.7, 0.9, 0.99, 1.0], [0, 0.002, 0.01]), ([0.55, 0.7, 0.9, 0.99], [0.05])):
        top = np.round(samples * np.array(top_shares)[:, None, None])
        replays = samples * np.array([0.01, 0.1])[:, None]
        flips = np.round(replays * np.array(flip_rates))
        union = clopper_pearson_lower(top, samples, 0.001) - clopper_pearson_upper(flips, replays, 0.001)
        assert np.all(series_lower(top, samples, replays - flips, replays, 0.002) > union)


def test_corners():
    assert series_lower(0, 100, 10, 10, 0.01) == 0
    assert series_lower(100, 100, 0, 10, 0.01) == 0
    assert series_lower(100, 100, 0, 0, 0.01) == 0
    assert 0 < series_lower(1, 1_000_000, 1, 1, 1e-9) < 1e-12
    assert series_lower(1_000_000, 1_000_000, 50_000, 50_000, 1e-9) > 0.999


def test_broadcasts_and_gives_floats_for_scalars():
    bounds = series_lower([[80], [90]], 100, [9, 10, 10], 10, [0.01, 0.01, 0.05])
    assert bounds.shape == (2, 3)
    assert bounds[1, 2] == series_lower(90, 100, 10, 10, 0.05)
    assert isinstance(series_lower(90, 100, 10, 10, 0.05), float)
    assert series_lower(np.empty(0), 100, np.empty(0), 10, 0.05).shape == (0,)


@pytest.mark.parametrize(
    "counts", [(11, 10, 1, 2), (5, 10, 3, 2), (5, 10, 1, 0), (5, 10, -1, 2), (5, 0, 1, 1), (5.5, 10, 1, 2)]
)
def test_refuses_impossible_counts(counts):
    with pytest.raises(ValueError, match="expected"):
        series_lower(*counts, 0.01)


@pytest.mark.parametrize("n", [3, 257, 300, 1_000, 65_536, 1_000_000])
@pytest.mark.parametrize("alpha", [1e-10, 0.0002, 0.045, 0.6])
def test_tables_of_the_ordering_are_clopper_pearson(n, alpha):
    k = np.unique(np.append(np.random.default_rng(n).integers(1, n + 1, size=200), [1, n // 2, n]))
    table = _lower_table(n, alpha)
    law = stats.beta(k, n - k + 1)
    error = (law.cdf(table[k]) - alpha) / law.pdf(table[k])
    assert table[0] == 0
    assert np.abs(error / table[k]).max() < 5e-12


@pytest.mark.parametrize(
    ("k", "n", "p"), [(0, 5, 0.2), (3, 5, 0.9), (30, 1000, 0.01), (801_500, 10**6, 0.8), (50, 10**6, 1e-5)]
)
def test_tails_match_50_digits(k, n, p):
    with mpmath.workdps(50):
        odds = mpmath.mpf(p) / (1 - mpmath.mpf(p))
        term = exact_term = mpmath.binomial(n, k) * mpmath.mpf(p) ** k * (1 - mpmath.mpf(p)) ** (n - k)
        total = term
        for j in range(k, n):
            term *= (n - j) * odds / (j + 1)
            total += term
            if term < total * mpmath.mpf("1e-30"):
                break
    assert point_probability(k, n, p) == pytest.approx(float(exact_term), rel=1e-12)
    assert upper_tail(k, n, p) == pytest.approx(float(total), rel=1e-12)


@pytest.mark.parametrize(("n", "m"), [(50, 20), (10_000, 1_000), (1_000_000, 50_000)])
def test_chance_is_an_upper_bound_and_tight(n, m):
    rng = np.random.default_rng(n)
    for _ in range(12):
        p, r = rng.uniform(0.5, 1, size=2)
        # A line of outcomes through the middle of the distribution and up to four deviations above it.
        shift = rng.uniform(-1, 4)
        s = np.arange(math.ceil(m * r * 0.9), m + 1)
        fewest = np.round(n * p + shift * math.sqrt(n * p * (1 - p)) - (s - m * r) * n * p / (m * r)).astype(np.int64)
        fewest = np.clip(fewest, 0, n)
        exact = float((stats.binom.pmf(s, m, r) * stats.binom.sf(fewest - 1, n, p)).sum())
        found, _ = log_chance(Outcomes(fewest, int(s[0]), n, m, math.log(0.002), 20), p, r)
        assert math.log(exact) - 1e-10 <= found <= math.log(exact + 1e-4 * (exact + 0.002)) + 1e-8


@pytest.mark.parametrize(
    ("about", "proven", "most_apart"), [(series_about, series_lower, 2e-3), (few_flips_about, few_flips_lower, 2e-4)]
)
def test_a_bound_that_is_not_proven_is_mostly_the_one_that_is(about, proven, most_apart):
    """On a grid as plans have it: from few replays to thousands, from rare votes to nearly all."""
    p, m = np.meshgrid([0.06, 0.3, 0.7, 0.9, 0.97, 0.993, 0.9999], [8, 30, 100, 300, 1_000, 4_000])
    lost = np.round(0.1 * m * (1 - p))
    counts = np.round(p * 8_500), 8_500, m - lost, m, 0.001
    apart = np.abs(about(*counts) - proven(*counts))
    assert (apart <= 2e-6).mean() > 0.8
    assert apart.mean() < 5e-5
    assert apart.max() < most_apart
    assert about(0, 10, 0, 5, 0.01) == about(7, 10, 0, 0, 0.01) == 0
