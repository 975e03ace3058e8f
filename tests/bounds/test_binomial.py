"""Clopper-Pearson against scipy and against sums in 60 digits."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from recert import bounds
from recert.bounds.binomial import tail_margin

mpmath.mp.dps = 60
ALPHAS = (0.5, 0.05, 1e-3, 1e-6, 1e-9)


def tail_at_least(k: int, n: int, p: mpmath.mpf) -> mpmath.mpf:
    """P(Bin(n, p) >= k), summed term by term from the log of the first."""
    log_binomial = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
    term = mpmath.exp(log_binomial + k * mpmath.log(p) + (n - k) * mpmath.log(1 - p))
    total = mpmath.mpf(0)
    for j in range(k, n + 1):
        total += term
        if term < total * mpmath.mpf(10) ** -40:
            break
        term *= mpmath.mpf(n - j) / (j + 1) * p / (1 - p)
    return total


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 1_000, 10_000, 100_000, 1_000_000])
def test_equals_scipy_on_a_grid(n: int, alpha: float) -> None:
    k = np.unique(np.round(np.linspace(0, n, 41)).astype(int))
    near = np.array([0, 1, 2, 5, n // 3])
    k = np.unique(np.clip(np.concatenate([k, near, n - near]), 0, n))
    lower = np.where(k == 0, 0.0, stats.beta.ppf(alpha, np.maximum(k, 1), n - k + 1))
    upper = np.where(k == n, 1.0, stats.beta.isf(alpha, k + 1, np.maximum(n - k, 1)))
    assert np.abs(bounds.clopper_pearson_lower(k, n, alpha) - lower).max() < 1e-12
    assert np.abs(bounds.clopper_pearson_upper(k, n, alpha) - upper).max() < 1e-12


POINTS = [(k, n) for n in (7, 100, 1_000, 30_000, 1_000_000) for k in (1, n // 2, n - n // 20 - 2, n - 1)]


@pytest.mark.parametrize(("k", "n"), POINTS)
def test_never_on_the_wrong_side(k: int, n: int) -> None:
    """At the returned value the exact tail is at most alpha; 1e-12 further inside it is above."""
    step = mpmath.mpf("1e-12")
    for alpha in (0.05, 1e-3, 1e-9):
        lower = mpmath.mpf(bounds.clopper_pearson_lower(k, n, alpha))
        upper = mpmath.mpf(bounds.clopper_pearson_upper(k, n, alpha))
        assert tail_at_least(k, n, lower) <= alpha < tail_at_least(k, n, min(lower + step, 1 - step**2))
        assert tail_at_least(n - k, n, 1 - upper) <= alpha < tail_at_least(n - k, n, 1 - max(upper - step, step**2))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [1, 10, 1_000, 1_000_000])
def test_closed_forms_at_the_corners(n: int, alpha: float) -> None:
    everything = bounds.clopper_pearson_lower(n, n, alpha)
    assert mpmath.mpf(everything) ** n <= alpha
    assert everything == pytest.approx(alpha ** (1 / n), rel=1e-14)
    nothing = bounds.clopper_pearson_upper(0, n, alpha)
    assert (1 - mpmath.mpf(nothing)) ** n <= alpha
    assert nothing == pytest.approx(-np.expm1(np.log(alpha) / n), rel=1e-14)
    assert bounds.clopper_pearson_lower(0, n, alpha) == 0.0
    assert bounds.clopper_pearson_upper(n, n, alpha) == 1.0


@pytest.mark.parametrize("n", [10, 1_000, 100_000, 1_000_000])
def test_margin_covers_the_error_of_the_incomplete_beta_function(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(5):
        k = int(rng.integers(1, n))
        p = bounds.clopper_pearson_lower(k, n, 10.0 ** -rng.uniform(1, 9))
        exact = tail_at_least(k, n, mpmath.mpf(p))
        error = abs(mpmath.mpf(float(special.betainc(k, n - k + 1, p))) / exact - 1)
        assert error < tail_margin(np.asarray(float(n))) / 10


@given(st.integers(1, 3_000), st.integers(0, 3_000), st.floats(1e-9, 0.5))
def test_order_and_symmetry(n: int, k: int, alpha: float) -> None:
    k = min(k, n)
    lower, upper = bounds.clopper_pearson_lower(k, n, alpha), bounds.clopper_pearson_upper(k, n, alpha)
    assert 0 <= lower <= k / n <= upper <= 1
    assert upper == pytest.approx(1 - bounds.clopper_pearson_lower(n - k, n, alpha), abs=1e-12)
    if k < n:
        assert lower <= bounds.clopper_pearson_lower(k + 1, n, alpha)


def test_coverage_summed_over_all_outcomes() -> None:
    n, alpha = 60, 0.05
    k = np.arange(n + 1)
    lower, upper = bounds.clopper_pearson_lower(k, n, alpha), bounds.clopper_pearson_upper(k, n, alpha)
    for p in np.linspace(0.001, 0.999, 500):
        mass = stats.binom.pmf(k, n, p)
        assert mass[lower > p].sum() <= alpha + 1e-12
        assert mass[upper < p].sum() <= alpha + 1e-12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((5, 4, 0.1), "successes, trials, alpha"), ((0.5, 4, 0.1), "whole numbers"), ((0, 0, 0.1), "at least 1 trial"),
     ((1, 2, 0.0), "0 < alpha < 1"), ((1, 2, 2), "0 < alpha < 1"), ((1, 2, float("nan")), "0 < alpha < 1")],
)  # fmt: skip
def test_bad_arguments_say_what_was_expected(arguments: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bounds.clopper_pearson_lower(*arguments)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (8, 2), (2, 8), (510, 490), (700, 300)])
def test_two_sided_p_value_equals_scipy(first: int, second: int) -> None:
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert bounds.two_sided_p_value(first, second) == pytest.approx(expected, rel=1e-10)
