"""paired_lower against reference values, a slow oracle that only knows Clopper-Pearson bounds, and exact coverage."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from recert.bounds import clopper_pearson_lower, clopper_pearson_upper
from recert.bounds.paired import paired_losses_lower, paired_lower

# (top votes, samples, lost, replayed top, gained, replayed other, exact minimum at alpha = .002)
REFERENCE = [
    (80_000, 100_000, 25, 4_000, 25, 1_000, 0.793605),
    (7_000, 10_000, 14, 700, 14, 300, 0.676137),
    (9_500, 10_000, 3, 950, 3, 50, 0.936183),
]


@pytest.mark.parametrize(("k", "n", "f", "m1", "g", "m0", "exact"), REFERENCE)
def test_reference_values(k, n, f, m1, g, m0, exact):
    assert exact - 2e-6 <= paired_lower(k, n, f, m1, g, m0, 0.002) <= exact


def minimum_by_spending(k, n, f, m1, g, m0, alpha, terms):
    """The minimum over all ways to split the budget among the terms: each way gives three Clopper-Pearson bounds."""
    budget = stats.gamma.isf(alpha, terms)

    def lower(successes, trials, spent):
        if successes == 0:
            return 0.0 * spent
        return stats.beta.ppf(np.exp(-np.maximum(spent, 0)), successes, trials - successes + 1)

    def value(on_votes, on_losses, on_gains):
        p = lower(k, n, on_votes)
        q1 = 1.0 - lower(m1 - f, m1, on_losses)
        q0 = lower(g, m0, on_gains)
        # For given q1 and q0 the objective is linear in p, so its minimum is at this p or at p = 1.
        return np.minimum(p * (1 - q1) + (1 - p) * q0, 1 - q1)

    share = np.linspace(0, 1, 61) ** 2
    grid = [(a, b) for a in share for b in share if a + b <= 1] + [(a, 1 - a) for a in share]
    if terms == 2:
        grid = [(a, 1 - a) for a in np.linspace(0, 1, 2001)]
    on_votes, on_losses = np.array(grid).T * budget
    values = value(on_votes, on_losses, budget - on_votes - on_losses)
    start = int(np.argmin(values))

    def spread(x):
        parts = np.abs(np.append(x, budget - np.sum(np.abs(x))))
        return float(value(*(parts * budget / parts.sum())))

    if terms == 2:
        return float(values[start])
    polished = optimize.minimize(
        spread, [on_votes[start], on_losses[start]], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10}
    )
    return min(float(values[start]), float(polished.fun))


CASES = [
    (5, 10, 2, 5, 3, 5, 0.05),
    (5, 10, 4, 5, 5, 5, 0.05),  # frequent flips: p = 1 is the worst
    (10, 10, 0, 4, 0, 0, 0.05),
    (0, 10, 0, 1, 9, 10, 0.05),
    (1, 10, 0, 1, 1, 9, 0.3),
    (50, 100, 40, 50, 45, 50, 0.002),
    (50, 100, 25, 50, 50, 50, 0.002),
    (99, 100, 0, 50, 1, 1, 0.002),
    (900, 1_000, 3, 90, 0, 10, 1e-9),
    (9_500, 10_000, 3, 950, 3, 50, 0.05),
    (80_000, 100_000, 400, 4_000, 95, 1_000, 0.002),
    (999_000, 1_000_000, 30, 40_000, 500, 1_000, 1e-9),
    (999_999, 1_000_000, 49_999, 50_000, 0, 1, 0.05),
]


@pytest.mark.parametrize("counts", CASES)
def test_matches_the_best_split_of_the_budget(counts):
    slow = minimum_by_spending(*counts, terms=3)
    assert slow - 1e-5 <= paired_lower(*counts) <= slow + 1e-9


@pytest.mark.parametrize("counts", CASES)
def test_losses_match_the_best_split_of_the_budget(counts):
    k, n, f, m1, _, _, alpha = counts
    slow = minimum_by_spending(k, n, f, m1, 0, 0, alpha, terms=2)
    assert slow - 1e-5 <= paired_losses_lower(k, n, f, m1, alpha) <= slow + 1e-9


@pytest.mark.parametrize(("n", "most_top", "most_other", "alpha"), [(12, 5, 4, 0.05), (9, 9, 9, 0.2), (25, 4, 2, 0.05)])
def test_exact_coverage(n, most_top, most_other, alpha):
    """Summed over all outcomes; the numbers of replays depend on the votes, as they may."""
    k = np.arange(n + 1)
    m1, m0 = np.minimum(k, most_top), np.minimum(n - k, most_other)
    f, g = np.arange(most_top + 1), np.arange(most_other + 1)
    lost, gained = np.minimum(f, m1[:, None])[:, :, None], np.minimum(g, m0[:, None])[:, None, :]
    cube = (k[:, None, None], n, lost, m1[:, None, None])
    bounds = paired_lower(*cube, gained, m0[:, None, None], alpha)
    without = paired_losses_lower(*cube, alpha)
    worst, worst_without = 0.0, 0.0
    rates = [0.0, 1e-3, 0.05, 0.2, 0.5, 0.8, 0.99, 1.0]
    for p, q1, q0 in itertools.product([0.2, 0.5, 0.7, 0.8, 0.9, 0.97, 0.999, 1.0], rates, rates):
        chance = stats.binom.pmf(k, n, p)[:, None, None]
        chance = chance * stats.binom.pmf(f, m1[:, None], q1)[:, :, None]
        chance = chance * stats.binom.pmf(g, m0[:, None], q0)[:, None, :]
        assert chance.sum() == pytest.approx(1)
        worst = max(worst, (chance * (bounds > p * (1 - q1) + (1 - p) * q0)).sum())
        worst_without = max(worst_without, (chance * (without > p * (1 - q1))).sum())
    assert 0 < worst <= alpha + 1e-9
    assert worst_without <= alpha + 1e-9


def test_seeded_coverage_at_sizes_in_use():
    rng = np.random.default_rng(7)
    n, m1, m0, alpha, draws = 2_000, 150, 50, 0.1, 400
    for p, q1, q0 in [(0.999, 0.0, 0.5), (0.9, 0.001, 0.01), (0.7, 0.2, 0.3), (0.6, 0.9, 0.9)]:
        k = rng.binomial(n, p, size=draws)
        of_top, of_other = np.minimum(k, m1), np.minimum(n - k, m0)
        bounds = paired_lower(k, n, rng.binomial(of_top, q1), of_top, rng.binomial(of_other, q0), of_other, alpha)
        misses = int((bounds > p * (1 - q1) + (1 - p) * q0).sum())
        assert misses <= stats.binom.isf(1e-6, draws, alpha)


sizes = st.tuples(st.integers(1, 20_000), st.integers(1, 800), st.integers(0, 300))
shares = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(sizes, shares, st.sampled_from([1e-9, 0.002, 0.05, 0.3]))
def test_laws(size, share, alpha):
    n, m1, m0 = size
    k, f, g = (round(part * whole) for part, whole in zip(share, size, strict=True))
    bound = paired_lower(k, n, f, m1, g, m0, alpha)
    budget = stats.gamma.isf(alpha, 3)
    assert 0 <= bound <= 1 - clopper_pearson_upper(f, m1, np.exp(-budget)) + 1e-9  # the corner p = 1
    slack = 2e-6
    assert paired_lower(min(k + 1, n), n, f, m1, 0, m0, alpha) >= paired_lower(k, n, f, m1, 0, m0, alpha) - slack
    assert paired_lower(k, n, min(f + 1, m1), m1, g, m0, alpha) <= bound + slack
    assert paired_lower(k, n, f, m1, min(g + 1, m0), m0, alpha) >= bound - slack
    losses = paired_losses_lower(k, n, f, m1, alpha)
    assert losses >= paired_lower(k, n, f, m1, 0, 0, alpha) - slack  # two terms have the smaller budget
    assert losses <= clopper_pearson_lower(k, n, alpha)


def test_corners():
    assert paired_lower(90, 100, 0, 0, 5, 10, 0.01) == 0  # nothing replayed where f voted for the class
    assert paired_lower(90, 100, 9, 9, 5, 10, 0.01) == 0  # everything lost
    assert paired_lower(0, 100, 0, 10, 0, 10, 0.01) == 0
    assert paired_losses_lower(90, 100, 0, 0, 0.01) == 0
    unanimous = 1 - clopper_pearson_upper(0, 1_000, np.exp(-stats.gamma.isf(0.002, 3)))
    assert unanimous - 2e-6 <= paired_lower(10**6, 10**6, 0, 1_000, 0, 0, 0.002) <= unanimous


def test_gains_pay_where_flips_are_frequent():
    with_gains = paired_lower(80_000, 100_000, 25, 4_000, 25, 1_000, 0.002)
    assert with_gains > paired_losses_lower(80_000, 100_000, 31, 5_000, 0.002)


def test_broadcasts_and_gives_floats_for_scalars():
    bounds = paired_lower([[80], [90]], 100, [0, 1, 2], 50, 1, 10, 0.05)
    assert bounds.shape == (2, 3)
    assert bounds[1, 2] == paired_lower(90, 100, 2, 50, 1, 10, 0.05)
    assert isinstance(paired_lower(90, 100, 2, 50, 1, 10, 0.05), float)
    assert isinstance(paired_losses_lower(90, 100, 2, 50, 0.05), float)


@pytest.mark.parametrize(
    "counts", [(11, 10, 1, 2, 0, 0), (5, 10, 3, 2, 0, 0), (5, 10, 1, 0, 0, 1), (5, 10, 1, 2, 1, 0), (5, 10, 1, 2, 2, 1)]
)
def test_refuses_impossible_counts(counts):
    with pytest.raises(ValueError, match="expected"):
        paired_lower(*counts, 0.01)


@pytest.mark.parametrize(
    "counts", [(1, 1, 100, 272, 0, 4, 1e-12), (1, 2, 615, 1714, 0, 14, 1e-9), (1, 1, 102, 1162, 0, 800, 1e-9)]
)
def test_tails_that_underflow_claim_nothing(counts: tuple[float, ...]) -> None:
    assert paired_lower(*counts) == 0.0
