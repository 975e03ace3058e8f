"""The parts of the bounds one by one: each against sums by scipy or mpmath, brute force, or its formula maximized numerically.

Quick without compilation too, so that changed code can be tried (tests/mutants).
"""

import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy import optimize, special, stats
from statsmodels.stats.proportion import proportion_confint

from recert.bounds import _binomial_tails as tails_of
from recert.bounds import _joint_cells as cells
from recert.bounds import _joint_chance as chance
from recert.bounds import _joint_columns as joint_columns
from recert.bounds import _joint_rows as joint_rows
from recert.bounds import _joint_search as joint_search
from recert.bounds import _joint_surface as joint_surface
from recert.bounds import _paired_search as paired_search
from recert.bounds import _series_rows as series_rows
from recert.bounds import _series_search as series_search
from recert.bounds import approximate, arguments, binomial, joint, paired, sample_size, series
from recert.bounds._batches import Search, checked_replays, in_threads, least_of_groups, map_distinct
from tests.bounds.test_joint import largest_chance, ordering_by_definition, value_of

# --- Clopper-Pearson and its arguments -------------------------------------------------------------------------------


def counts_of(n: int) -> np.ndarray:
    return np.unique(np.clip([0, 1, 2, n // 3, n // 2, n - 2, n - 1, n], 0, n)).astype(float)


@pytest.mark.parametrize("alpha", [0.6, 0.05, 1e-3, 1e-12])
@pytest.mark.parametrize("n", [1, 2, 7, 40, 999, 30_000])
def test_tails_at_the_bounds_are_below_alpha_by_the_margin_and_hardly_more(n: int, alpha: float) -> None:
    k = counts_of(n)
    lower, upper = (bound(k, np.full_like(k, n), np.full_like(k, alpha)) for bound in (binomial.lower_of_checked, binomial.upper_of_checked))  # fmt: skip
    margin = 1 + 1e-13 * (1 + math.sqrt(n))
    inner = (k > 0) & (k < n)
    k, within = k[inner], 5e-13 * (1 + math.sqrt(n))
    for bound, inside, tail in (
        (lower[inner], lower[inner] * (1 + within), lambda q: special.betainc(k, n - k + 1, q)),
        (upper[inner], upper[inner] * (1 - within), lambda q: special.betaincc(k + 1, n - k, q)),
    ):
        assert (tail(bound) * margin <= alpha * (1 + 1e-15)).all()
        assert (tail(inside) > alpha).all()
    assert lower[0] == 0
    assert upper[-1] == 1
    with mpmath.workdps(50):
        exact = mpmath.mpf(alpha) ** (mpmath.mpf(1) / n)
        assert exact * (1 - mpmath.mpf(1e-15) * (2 - math.log(alpha) / n)) <= lower[-1] < exact
        assert 1 - exact < upper[0] <= (1 - exact) * (1 + mpmath.mpf(2e-15) * (2 - math.log(alpha) / n))


def test_margins() -> None:
    assert binomial.tail_margin(np.array(1e4)) == pytest.approx(1.01e-11, rel=1e-9, abs=0)
    assert binomial.tail_margin(np.array(0.0)) == pytest.approx(1e-13, rel=1e-9, abs=0)
    assert 3.9e-16 * 3 <= binomial._exponent_margin(np.array(math.exp(-4.0)), np.array(2.0)) <= 8.1e-16 * 3


def test_unanimous_votes_are_rounded_outward() -> None:
    """Besides the margin of 4 units in the last place, by a unit more; and never out of [0, 1]."""
    n, alphas = 10**6, np.geomspace(1e-9, 0.9, 60)
    lower = binomial.clopper_pearson_lower(n, n, alphas)
    with mpmath.workdps(40):
        exact = [mpmath.mpf(alpha) ** (mpmath.mpf(1) / n) for alpha in alphas]
        units = [float((e - mpmath.mpf(found)) * 2**53) for e, found in zip(exact, lower, strict=True)]
    assert 4.2 < np.mean(units) < 6
    assert binomial.clopper_pearson_upper(0, 1, 1e-60) == 1.0
    assert binomial.clopper_pearson_lower(1, 1, 1 - 2**-53) <= 1.0


def test_steps_lead_outward_and_only_where_they_must() -> None:
    """A tail that is a line: the bound steps to where it is at most alpha, in the units in the last place that double."""
    start = np.array([0.5, 0.5, 0.2, 0.0, 1.0])
    active = np.array([True, False, True, True, True])
    alpha, n = np.full(5, 0.5 - 1e-12), np.zeros(5)
    lower = binomial._step_until(start, -1.0, active, lambda q: q, alpha, n)
    upper = binomial._step_until(1 - start, +1.0, active, lambda q: 1 - q, alpha, n)
    for found in (lower, 1 - upper):
        assert 0.5 - 3.5e-12 < found[0] <= 0.5 - 1e-12 - 4e-14
        assert found[1:].tolist() == pytest.approx(start[1:].tolist(), abs=1e-16)
    nothing = binomial._step_until(
        np.array([1e-300]), -1.0, np.array([True]), lambda q: q + 1, np.array([0.5]), np.ones(1)
    )
    assert nothing == 0.0


def test_p_values_of_arrays() -> None:
    first, second = np.array([5, 9, 0, 3]), np.array([5, 1, 0, 4])
    expected = [1.0, 22 / 1024, 1.0, 1.0]
    assert binomial.two_sided_p_value(first, second) == pytest.approx(expected)
    assert binomial.two_sided_p_value(second, first) == pytest.approx(expected)
    assert isinstance(binomial.two_sided_p_value(9, 1), float)
    assert binomial.clopper_pearson_lower([3], 5, 0.1).shape == (1,)


BAD_COUNTS = [
    (([3, 7], 5, 0.1), "got 7 of 5"), (([0, 7], 5, 0.1), "got 7 of 5"), (([5, 7], 5, 0.1), "got 7 of 5"), (([3, -1], [5, 6], 0.1), "got -1 of 6"), (([1.5, 1], 5, 0.1), "whole numbers"),
    ((1, [2.5, 2], 0.1), "whole numbers"), (([0, 0], [4, 0], 0.1), "at least 1 trial, got 0"), (([0, 1], [4, -2], 0.1), "got -2"),
    ((1, 5, [0.1, 0.0]), "got 0;"), ((1, 5, [0.1, 1.0]), "0 < alpha < 1"), ((1, 5, [0.1, 1e-61]), "at least 1e-60"),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "message"), BAD_COUNTS)
def test_one_wrong_entry_is_enough(counts: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arguments.checked_counts(*counts)


def test_right_counts_are_broadcast() -> None:
    k, n, alpha = arguments.checked_counts([0, 1, 5], 5, [[0.1], [1e-60]])
    assert k.shape == n.shape == alpha.shape == (2, 3)
    assert arguments.checked_counts(0, 1, 0.999)[1] == 1
    arguments.check_alpha(1e-60)


def test_replays_may_be_none() -> None:
    kept, replays = checked_replays([0, 1, 3], [0, 1, 3], 0.1)
    assert (kept.tolist(), replays.tolist()) == ([0, 1, 3], [0, 1, 3])
    assert checked_replays([0, 1], 5, 0.1)[1].shape == (2,)
    for kept_now, replays_now in (([0, 1], [0, 0]), ([1, 1], [1, 0]), (2, 1), (-1, 0), (1, -1)):
        with pytest.raises(ValueError, match="expected"):
            checked_replays(kept_now, replays_now, 0.1)


def test_each_row_is_computed_once_and_put_back() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, size=(2, 30, 4)).astype(float)
    calls = []

    def function(a: float, b: float) -> float:
        calls.append((a, b))
        return 10 * a + b

    assert np.array_equal(map_distinct(function, first, second), 10 * first + second)
    assert sorted(calls) == sorted(set(calls))
    assert map_distinct(function, np.array(3.0), np.array(4.0)) == 34
    assert map_distinct(function, np.empty(0), np.empty(0)).shape == (0,)


@pytest.mark.parametrize("size", [0, 1, 2, 7, 1_000])
def test_every_part_is_worked_on_once(size: int) -> None:
    found = np.zeros(size, dtype=int)

    def work(first: int, last: int) -> None:
        found[first:last] += 1

    in_threads(work, size)
    assert (found == 1).all()


def test_an_error_in_a_thread_is_not_lost() -> None:
    def work(first: int, last: int) -> None:
        if first <= 500 < last:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_threads(work, 1_000)


def rows_in_groups(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *rng.integers(1, 6, size=7)])
    return starts[:-1], rng.integers(0, 50, size=int(starts[-1])).astype(float)


def searching(value: Callable[..., float], reaches: Callable[..., bool]) -> Search:
    """A search of groups of rows by what it is of one row, and by what shows of one row that it is not less."""

    def search(rows: np.ndarray, at_least: np.ndarray, begins: np.ndarray, found: np.ndarray) -> None:
        for group, (first, last) in enumerate(itertools.pairwise(begins)):
            for i in range(first, last):
                assert at_least[i] < found[group] or i > first
                if at_least[i] < found[group] and not (found[group] < math.inf and reaches(found[group], *rows[i])):
                    found[group] = min(found[group], value(*rows[i]))

    return search


def test_the_least_of_each_group_is_found_whatever_is_guessed() -> None:
    """The function is a bound less a tolerance, what is shown of others is about the bound itself."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        starts, exact = rows_in_groups(rng)
        asked: list[float] = []

        def value(row: float, asked: list[float] = asked) -> float:
            asked.append(row)
            return row - 0.25

        guess, below = rng.normal(exact, rng.choice([0.0, 5.0, 50.0])), rng.choice([0.0, 1.0, 20.0])
        search = searching(value, lambda least, row: row >= least)
        found = least_of_groups(search, [exact], starts, about=guess, at_least=exact - below)
        least = np.minimum.reduceat(exact, starts)
        assert (found <= least).all()
        assert (found >= least - 0.25).all()
        if (guess == exact).all():
            assert len(asked) <= len(starts)
        assert set(least) >= set(found + 0.25)


def test_equal_groups_are_bounded_once() -> None:
    first, second = np.array([3.0, 1, 3, 1, 1, 3]), np.array([5.0, 2, 5, 2, 2, 5])
    asked = []

    def value(*row: float) -> float:
        asked.append(row)
        return sum(row)

    search = searching(value, lambda *_: False)
    found = least_of_groups(search, [first, second], [0, 2, 4], about=first, at_least=0 * first)
    assert found.tolist() == [3, 3, 3]
    assert sorted(asked) == [
        (1, 2),
        (1, 2),
        (3, 5),
        (3, 5),
    ]  # (3, 5), (1, 2) twice the same; (1, 2), (3, 5) is another group


@pytest.mark.parametrize("groups", [[], [1], [0, 0], [0, 3], [0, 2, 1], [-1, 0]])
def test_groups_that_are_none(groups: list[int]) -> None:
    for bound in (
        lambda: joint.joint_lower([80, 81, 82], 100, 1, 40, 1, 5, 0.1, groups=groups),
        lambda: series.series_lower([80, 81, 82], 100, 39, 40, 0.1, groups=groups),
        lambda: series.few_flips_lower([80, 81, 82], 100, 39, 40, 0.1, groups=groups),
    ):
        with pytest.raises(ValueError, match="expected groups of a list of arguments"):
            bound()
    with pytest.raises(ValueError, match="got groups from"):
        joint.joint_lower(80, 100, 1, 40, 1, 5, 0.1, groups=[0])


def test_approximate_intervals_equal_statsmodels() -> None:
    for k, n, alpha in itertools.product((0, 1, 20, 39, 40), (40, 900), (0.001, 0.05, 0.3)):
        for method, lower, upper in (
            ("wilson", approximate.wilson_lower, approximate.wilson_upper),
            ("agresti_coull", approximate.agresti_coull_lower, approximate.agresti_coull_upper),
        ):
            expected = np.clip(proportion_confint(k, n, 2 * alpha, method), 0, 1)
            assert (lower(k, n, alpha), upper(k, n, alpha)) == pytest.approx(tuple(expected), abs=1e-12)


@pytest.mark.parametrize(
    ("alpha", "sides", "expected"),
    [(0.5, 1, 2), (0.001, 1, 10), (0.001, 2, 11), (0.9, 1, 1), (0.25, 1, 3), (0.5, 2, 3)],
)
def test_fewest_unanimous_votes(alpha: float, sides: int, expected: int) -> None:
    """alpha^(1/n) > 1/2: more than log2(1 / alpha) votes."""
    assert sample_size.smallest_samples_to_certify(alpha, sides=sides) == expected
    for bad in (0.0, 1.5):
        with pytest.raises(ValueError, match="0 < alpha < 1"):
            sample_size.smallest_samples_to_certify(bad)


@pytest.mark.parametrize("interval", list(sample_size.Interval))
@pytest.mark.parametrize(("probability", "width"), [(0.0, 0.1), (1.0, 0.1), (0.5, 0.3), (0.3, 0.05), (0.0, 0.99)])
def test_fewest_samples_for_a_width(probability: float, width: float, interval: sample_size.Interval) -> None:
    lower, upper = sample_size._BOUNDS[interval]

    def gap(n: int) -> float:
        return float(upper(round(probability * n), n, 0.05) - lower(round(probability * n), n, 0.05))

    found = sample_size.samples_for_width(probability, width, 0.05, interval)
    assert gap(found) <= width
    assert found == 1 or gap(found - 1) > width
    for bad in ((-0.1, 0.1), (1.1, 0.1), (0.5, 0.0), (0.5, 1.0)):
        with pytest.raises(ValueError, match="expected a"):
            sample_size.samples_for_width(*bad, 0.05)
    with pytest.raises(ValueError, match="alpha"):
        sample_size.samples_for_width(0.5, 0.5, 0.0)


# --- binomial tails -------------------------------------------------------------------------------------------------


def exact_point(k: int, n: int, p: float) -> mpmath.mpf:
    at = mpmath.mpf(p)
    return mpmath.binomial(n, k) * at**k * (1 - at) ** (n - k)


def exact_tail(k: int, n: int, p: float) -> mpmath.mpf:
    term = total = exact_point(k, n, p)
    odds = mpmath.mpf(p) / (1 - mpmath.mpf(p))
    for j in range(k, n):
        term *= (n - j) * odds / (j + 1)
        total += term
        if term < total * mpmath.mpf("1e-20") and (n - j) * odds < j:
            break
    return total


POINTS = [(k, n, p) for n in (1, 2, 3, 17, 33, 40) for k in {0, 1, n // 3, n // 2, n - 1, n} for p in (1e-9, 0.03, 0.3, 0.5, 0.77, 0.999)]  # fmt: skip
POINTS += [(k, 10**5, p) for p in (1e-5, 0.97) for k in (round(1e5 * p) + 3, round(1e5 * p + 900 * math.sqrt(p * (1 - p))))]  # fmt: skip


def test_points_and_tails_match_50_digits() -> None:
    with mpmath.workdps(50):
        for k, n, p in POINTS:
            point, tail = exact_point(k, n, p), exact_tail(k, n, p)
            if point < 1e-300:
                continue
            assert abs(tails_of.point_probability(k, n, p) / point - 1) < 1e-12, (k, n, p)
            assert abs(tails_of.upper_tail(k, n, p) / tail - 1) < 1e-12, (k, n, p)
            assert tails_of.upper_tail(k, n, p) <= 1.0


def test_tails_are_not_below_the_truth() -> None:
    """Where all factorials are from 16 on, the sum is exact to rounding, and what it leaves out is added, not taken away."""
    with mpmath.workdps(40):
        for k, p in itertools.product((20, 24, 31), np.linspace(0.01, 0.3, 40)):
            assert tails_of.upper_tail(k, 60, float(p)) >= exact_tail(k, 60, float(p)) * (1 - mpmath.mpf(2e-14))


def test_tails_at_the_ends() -> None:
    assert tails_of.upper_tail(0, 5, 0.0) == tails_of.upper_tail(0, 5, 0.3) == tails_of.upper_tail(-1, 5, 0.3) == 1.0
    assert tails_of.upper_tail(5, 5, 1.0) == tails_of.upper_tail(1, 5, 1.0) == 1.0
    assert tails_of.upper_tail(1, 5, 0.0) == tails_of.upper_tail(5, 5, 0.0) == 0.0


def test_errors_of_stirlings_formula() -> None:
    with mpmath.workdps(50):
        for n in (*range(1, 41), 100, 10**5):
            formula = (n + mpmath.mpf(0.5)) * mpmath.log(n) - n + mpmath.log(2 * mpmath.pi) / 2
            error = abs(tails_of._stirling_error(n) - (mpmath.loggamma(n + 1) - formula))
            assert error < (1e-14 if n < 16 else 3e-16), n
    assert tails_of._stirling_error(0) == 0.0


def test_deviance_does_not_cancel() -> None:
    with mpmath.workdps(50):
        for mean in (0.01, 1.0, 37.5, 8e4):
            for ratio in (1e-6, 0.5, 0.8, 0.82, 0.95, 1 - 1e-5, 1 + 1e-9, 1.001, 1.1, 1.22, 1.25, 2.0, 1e4):
                x = mean * ratio
                exact = mpmath.mpf(x) * mpmath.log(mpmath.mpf(x) / mpmath.mpf(mean)) + mpmath.mpf(mean) - mpmath.mpf(x)
                assert abs(tails_of._deviance(x, mean) / exact - 1) < 1e-14, (x, mean)
    assert tails_of._deviance(3.0, 3.0) == 0.0


def test_what_follows_a_term_of_a_series() -> None:
    for term, ratio in ((0.1, 0.5), (1e-9, 0.999), (0.3, 0.01)):
        assert tails_of.rest_of_series(term, ratio) == pytest.approx(sum(term * ratio**i for i in range(1, 30_000)))
    assert tails_of.rest_of_series(0.9, 0.9) == 1.0
    assert tails_of.rest_of_series(0.0, 1.0) == tails_of.rest_of_series(1e-9, 1.5) == 1.0


# --- series ---------------------------------------------------------------------------------------------------------


def random_series(rng: np.random.Generator, most: int = 60) -> series_search.Outcomes:
    """A set of outcomes that rises in both counts, with a first s that may be 0 and an s that needs all votes."""
    n, m = int(rng.integers(1, most)), int(rng.integers(1, most))
    first = int(rng.integers(0, m + 1)) if rng.random() < 0.7 else 0
    fewest = np.sort(rng.integers(rng.integers(0, n + 1), n + 1, size=m + 1 - first))[::-1].astype(np.int64)
    return series_search.Outcomes(fewest, first, n, m, math.log(rng.choice([0.3, 0.05, 0.002, 1e-9])), 20)


def series_chance(outcomes: series_search.Outcomes, p: float, r: float) -> float:
    s = np.arange(outcomes.first, outcomes.m + 1)
    of_s, of_k = stats.binom.pmf(s, outcomes.m, r), stats.binom.sf(outcomes.fewest - 1, outcomes.n, p)
    return math.log(max(float(of_s @ of_k), 1e-300))


def test_fewest_votes_of_series_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        n, m = rng.integers(1, 40, size=2)
        start = 0.0 if rng.random() < 0.7 else 0.125
        of_votes, of_replays = (np.append(start, np.sort(rng.integers(1, 30, size=size)) / 8) for size in (n, m))
        observed = float(rng.choice(of_votes[start == 0 :]) * rng.choice(of_replays[start == 0 :]))
        fewest, first = series_search.fewest_votes(of_votes, of_replays, observed)
        good = np.outer(of_votes, of_replays) >= observed
        assert first == good.any(axis=0).argmax()
        assert np.array_equal(fewest, good.argmax(axis=0)[first:])


def test_chance_of_series_is_never_below_the_sum() -> None:
    rng = np.random.default_rng(1)
    ends = [1e-6, 0.01, 0.5, 0.99, 1 - 1e-6]
    for i in range(500):
        outcomes = random_series(rng)
        p, r = (float(rng.choice([rng.uniform(0, 1), *ends, 1.0])) for _ in range(2))
        exact = series_chance(outcomes, p, r)
        found, _ = series_search.log_chance(outcomes, p, r)
        assert found >= min(0.0, exact + 9e-10) or exact < -680, (i, p, r)
        assert found <= max(math.log(math.exp(exact) * (1 + 1e-4) + 1e-4 * math.exp(outcomes.log_alpha)), -690) + 3e-9


@pytest.mark.parametrize(("alpha", "n", "m"), [(0.3, 4_000, 3_000), (0.002, 50_000, 1_000), (0.9, 500, 2_000)])
def test_chance_of_series_adds_back_what_it_leaves_out(alpha: float, n: int, m: int) -> None:
    """Every s needs about as many votes, or nearly none: then what is cut off at both ends counts."""
    rng = np.random.default_rng(n)
    for i in range(40):
        p, r = (float(rate) for rate in rng.uniform(0.15, 0.85, size=2))
        slope = rng.choice([0.0, 0.0, 1e-3, 0.3, 3.0]) * n / m
        first = int(rng.choice([0, 0, max(0, m * r - 3 * math.sqrt(m))]))
        s = np.arange(first, m + 1)
        edge = n * p + rng.uniform(-5, 4) * math.sqrt(n * p * (1 - p)) - slope * (s - m * r)
        outcomes = series_search.Outcomes(np.clip(edge, 0, n).astype(np.int64), first, n, m, math.log(alpha), 20)
        exact = series_chance(outcomes, p, r)
        found, average = series_search.log_chance(outcomes, p, r)
        assert found >= min(0.0, exact + 5e-10), (i, p, r)
        assert found <= math.log(math.exp(exact) * (1 + 1e-4) + 1e-4 * alpha) + 3e-9, (i, p, r)
        assert first - 1e-9 <= average <= m + 1e-9


def test_chance_of_series_is_never_below_the_sum_wherever_it_is_cut() -> None:
    """With a target above 1 nearly everything is cut off: what is added back for it must be enough."""
    rng = np.random.default_rng(16)
    for i in range(150):
        n, m, first = int(rng.integers(2, 60)), int(rng.integers(8, 60)), int(rng.integers(0, 3))
        p, r = (float(rate) for rate in rng.uniform(0.1, 0.9, size=2))
        s = np.arange(first, m + 1)
        edge = n * p - rng.choice([0.0, 0.02, 0.3]) * n / m * (s - m * r) + rng.uniform(-1, 1)
        fewest = np.clip(edge, 0, n).astype(np.int64)
        outcomes = series_search.Outcomes(fewest, first, n, m, float(rng.uniform(7.0, 11.4)), 20)
        found, _ = series_search.log_chance(outcomes, p, r)
        assert found >= min(0.0, series_chance(outcomes, p, r) + 5e-10), (i, p, r)


def test_logarithms_have_their_margin() -> None:
    assert series_search._log_with_margin(0.1) == pytest.approx(math.log(0.1) + 1e-9, abs=1e-14)
    assert series_search._log_with_margin(1.0) == 0.0
    assert series_search._log_with_margin(0.0) == -690.0
    outcomes = series_search.Outcomes(np.array([400], np.int64), 20, 400, 20, math.log(0.002), 20)
    assert series_search.log_chance(outcomes, 0.15, 0.9)[0] >= 400 * math.log(0.15) + 20 * math.log(0.9)


def test_first_entry_that_is_at_most_a_limit() -> None:
    rng = np.random.default_rng(2)
    for size in (*range(1, 9), 50):
        falling = np.sort(rng.integers(0, 12, size=size))[::-1].astype(np.int64)
        for limit in range(-1, 13):
            expected = next((i for i, entry in enumerate(falling) if entry <= limit), size)
            assert series_search._first_at_most(falling, limit) == expected


@pytest.mark.parametrize("largest_variance", [series_search._largest_variance, cells._largest_variance])
def test_largest_variance(largest_variance) -> None:  # type: ignore[no-untyped-def]
    for low, high in itertools.combinations_with_replacement([0.0, 0.1, 0.3, 0.5, 0.6, 0.95, 1.0], 2):
        between = np.linspace(low, high, 1001)
        assert largest_variance(low, high) == pytest.approx((between * (1 - between)).max(), abs=1e-6)


def log_odds(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def chord_by_formula(n: int, m: int, q: float, u: float, v: float, at_u: float, at_v: float) -> float:
    """The maximum of the chord plus t (1 - t) times half the largest curvature, on a grid."""
    t = np.linspace(0, 1, 2_001)
    curvature = n * (log_odds(v) - log_odds(u)) ** 2 * variance(u, v)
    curvature += m * (log_odds(q / u) - log_odds(q / v)) ** 2 * variance(q / v, q / u)
    return float(((1 - t) * at_u + t * at_v + t * (1 - t) * curvature / 2).max())


@pytest.mark.parametrize("ends", [(-5.0, -4.9), (-3.0, -3.0), (-2.0, -9.0), (-40.0, -1.0)])
@pytest.mark.parametrize(("q", "u", "v"), [(0.3, 0.5, 0.6), (0.5, 0.55, 0.9), (0.05, 0.1, 0.2), (0.8, 0.9, 0.91)])
def test_a_chord_by_its_formula(q: float, u: float, v: float, ends: tuple[float, float]) -> None:
    outcomes = series_search.Outcomes(np.zeros(1, np.int64), 0, 30, 12, -3.0, 20)
    expected = chord_by_formula(30, 12, q, u, v, *ends)
    assert series_search._chord_bound(outcomes, q, u, v, *ends) == pytest.approx(expected, rel=1e-5, abs=2e-5)


def test_chords_of_series() -> None:
    """The bound is the maximum of the chord plus t (1 - t) times half the largest curvature; no point exceeds it."""
    rng = np.random.default_rng(3)
    t = np.linspace(0, 1, 20_001)
    above = 0
    for _ in range(120):
        outcomes = random_series(rng)
        q = float(rng.uniform(0.02, 0.9))
        u, v = np.sort(q + (1 - q) * rng.uniform(0.001, 0.999, size=2))
        if rng.random() < 0.7:
            v = u + (v - u) * 0.1
        ends = [series_search.log_chance(outcomes, p, q / p)[0] for p in (u, v)]
        if min(ends) < -600:
            continue
        bound = series_search._chord_bound(outcomes, q, u, v, *ends)
        curvature = outcomes.n * (log_odds(v) - log_odds(u)) ** 2 * variance(u, v)
        curvature += outcomes.m * (log_odds(q / u) - log_odds(q / v)) ** 2 * variance(q / v, q / u)
        chord = (1 - t) * ends[0] + t * ends[1] + t * (1 - t) * curvature / 2
        assert -1e-9 <= bound - chord.max() <= 1e-5 * (1 + curvature)
        above += bound > max(ends)
        for p in rng.uniform(u, v, size=5):
            assert series_chance(outcomes, p, q / p) <= bound + 1e-9
    assert above > 20


def variance(low: float, high: float) -> float:
    between = np.linspace(low, high, 2_001)
    return float((between * (1 - between)).max())


def largest_of_series(outcomes: series_search.Outcomes, q: float, low: float, high: float) -> float:
    """ln of the largest probability on the curve p r = q, on a fine grid of low <= p <= high."""
    p = np.unique(np.clip(low + (high - low) * (1 - np.cos(np.linspace(0, math.pi, 400))) / 2, max(q, low), high))
    s = np.arange(outcomes.first, outcomes.m + 1)
    of_s = stats.binom.pmf(s, outcomes.m, np.minimum(1.0, q / p)[:, None])
    of_k = stats.binom.sf(outcomes.fewest - 1, outcomes.n, p[:, None])
    return math.log(max(float((of_s * of_k).sum(axis=1).max()), 1e-300))


def coarse(outcomes: series_search.Outcomes, bits: int, log_alpha: float) -> series_search.Outcomes:
    return outcomes._replace(bits=bits, log_alpha=log_alpha)


def test_pieces_of_series_are_covered_if_and_only_if_it_is_proven() -> None:
    """With alpha just above or below what a chord or a corner proves, and never where a point of the piece exceeds it."""
    rng = np.random.default_rng(4)
    seen = set()
    for _ in range(400):
        outcomes = random_series(rng, 25)
        bits, q = int(rng.integers(3, 9)), float(rng.uniform(0.05, 0.95))
        cells = 1 << (bits + 2)
        left = int(rng.choice([0, cells // 3, cells // 2, *rng.integers(0, cells, size=12)]))
        right = min(cells, left + int(rng.choice([1, 1, 2, 7])))
        u, v = left / cells, right / cells
        q = u if left > 0 and rng.random() < 0.1 else q * v if left == 0 else q
        if v <= q:
            continue
        ends = [series_search.log_chance(outcomes, p, min(1.0, q / p))[0] if p > q else 0.0 for p in (u, v)]
        corner, _ = series_search.log_chance(outcomes, v, min(1.0, q / u) if u > q else 1.0)
        inside = q < u and v < 1
        chord = series_search._chord_bound(outcomes, q, u, v, *ends) if inside else 0.0
        proof = min(chord, corner) if right - left == 1 else chord if inside else corner
        if not -600 < proof < -1e-6:
            continue
        tight, loose = (coarse(outcomes, bits, proof + shift) for shift in (-1e-8, 1e-8))
        assert series_search._piece_is_covered(loose, q, left, right, *ends)
        assert not series_search._piece_is_covered(tight, q, left, right, *ends)
        assert largest_of_series(outcomes, q, max(u, q), v) <= proof + 1e-8
        seen.add((inside, right - left == 1, chord < corner))
    assert len(seen) == 6


@pytest.mark.parametrize("seed", range(3))
def test_a_curve_of_series_is_covered_if_and_only_if_no_point_exceeds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    covered = 0
    for _ in range(40):
        outcomes = random_series(rng, 25)
        q = int(rng.integers(1, 1 << 20)) / (1 << 20)
        largest = largest_of_series(outcomes, q, q, 1.0)
        if not -30 < largest < -0.01:
            continue
        above, below = (coarse(outcomes, 20, largest + shift) for shift in (1e-3, -1e-3))
        assert series_search._is_covered(above, q)[0]
        found, worst = series_search._is_covered(below, q)
        assert not found
        assert q <= worst <= 1
        covered += 1
    assert covered > 4


def test_pieces_of_a_curve_are_halves_of_halves_and_leave_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """From right to left down to q, whatever is proven of them, with the values at their ends."""
    is_covered = getattr(series_search._is_covered, "py_func", series_search._is_covered)
    outcomes = series_search.Outcomes(np.zeros(1, np.int64), 0, 5, 5, -1.0, 4)
    monkeypatch.setattr(series_search, "log_chance", lambda _, p, r: (-5.0 - p * r - p, 0.0))
    for q, seed in itertools.product((5 / 16, 8 / 16, 0.33, 15 / 16), range(6)):
        tried, proven, sizes = [], [64], np.random.default_rng(seed).choice([0, 1, 2, 4, 16], size=64)
        sizes[0] = max(sizes[0], 1) if seed < 5 else 0

        def piece(
            outcomes: series_search.Outcomes, q: float, left: int, right: int, at_left: float, at_right: float,
            sizes: np.ndarray = sizes, tried: list[int] = tried, proven: list[int] = proven,
        ) -> bool:  # fmt: skip
            assert right == proven[-1]
            assert (right - left) & (right - left - 1) == left % (right - left) == 0
            assert right / 64 > q
            for end, value in ((left, at_left), (right, at_right)):
                assert value == pytest.approx(-5 - q - end / 64) or end / 64 <= q
            tried.append(right - left)
            if right - left <= sizes[right - 1]:
                proven.append(left)
            return bool(right - left <= sizes[right - 1])

        monkeypatch.setattr(series_search, "_piece_is_covered", piece)
        found, _ = is_covered(outcomes, q)
        assert found == (proven[-1] / 64 <= q)
        assert found or tried[-1] == 1


def test_nothing_is_returned_where_nothing_is_covered() -> None:
    outcomes = series_search.Outcomes(np.zeros(6, np.int64), 0, 5, 5, math.log(0.05), 10)
    assert series_search.largest_covered(outcomes, 0.5, 0.6) == series_search.largest_covered(outcomes, 0.0, 0.6) == 0.0


def test_flips_are_punished_as_stated() -> None:
    assert series._flip_table(4) == pytest.approx([0, math.exp(-3), math.exp(-2), math.exp(-1), 1])
    assert series._flip_table(1) == pytest.approx([0, 1])


def test_unanimous_votes_of_series() -> None:
    for bound in (series.series_lower, series.few_flips_lower):
        assert bound(5, 5, 1, 1, 0.1) == pytest.approx(0.1, abs=1e-12)
        assert bound(5, 5, 2, 2, 0.1) == pytest.approx(0.1**0.5, abs=1e-12)
        assert bound(5, 5, 0, 0, 0.1) == 0.0
    # With 10 of 40 flips, 4 of 5 votes without a flip rank as high as 5 of 5: r = 1 limits the bound.
    assert series.few_flips_lower(5, 5, 30, 40, 0.05) <= binomial.clopper_pearson_lower(4, 5, 0.05)


# --- joint: chances -------------------------------------------------------------------------------------------------


def test_reach_and_span_leave_out_little() -> None:
    for target, rate, trials in itertools.product((-0.1, -6.0, -140.0), (1e-3, 0.2, 0.5, 0.97), (1, 40, 3_000)):
        low, high = chance.span(rate, trials, chance.reach(target))
        left_out = np.logaddexp(stats.binom.logcdf(low - 1, trials, rate), stats.binom.logsf(high, trials, rate))
        assert left_out <= target + math.log(1e-4)
        assert 0 <= low <= trials * rate <= high <= trials
    assert chance.reach(-6.0) == pytest.approx(math.sqrt(2 * 15.2))
    assert chance.span(0.25, 1_200, 3.0) == (300 - 45 - 3, 300 + 45 + 3 + 1)


def test_windows_have_point_probabilities_and_at_least_the_rest() -> None:
    """All better counts are left out, as few as a share of the target; the worst has all worse ones, at most a thousandth, added."""
    rng = np.random.default_rng(5)
    whole = 0
    for _ in range(600):
        trials, target = int(rng.choice([1, 5, 40, 1_500])), float(rng.choice([-0.5, -7.0, -60.0]))
        rate = float(rng.choice([rng.uniform(0, 1), 0.01, 0.97]))
        first = int(rng.integers(0, trials + 1)) if rng.random() < 0.6 else 0
        length = int(rng.integers(1, trials + 2 - first)) if rng.random() < 0.6 else trials + 1 - first
        more, chances = bool(rng.random() < 0.5), np.full(length, np.nan)
        low, high, left_out = chance.window(rate, trials, first, target, more, chances)
        counts = first + np.arange(low, high + 1)
        assert 0 <= low <= high < length
        assert np.isnan(np.delete(chances, np.arange(low, high + 1))).all()
        points, exact = chances[low : high + 1], stats.binom.pmf(counts, trials, rate)
        below, above = stats.binom.cdf(counts[0] - 1, trials, rate), stats.binom.sf(counts[-1], trials, rate)
        worst, (worse, better) = (0, (below, above)) if more else (-1, (above, below))
        assert np.delete(points, worst) == pytest.approx(np.delete(exact, worst), rel=1e-9, abs=1e-300)
        added, limit = points[worst] - exact[worst], 1e-4 * math.exp(target)
        assert added >= worse * (1 - 1e-9) - 1e-13
        assert left_out >= better * (1 - 1e-9)
        if not first < trials * rate < first + length - 1:
            continue
        if counts[-1 if more else 0] not in (0, trials, first, first + length - 1):
            assert left_out <= limit * (1 + 1e-9)
            # One count fewer would leave out more.
            assert (
                stats.binom.sf(counts[-1] - 1, trials, rate)
                if more
                else stats.binom.cdf(counts[0], trials, rate) > limit / 9
            )
            whole += 1
        if counts[worst] not in (0, trials, first, first + length - 1):
            assert added <= 2**-10 * (1 + 1e-9)
            assert (
                stats.binom.cdf(counts[0], trials, rate) if more else stats.binom.sf(counts[-1] - 1, trials, rate)
            ) > 2**-13
    assert whole > 50


def test_windows_at_certain_rates() -> None:
    for rate, trials, first, length, more, expected in (
        (0.0, 9, 0, 4, False, (0, 0, 0.0, 1.0)), (0.0, 9, 1, 4, False, (0, 0, 1.0, 0.0)), (0.0, 9, 1, 4, True, (0, 0, 0.0, 1.0)),
        (1.0, 9, 5, 5, False, (4, 4, 0.0, 1.0)), (1.0, 9, 2, 7, False, (6, 6, 0.0, 1.0)), (1.0, 9, 2, 7, True, (6, 6, 1.0, 0.0)),
        (1.0, 9, 9, 1, True, (0, 0, 0.0, 1.0)), (0.0, 0, 0, 1, False, (0, 0, 0.0, 1.0)),
    ):  # fmt: skip
        chances = np.full(length, np.nan)
        low, high, left_out = chance.window(rate, trials, first, -6.0, more, chances)
        assert (low, high, left_out, chances[low]) == expected


def test_counts_that_matter_for_any_rate_between_two() -> None:
    for low, high, trials, more in ((0.02, 0.1, 900, False), (0.02, 0.1, 900, True), (0.0, 0.3, 40, True), (0.4, 1.0, 30, False)):  # fmt: skip
        of_low, of_high = (2**-10, 1e-6) if more else (1e-6, 2**-10)
        least, most = chance.counts_between(low, high, trials, math.log(0.01), more)
        assert stats.binom.cdf(least - 1, trials, low) <= of_low
        assert stats.binom.sf(most, trials, high) <= of_high
        assert least == 0 or stats.binom.cdf(least + 1, trials, low) > (1e-6 if not more else 1e-3)
        assert most == trials or stats.binom.sf(most - 2, trials, high) > (1e-6 if more else 1e-3)


def test_tails_of_votes_are_at_least_the_tails() -> None:
    rng = np.random.default_rng(6)
    cut = 0
    for _ in range(300):
        n, target = int(rng.choice([1, 2, 7, 60, 4_000])), float(rng.choice([-0.1, -3.0, -14.0]))
        p = float(rng.choice([rng.uniform(0, 1), 1e-3, 0.999, 0.0, 1.0]))
        smallest = int(rng.integers(0, n + 2)) if rng.random() < 0.5 else 0
        largest = int(rng.integers(smallest, n + 2)) if rng.random() < 0.5 else n + 1
        first, found = chance.tails(n, p, smallest, largest, chance.reach(target))
        last = first + len(found) - 1
        k = np.arange(smallest, largest + 1)
        values, exact = found[np.clip(k, first, last) - first], stats.binom.sf(k - 1, n, p)
        assert (exact * (1 - 1e-10) <= values).all(), (n, p, smallest, largest)
        assert (values <= 1).all()
        more = np.where(k <= first, 1e-3, 0.0) + np.where(k >= last, 1.01e-4 * math.exp(target), 0.0)
        assert (values <= exact * (1 + 1e-10) + more).all(), (n, p, smallest, largest)
        if 0 < p < 1:
            cut += largest < n * p
            assert last <= max(largest, n * p) + 1  # nothing is computed that nobody asks for
    assert cut > 10
    assert chance.tails(50, 0.9, 0, 51, 6.0)[1][-1] == 0.0
    assert chance.tails(50, 0.9, 0, 47, 6.0)[1][-1] == 0.0


def random_joint(rng: np.random.Generator, *, cut: bool = False) -> chance.Outcomes:
    """A set of outcomes that rises in k, falls in f and rises in g; its table may hold only some of the f and g."""
    n, m1, m0 = int(rng.integers(1, 60)), int(rng.integers(1, 15)), int(rng.integers(0, 12))
    first_f, first_g = (int(rng.integers(0, m + 1)) if cut else 0 for m in (m1, m0))
    rows, columns = (int(rng.integers(1, m + 2 - f)) if cut else m + 1 - f for m, f in ((m1, first_f), (m0, first_g)))
    fewest = rng.integers(rng.integers(0, n + 1), n + 2, size=(rows, columns))
    fewest = np.sort(np.sort(fewest, axis=0), axis=1)[:, ::-1].astype(np.int64)
    target = math.log(rng.choice([0.3, 0.05, 0.002, 1e-9]))
    return chance.Outcomes(np.ascontiguousarray(fewest), first_f, first_g, n, m1, m0, target)


def joint_parts(outcomes: chance.Outcomes, p: float, x: float, y: float) -> tuple[float, float]:
    """The probability of the outcomes, more f and fewer g than the table has being like its last; and that of fewer f, and of more g."""
    f, g = np.arange(outcomes.m1 + 1), np.arange(outcomes.m0 + 1)
    rows, columns = outcomes.fewest.shape
    fewest = outcomes.fewest[(f - outcomes.first_f).clip(0, rows - 1)][:, (g - outcomes.first_g).clip(0, columns - 1)]
    of_f, of_g = stats.binom.pmf(f, outcomes.m1, x), stats.binom.pmf(g, outcomes.m0, y)
    fewer_f, more_g = f < outcomes.first_f, g >= outcomes.first_g + columns
    inside = float(of_f[~fewer_f] @ stats.binom.sf(fewest[~fewer_f][:, ~more_g] - 1, outcomes.n, p) @ of_g[~more_g])
    return inside, float(of_f[fewer_f].sum()) + float(of_g[more_g].sum())


def test_chance_of_joint_is_never_below_the_sum() -> None:
    rng = np.random.default_rng(7)
    for i in range(500):
        outcomes = random_joint(rng)
        p, x, y = (float(rng.choice([rng.uniform(0, 1), 1e-3, 0.5, 0.99, 0.0, 1.0])) for _ in range(3))
        inside, _ = joint_parts(outcomes, p, x, y)
        exact, found = math.log(max(inside, 1e-299)), chance.log_chance(outcomes, p, x, y)
        assert found >= min(0.0, exact + 9e-10) or exact < -680, (i, p, x, y)
        assert found <= max(-690.0, math.log(inside * 1.003 + 4e-4 * math.exp(outcomes.target))) + 3e-9, (
            i,
            p,
            x,
            y,
        )


def test_chance_of_joint_counts_what_is_outside_of_its_table() -> None:
    rng = np.random.default_rng(8)
    close = 0
    for i in range(300):
        outcomes = random_joint(rng, cut=True)
        p, x, y = (float(rng.uniform(0, 1)) for _ in range(3))
        inside, outside = joint_parts(outcomes, p, x, y)
        found = chance.log_chance(outcomes, p, x, y)
        both = inside + outside if outside < 1e-3 else max(inside, outside / 2)
        assert found >= min(0.0, math.log(max(both, 1e-299))) - 1e-8, (i, p, x, y)
        close += found < math.log(inside + 1.5 * outside + 1e-300) + 1e-3
    assert close > 100


def test_chance_of_joint_is_never_below_the_sum_wherever_it_is_cut() -> None:
    rng = np.random.default_rng(17)
    for i in range(150):
        n, m1, m0 = int(rng.integers(2, 60)), int(rng.integers(8, 40)), int(rng.integers(8, 40))
        p, x, y = (float(rate) for rate in rng.uniform(0.1, 0.9, size=3))
        f, g = np.arange(m1 + 1)[:, None], np.arange(m0 + 1)
        edge = n * p + rng.choice([0.0, 0.02, 0.3]) * n * ((f / m1 - x) - (g / m0 - y)) + rng.uniform(-1, 4)
        fewest = np.clip(edge, 0, n + 1).astype(np.int64)
        outcomes = chance.Outcomes(fewest, 0, 0, n, m1, m0, float(rng.uniform(5.0, 9.1)))
        inside, _ = joint_parts(outcomes, p, x, y)
        found = chance.log_chance(outcomes, p, x, y)
        assert min(0.0, math.log(max(inside, 1e-290)) + 5e-10) <= found <= 0.0, (i, p, x, y)


@pytest.mark.parametrize(("alpha", "n", "m1", "m0"), [(0.3, 2_000, 500, 200), (0.9, 200, 1_000, 100)])
def test_chance_of_joint_adds_back_what_it_leaves_out(alpha: float, n: int, m1: int, m0: int) -> None:
    rng = np.random.default_rng(9)
    f, g = np.arange(m1 + 1)[:, None], np.arange(m0 + 1)
    for i in range(8):
        p, x, y = (float(rate) for rate in rng.uniform(0.15, 0.85, size=3))
        tilt = rng.choice([0.0, 0.0, 0.05, 1.0])
        edge = n * p + rng.uniform(-3, 3) * math.sqrt(n * p * (1 - p)) + tilt * n * ((f / m1 - x) - (g / m0 - y))
        fewest = np.clip(np.ceil(edge), 0, n + 1).astype(np.int64)
        outcomes = chance.Outcomes(fewest, 0, 0, n, m1, m0, math.log(alpha))
        inside, _ = joint_parts(outcomes, p, x, y)
        found = chance.log_chance(outcomes, p, x, y)
        assert found >= min(0.0, math.log(inside) + 5e-10), (i, p, x, y)
        assert found <= math.log(inside * 1.003 + 4e-4 * alpha) + 3e-9, (i, p, x, y)


# --- joint: cells ---------------------------------------------------------------------------------------------------


def test_the_surface() -> None:
    for q, x, y in itertools.product((0.1, 0.5, 0.9), (0.0, 0.05, 0.3, 0.5, 0.95), (0.0, 0.02, 0.1, 0.4, 0.7)):
        p = cells.p_on_surface(q, x, y)
        if y <= q and x < 1 - q:
            assert p * (1 - x) + (1 - p) * y == pytest.approx(q, abs=1e-14)
            assert 0 <= p <= 1
        if x > 1 - q:
            assert p == 1.0
        if y > q and x < 1 - q:
            assert p == 0.0
    assert cells.p_on_surface(0.5, 0.5, 0.5) == cells.p_on_surface(0.5, 0.5, 0.1) == 1.0


def test_distances_in_log_odds() -> None:
    for low, high in ((0.1, 0.2), (1e-6, 0.5), (0.6, 0.99)):
        apart = cells._log_odds_apart(low, high)
        assert apart == pytest.approx(log_odds(high) - log_odds(low))
        assert cells._moved(low, apart) == pytest.approx(high)
    assert cells._log_odds_apart(0.0, 0.4) == cells._log_odds_apart(0.3, 0.3) == 0.0
    assert cells._moved(0.0, 1.0) == 0.0
    assert cells._moved(1.0, 1.0) == 1.0


def kearns_saul(p: float) -> float:
    return 0.25 if p == 0.5 else 0.0 if p in (0.0, 1.0) else (1 - 2 * p) / (2 * math.log((1 - p) / p))


def test_largest_constant_of_kearns_and_saul() -> None:
    for low, high in itertools.combinations_with_replacement(
        [0.0, 1e-9, 0.1, 0.3, 0.49, 0.5, 0.51, 0.8, 0.999, 1.0], 2
    ):
        between = [kearns_saul(p) for p in np.linspace(low, high, 201)]
        assert cells._sub_gaussian(low, high) == pytest.approx(max(between), rel=1e-9, abs=1e-15) or low < 0.5 < high
    assert cells._sub_gaussian(0.499999, 0.499999) == pytest.approx(0.25, rel=1e-9)
    assert cells._sub_gaussian(0.3, 0.7) == cells._sub_gaussian(0.5 - 2**-54, 0.5 - 2**-54) == 0.25


def test_lifting_takes_the_best_exponent() -> None:
    """Hoelder's inequality at the best r, found numerically."""
    for value, lift, curvature in itertools.product((-0.3, -7.0, -90.0), (0.0, 0.01, 0.5), (0.7, 30.0)):

        def at(log_r: float, value: float = value, rise: float = curvature * lift**2) -> float:
            return (1 - math.exp(-log_r)) * value + rise * math.expm1(log_r) / 2

        best = min(0.0, optimize.minimize_scalar(at, bounds=(1e-9, 40), method="bounded", options={"xatol": 1e-9}).fun)
        assert cells.lifted(value, lift, curvature) == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert cells.lifted(0.0, 0.0, 3.0) == 0.0


def test_peaks_of_parabolas_over_chords() -> None:
    t = np.linspace(0, 1, 20_001)
    for left, right, rise in itertools.product((-5.0, -1.0, 0.0), (-4.0, -1.0), (0.0, 0.2, 0.75, 1.0, 3.0)):
        expected = ((1 - t) * left + t * right + 4 * t * (1 - t) * rise).max()
        assert cells._peak(left, right, rise) == pytest.approx(expected, abs=1e-6)


def cell_by_formula(outcomes: chance.Outcomes, q: float, cell: cells.Cell) -> tuple[float, float, float]:
    """The bound of a cell as its docstring states it, with maxima taken on grids."""
    x1, x2, y1, y2 = cell[:4]
    values = np.array(cell[4:]).reshape(2, 2)
    across_y = math.log((q - y1) / (q - y2))
    apart_y = log_odds(y2) - log_odds(y1) if y1 > 0 else 0.0
    # ln(q - y) as a function of the log-odds of y has a second derivative between -y2 q / (q - y2)^2 and 0.
    lift = apart_y**2 / 8 * y2 * q / (q - y2) ** 2 if y1 > 0 or y2 == 0 else across_y
    low, high = cells.p_on_surface(q, x1, y2), cells.p_on_surface(q, x2, y1)
    higher = special.expit(special.logit(high) + lift) if high > 0 else 0.0
    of_p = outcomes.n * variance(low, higher)
    of_lift = outcomes.n * (low * (1 - low) if low >= 0.5 else 0.25 if higher >= 0.5 else kearns_saul(higher))
    if x1 > 0:
        across_x = math.log((1 - q - x1) / (1 - q - x2))
        in_x = (outcomes.m1 * variance(x1, x2) * (log_odds(x2) - log_odds(x1)) ** 2 + of_p * across_x**2) / 8
    else:
        values, in_x = values[[1, 1]], -outcomes.m1 * math.log(1 - x2)
    if y1 > 0 or y2 == 0:
        in_y = (outcomes.m0 * variance(y1, y2) * apart_y**2 + of_p * across_y**2) / 8
    else:
        values, in_y = values[:, [1, 1]], 0.0
    values = -(np.maximum(0.0, np.sqrt(-values) - lift * math.sqrt(of_lift / 2)) ** 2)
    t = np.linspace(0, 1, 4_001)
    along = [
        ((1 - t) * values.max(axis=axis)[0] + t * values.max(axis=axis)[1] + 4 * t * (1 - t) * rise).max() + other
        for axis, rise, other in ((1, in_x, in_y), (0, in_y, in_x))
    ]
    return min(along), in_x, in_y


def random_cells(rng: np.random.Generator, count: int) -> list[tuple[chance.Outcomes, float, cells.Cell]]:
    """Cells wide in x only, in y only or in both, from 0 or not; p on both sides of 1/2; many votes or many replays."""
    drawn = []
    while len(drawn) < count:
        n, m1, m0 = (int(10 ** rng.uniform(0.3, 2.5)) for _ in range(3))
        p, x, y = float(rng.uniform(0.02, 0.98)), float(rng.uniform(0.01, 0.6)), float(rng.uniform(0.01, 0.6))
        f, g = np.arange(m1 + 1)[:, None], np.arange(m0 + 1)
        shift = rng.uniform(0, 4) * math.sqrt(n * p * (1 - p))
        edge = n * p + shift + n * (f / m1 - x) * p - n * (g / m0 - y) * (1 - p)
        outcomes = chance.Outcomes(np.clip(np.ceil(edge), 0, n + 1).astype(np.int64), 0, 0, n, m1, m0, math.log(0.01))
        q = p * (1 - x) + (1 - p) * y
        in_x, in_y = rng.choice([1e-6, 0.05, 0.5], size=2)
        x1, x2 = (0.0 if rng.random() < 0.15 else x * (1 - in_x)), x * (1 + in_x * rng.random())
        y1, y2 = (0.0 if rng.random() < 0.15 else y * (1 - in_y)), y * (1 + in_y * rng.random())
        if x2 < 0.99 * (1 - q) and y2 < 0.99 * q:
            corners = [
                chance.log_chance(outcomes, cells.p_on_surface(q, a, b), a, b) for a in (x1, x2) for b in (y1, y2)
            ]
            drawn.append((outcomes, q, cells.Cell(x1, x2, y1, y2, *corners)))
    return drawn


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_of_a_cell_by_its_formula(seed: int) -> None:
    for outcomes, q, cell in random_cells(np.random.default_rng(seed), 3):
        expected, by_x, _ = cell_by_formula(outcomes, q, cell)
        bound, in_x, in_y = cells.bound_cell_where_p_follows(outcomes, q, cell)
        assert expected <= bound <= expected + 1e-5 * (1 + in_x + in_y + abs(expected))
        assert in_x == pytest.approx(by_x, rel=1e-5)


def test_bounds_of_cells() -> None:
    """As their formula, and never below an exact sum at a point of the cell."""
    rng = np.random.default_rng(10)
    for outcomes, q, cell in random_cells(rng, 150):
        bound, in_x, in_y = cells.bound_cell_where_p_follows(outcomes, q, cell)
        expected, by_x, by_y = cell_by_formula(outcomes, q, cell)
        assert expected <= bound <= expected + 1e-5 * (1 + in_x + in_y + abs(expected))
        assert in_x == pytest.approx(by_x, rel=1e-5)
        assert in_y >= by_y
        for _ in range(3):
            x, y = rng.uniform(*cell[:2]), rng.uniform(*cell[2:4])
            inside, _ = joint_parts(outcomes, cells.p_on_surface(q, x, y), x, y)
            assert math.log(max(inside, 1e-290)) <= bound + 1e-9


def test_widths_have_their_margins() -> None:
    """Where the votes decide what a width adds, it is larger than its formula by both margins of 1e-6."""
    outcomes = chance.Outcomes(np.full((2, 2), 6_000, np.int64), 0, 0, 10_000, 1, 1, math.log(0.01))
    for x1, x2, y1, y2 in ((0.1, 0.2, 0.1, 0.1001), (0.1, 0.1001, 0.1, 0.2)):
        cell = cells.Cell(x1, x2, y1, y2, -5.0, -5.0, -5.0, -5.0)
        _, in_x, _ = cells.bound_cell_where_p_follows(outcomes, 0.5, cell)
        assert 1.5e-6 < in_x / cell_by_formula(outcomes, 0.5, cell)[1] - 1 < 3e-6


def test_bounds_of_cells_without_gains() -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        n, m1, q = int(rng.integers(5, 200)), int(rng.integers(5, 60)), float(rng.uniform(0.3, 0.9))
        fewest = np.clip(np.linspace(n * q, n + 1, m1 + 1), 0, n + 1).astype(np.int64)[:, None]
        outcomes = chance.Outcomes(fewest, 0, 0, n, m1, 0, math.log(0.01))
        x1, x2 = np.sort(rng.uniform(0, 0.9 * (1 - q), size=2))
        corners = [chance.log_chance(outcomes, cells.p_on_surface(q, x, 0.0), x, 0.0) for x in (x1, x1, x2, x2)]
        cell = cells.Cell(x1, x2, 0.0, 0.0, *corners)
        bound, _, _ = cells.bound_cell_where_p_follows(outcomes, q, cell)
        assert bound == pytest.approx(cell_by_formula(outcomes, q, cell)[0], rel=1e-5)
        for x in rng.uniform(x1, x2, size=3):
            inside, _ = joint_parts(outcomes, cells.p_on_surface(q, x, 0.0), x, 0.0)
            assert math.log(max(inside, 1e-290)) <= bound + 1e-9


def kept_log_odds(q: float, p: float, y: float) -> float:
    return float(-log_odds((p - q + (1 - p) * y) / p))


def cell_by_formula_where_x_follows(
    outcomes: chance.Outcomes, q: float, cell: cells.Cell
) -> tuple[float, float, float]:
    """The bound of a cell of p and y as its docstring states it, with maxima taken on grids."""
    p1, p2, y1, y2 = cell[:4]
    values, from_zero = np.array(cell[4:]).reshape(2, 2), y1 == 0 < y2
    end, from_y = (p1 if p2 == 1 else p2), (y2 if from_zero else y1)
    b = np.array([[kept_log_odds(q, p, y) for y in (from_y, y2)] for p in (p1, end)])
    if from_zero:
        lift = max(kept_log_odds(q, p, 0.0) - kept_log_odds(q, p, y2) for p in (p1, end))
    else:
        lift = max(cells._rise_over_chord(q, p, y1, y2) for p in (p1, end))
    low, higher = special.expit(b.min()), special.expit(b.max() + lift)
    of_x = outcomes.m1 * variance(low, higher)
    of_lift = outcomes.m1 * (low * (1 - low) if low >= 0.5 else 0.25 if higher >= 0.5 else kearns_saul(higher))
    if p2 < 1:
        in_p = (outcomes.n * variance(p1, p2) * (log_odds(p2) - log_odds(p1)) ** 2 + of_x * np.abs(b[1] - b[0]).max() ** 2) / 8  # fmt: skip
    else:
        values, in_p = values[[0, 0]], -outcomes.n * math.log(p1)
    if from_zero:
        values, in_y = values[:, [1, 1]], 0.0
    else:
        apart = log_odds(y2) - log_odds(y1) if y1 > 0 else 0.0
        in_y = (outcomes.m0 * variance(y1, y2) * apart**2 + of_x * np.abs(b[:, 1] - b[:, 0]).max() ** 2) / 8
    values = -(np.maximum(0.0, np.sqrt(-values) - lift * math.sqrt(of_lift / 2)) ** 2)
    t = np.linspace(0, 1, 4_001)
    along = [
        ((1 - t) * values.max(axis=axis)[0] + t * values.max(axis=axis)[1] + 4 * t * (1 - t) * rise).max() + other
        for axis, rise, other in ((1, in_p, in_y), (0, in_y, in_p))
    ]
    return min(along), in_p, in_y


def random_cells_of_p(rng: np.random.Generator, count: int) -> list[tuple[chance.Outcomes, float, cells.Cell]]:
    """Cells wide in p only, in y only or in both; up to p = 1 or from y = 0 or not; few losses and many; no gains at all."""
    drawn = []
    while len(drawn) < count:
        outcomes, _, _ = random_cells(rng, 1)[0]
        m0 = outcomes.m0
        if rng.random() < 0.15:
            m0, outcomes = 0, outcomes._replace(m0=0, fewest=np.ascontiguousarray(outcomes.fewest[:, :1]))
        p, q, y = float(rng.uniform(0.2, 0.995)), float(rng.uniform(0.1, 0.95)), float(rng.uniform(0.01, 0.6))
        in_p, in_y = rng.choice([1e-6, 0.05, 0.5], size=2)
        p1, p2 = p * (1 - in_p), p + (1 - p) * in_p * rng.random()
        if rng.random() < 0.25:
            p1, p2 = 1 - 10 ** rng.uniform(-5, -1), 1.0
        y1, y2 = (0.0 if rng.random() < 0.15 else y * (1 - in_y)), y * (1 + in_y * rng.random())
        y1, y2 = (y1, y2) if m0 else (0.0, 0.0)
        if y2 > q or cells.x_on_surface(q, p1, y1) <= 1e-6:
            continue
        ends = [(a, b, cells.x_on_surface(q, a, b)) for a in (p1, p2) for b in (y1, y2)]
        corners = [chance.log_chance(outcomes, a, x, b) for a, b, x in ends]
        for i, (a, b, _) in enumerate(ends):  # the search does not compute these
            corners[i] = chance.LOWEST if a == 1 or (b == 0 and m0) else corners[i]
        drawn.append((outcomes, q, cells.Cell(p1, p2, y1, y2, *corners)))
    return drawn


def test_bounds_of_cells_where_x_follows() -> None:
    """As their formula, and never below an exact sum at a point of the cell."""
    kinds: dict[tuple[bool, ...], int] = {}
    for outcomes, q, cell in random_cells_of_p(np.random.default_rng(21), 400):
        bound, in_p, in_y = cells.bound_cell_where_x_follows(outcomes, q, cell)
        expected, by_p, by_y = cell_by_formula_where_x_follows(outcomes, q, cell)
        assert expected - 1e-9 <= bound <= expected + 1e-5 * (1 + in_p + in_y + abs(expected))
        assert in_p == pytest.approx(by_p, rel=1e-5)
        assert in_y >= by_y - 1e-12
        rng = np.random.default_rng(22)
        for s, t in [*rng.random((4, 2)), (0, 0), (0, 1), (1, 0), (1, 1)]:
            p, y = cell.low + s * (cell.high - cell.low), cell.y1 + t * (cell.y2 - cell.y1)
            inside, _ = joint_parts(outcomes, p, cells.x_on_surface(q, p, y), y)
            assert inside < 1e-290 or math.log(inside) <= bound + 1e-9
        kind = (cell.high == 1, cell.y1 == 0 < cell.y2, outcomes.m0 > 0)
        kinds[kind] = kinds.get(kind, 0) + (bound < -0.01)
    assert len(kinds) == 6
    assert min(kinds.values()) > 0  # of each kind some that say something


def test_the_widths_of_cells_where_x_follows_have_their_margins() -> None:
    outcomes = chance.Outcomes(np.full((2, 2), 1, np.int64), 0, 0, 1, 10_000, 1, math.log(0.01))
    for p1, p2, y1, y2 in ((0.8, 0.9, 0.1, 0.1001), (0.8, 0.80001, 0.1, 0.2)):
        cell = cells.Cell(p1, p2, y1, y2, -5.0, -5.0, -5.0, -5.0)
        _, in_p, _ = cells.bound_cell_where_x_follows(outcomes, 0.5, cell)
        assert 1.5e-6 < in_p / cell_by_formula_where_x_follows(outcomes, 0.5, cell)[1] - 1 < 3e-6


def test_log_odds_of_losses_below_chords_of_p_and_little_above_those_of_y() -> None:
    """By 40-digit second differences: convex in the log-odds of p; in those of y never more concave than the formula says."""
    rng, close = np.random.default_rng(31), 0

    def kept(q: float, a: mpmath.mpf, c: mpmath.mpf) -> mpmath.mpf:
        p, y = 1 / (1 + mpmath.exp(-a)), 1 / (1 + mpmath.exp(-c))
        x = (p - q + (1 - p) * y) / p
        return mpmath.log((1 - x) / x)

    with mpmath.workdps(40):
        h = mpmath.mpf("1e-8")
        drawn = 0
        while drawn < 200:
            q, p, y1 = float(rng.uniform(0.02, 0.98)), float(rng.uniform(0.02, 0.999)), float(10 ** rng.uniform(-4, 0))
            y2 = y1 * (1 + float(rng.choice([1e-3, 0.3, 3.0])) * float(rng.random()))
            if y2 >= q or p - q + (1 - p) * y1 <= 1e-3 * p:
                continue
            drawn += 1
            a, c1, c2 = (mpmath.log(mpmath.mpf(rate) / (1 - mpmath.mpf(rate))) for rate in (p, y1, y2))
            assert kept(q, a + h, c1) + kept(q, a - h, c1) - 2 * kept(q, a, c1) >= -1e-30
            most = cells._rise_over_chord(q, p, y1, y2)
            concave = max(
                -(kept(q, a, c + h) + kept(q, a, c - h) - 2 * kept(q, a, c)) / h**2 for c in mpmath.linspace(c1, c2, 9)
            )
            assert most >= concave * (c2 - c1) ** 2 / 8 * (1 - mpmath.mpf("1e-9"))
            for t in (0.2, 0.5, 0.9):
                above = kept(q, a, c1 + t * (c2 - c1)) - (1 - t) * kept(q, a, c1) - t * kept(q, a, c2)
                assert above <= most * (1 + 1e-9) + 1e-15
            if concave > 0 and y2 < 1.0003 * y1:
                assert most <= 1.01 * concave * (c2 - c1) ** 2 / 8
                close += 1
    assert close > 3
    assert cells._rise_over_chord(0.5, 0.9, 0.0, 0.0) == 0.0


def no_columns(outcomes: chance.Outcomes) -> joint_columns.Columns:
    return joint_columns.no_columns(outcomes, np.full(joint_columns.SPACE, np.nan))


def task_in_box(*row: float) -> joint_rows.Task | None:
    """What is searched for seven counts, with the six sides of the box that follow them; None if the counts do not rank."""
    counts, edges, m1, m0 = np.array(row[:7], dtype=float), row[7:], int(row[3]), int(row[5])
    if m1 == 0:
        found = np.zeros(joint_rows.SIDES)
    else:
        box = joint_surface.Box(*edges, min(1 - 1e-6, edges[1] + joint_rows.beyond(edges[1], m1)))
        found = np.array([*box, *joint_rows.counts_in(box, m1, m0, counts[6])])
    ordering = joint_rows.ordering_of(counts, joint._tables(counts[None], found[None]), 0)
    if not joint_rows.ranks(ordering, counts):
        return None
    return joint_rows.task_of(counts, found, ordering, joint_rows.Tolerances(9e-5, 0.015))


def task(*counts: float) -> joint_rows.Task | None:
    """The same in the box that belongs to the counts."""
    return task_in_box(*counts, *joint_rows.box_of(np.array(counts, dtype=float))[:6])


# --- joint: columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [False, True])
def test_chances_in_columns_are_those_of_single_points(cut: bool) -> None:
    """Never below an exact sum, above it by no more than they may be, and equal to those of `log_chance` but for what these add."""
    rng = np.random.default_rng(12)
    for _ in range(150):
        outcomes = random_joint(rng, cut=cut)
        columns = no_columns(outcomes)
        for _ in range(6):  # few places: most are filled again, for another p or y
            places = rng.integers(0, 2, size=2) * (joint_columns.PLACES - 1)
            p, x, y = (float(rng.choice([rng.uniform(0, 1), 1e-3, 0.5, 0.99])) for _ in range(3))
            y = y if outcomes.m0 else 0.0
            found = joint_columns.log_chance_in_columns(columns, outcomes, int(places[0]), int(places[1]), p, x, y)
            single, tolerance = chance.log_chance(outcomes, p, x, y), 2e-4 * math.exp(outcomes.target)
            assert math.exp(single) * (1 - 1e-3) - tolerance <= math.exp(found) <= math.exp(single) * (1 + 1e-3) + tolerance  # fmt: skip
            inside, outside = joint_parts(outcomes, p, x, y)
            assert found >= min(0.0, math.log(max(inside, 1e-299)) + 9e-10) or inside < 1e-290
            if cut and outside < 1e-3:
                assert found >= min(0.0, math.log(max(inside + outside, 1e-299))) - 1e-8
            if not cut:
                assert found <= max(-690.0, math.log(inside * 1.003 + 4e-4 * math.exp(outcomes.target))) + 3e-9


def test_chances_in_columns_at_sizes_in_use() -> None:
    """Tables of many f and g, in any number of fours; and no more of them than there is room for."""
    rng = np.random.default_rng(13)
    for m1, m0 in ((400, 1), (90, 30), (60, 43), (200, 101)):
        n, alpha = 5_000, 0.002
        f, g = np.arange(m1 + 1)[:, None], np.arange(m0 + 1)
        p, x, y = 0.8, 0.05, 0.1
        edge = n * p + 2 * math.sqrt(n * p * (1 - p)) + 0.5 * n * ((f / m1 - x) - 0.3 * (g / m0 - y))
        outcomes = chance.Outcomes(np.clip(np.ceil(edge), 0, n + 1).astype(np.int64), 0, 0, n, m1, m0, math.log(alpha))
        columns = no_columns(outcomes)
        for place in range(12):
            p, x, y = 0.78 + 0.004 * place, float(rng.uniform(0.02, 0.08)), 0.05 + 0.01 * place
            inside, _ = joint_parts(outcomes, p, x, y)
            for _ in range(2):
                found = joint_columns.log_chance_in_columns(columns, outcomes, place, place, p, x, y)
                assert math.log(inside) <= found <= math.log(inside * 1.003 + 4e-4 * alpha)
        assert columns.rows == min(
            joint_columns.PLACES,
            (joint_columns.SPACE - 2 * (m1 + 1) - 32 - joint_columns.PLACES * (m0 + 4)) // (1 + (m1 + 1) * (m0 + 1)),
        )
        assert all(joint_columns.has_room(columns, place) for place in range(12))
    # Rows end where the space does: a place that has one keeps it, and no other finds room.
    space = np.full(2 * 201 + 32 + joint_columns.PLACES * (3 + 102) + 2 * (1 + 201 * 102) + 5, np.nan)
    columns = joint_columns.no_columns(outcomes, space)
    assert columns.rows == 2
    for place in (7, 3):
        assert joint_columns.has_room(columns, place)
        joint_columns.log_chance_in_columns(columns, outcomes, place, 0, 0.8, 0.05, 0.1)
    assert [joint_columns.has_room(columns, place) for place in (7, 3, 8)] == [True, True, False]
    assert np.isnan(space[-5:]).all()


# --- joint: ordering and search -------------------------------------------------------------------------------------


def ordering(n: int, m1: int, m0: int, level: float) -> joint_rows.Ordering:
    of_votes, first_k = joint._widths_of_votes(n, level)
    lost, gained = joint._widths_of_lost(m1, level, m1 + 1), joint._widths_of_gained(m0, level, m0 + 1)
    return joint_rows.Ordering(of_votes, lost, gained, first_k, m1, m0)


SIZES = [(20, 8, 4, 0.2), (9, 14, 6, 0.05), (12, 25, 12, 0.002), (30, 40, 0, 0.05), (5, 30, 1, 0.4)]


@pytest.mark.parametrize(("n", "m1", "m0", "alpha"), SIZES)
def test_the_ordering_is_the_one_that_is_defined(n: int, m1: int, m0: int, alpha: float) -> None:
    expected, found = ordering_by_definition(n, m1, m0, alpha), ordering(n, m1, m0, alpha)
    ranks = 0
    for k, f, g in itertools.product(range(n + 1), range(m1 + 1), range(m0 + 1)):
        if k >= found.first_k and f < len(found.of_lost):
            assert joint_rows.statistic(found, k, f, g) == pytest.approx(expected[k, f, g], abs=1e-12)
            ranks += 1
        else:
            assert expected[k, f, g] == -1
    assert ranks > 0


@pytest.mark.parametrize(("n", "m1", "m0", "alpha"), SIZES)
def test_fewest_votes_of_joint_by_brute_force(n: int, m1: int, m0: int, alpha: float) -> None:
    rng = np.random.default_rng(n)
    expected, found = ordering_by_definition(n, m1, m0, alpha), ordering(n, m1, m0, alpha)
    for _ in range(25):
        k = int(rng.integers(found.first_k, n + 1))
        f, g = int(rng.integers(len(found.of_lost))), int(rng.integers(m0 + 1))
        observed = joint_rows.statistic(found, k, f, g) - 1e-11
        (f_from, f_to), (g_from, g_to) = (np.sort(rng.integers(0, m + 1, size=2)) for m in (m1, m0))
        good = expected[:, f_from : f_to + 1, g_from : g_to + 1] >= observed
        fewest = np.where(good.any(axis=0), good.argmax(axis=0), n + 1)
        for most in (n, n // 2, 0):
            looked_at = joint_rows.fewest_votes(found, observed, f_from, f_to, g_from, g_to, most)
            assert np.array_equal(looked_at, np.minimum(fewest, most + 1))
        exactly = joint_rows.statistic(found, k, f, g)  # ties count
        expected_k = next(i for i in range(found.first_k, n + 1) if joint_rows.statistic(found, i, f, g) >= exactly)
        assert joint_rows.fewest_votes(found, exactly, f, f, g, g, n)[0, 0] == expected_k


def largest_of_joint(outcomes: chance.Outcomes, q: float, box: joint_surface.Box) -> float:
    """ln of the largest probability over the box with value q or less, by ever finer grids."""
    good = np.arange(outcomes.n + 1)[:, None, None] >= outcomes.fewest
    return math.log(max(largest_chance(good, q, box, points=16), 1e-300))


def random_box(rng: np.random.Generator, m0: int) -> joint_surface.Box:
    x_low, x_high = np.sort(rng.uniform(0, 0.6, size=2))
    y_low, y_high = np.sort(rng.uniform(0, 0.6 if rng.random() < 0.5 else 1.0, size=2)) if m0 else (0.0, 0.0)
    p_low, p_high = np.sort(rng.uniform(0.05, 1, size=2))
    ends = rng.random(3) < 0.3
    x_low, y_low, p_high = 0.0 if ends[0] else x_low, 0.0 if ends[1] else y_low, 1.0 if ends[2] else p_high
    return joint_surface.Box(x_low, x_high, y_low, y_high, p_low, p_high, min(1 - 1e-6, x_high + 0.1))


def cover(outcomes: chance.Outcomes, q: float, box: joint_surface.Box) -> int:
    return int(joint_search._is_covered(outcomes, no_columns(outcomes), q, box)[0])


@pytest.mark.parametrize("seed", range(8))
def test_a_box_of_joint_is_covered_if_and_only_if_no_point_exceeds(seed: int) -> None:
    """Boxes all of whose values are more than q or less, and those that the surface of value q cuts in every way."""
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(25):
        n, m1, m0 = int(rng.integers(3, 40)), int(rng.integers(2, 10)), int(rng.integers(0, 6))
        first_k, slopes = rng.uniform(0, 0.9 * n), rng.uniform(0, n, size=2)
        edge = first_k + slopes[0] * np.linspace(0, 1, m1 + 1)[:, None] + slopes[1] * np.linspace(1, 0, m0 + 1)
        outcomes = chance.Outcomes(np.minimum(n + 1, np.ceil(edge)).astype(np.int64), 0, 0, n, m1, m0, 0.0)
        box, q = random_box(rng, m0), float(rng.uniform(0.1, 0.95))
        values = [value_of(p, x, y) for p in box[4:6] for x in box[:2] for y in box[2:4]]
        if min(values) > q:
            assert cover(outcomes._replace(target=-600.0), q, box) == joint_search._COVERED
            continue
        largest = largest_of_joint(outcomes, q, box)
        if not -12 < largest < -0.1:
            continue
        above, below = (outcomes._replace(target=largest + shift) for shift in (0.03, -0.03))
        assert cover(above, q, box) == joint_search._COVERED
        assert cover(above, q, box) == joint_search._COVERED
        assert cover(below, q, box) == joint_search._EXCEEDED
        assert cover(below, q, box) != joint_search._COVERED
        at_end = box.x_high >= 1 - q
        both = all(part.low < part.high for part in joint_surface.parts_of_surface(above, q, box))
        seen.append((max(values) <= q, at_end, at_end and box.y_high > q, both))
    assert len(set(seen)) >= 4


def test_parts_of_the_surface() -> None:
    """They meet at one x, and together they hold every point of the surface in the box."""
    rng = np.random.default_rng(4)
    kinds = set()
    for _ in range(300):
        n, m1, m0 = (int(10 ** rng.uniform(0.3, 4)) for _ in range(3))
        outcomes = chance.Outcomes(np.zeros((2, 2), np.int64), 0, 0, n, m1, m0, -1.0)
        box, q = random_box(rng, m0), float(rng.uniform(0.05, 0.95))
        of_x, of_p = joint_surface.parts_of_surface(outcomes, q, box)
        p, y = rng.uniform(box.p_low, box.p_high, size=60), rng.uniform(box.y_low, box.y_high, size=60)
        x = 1 - y - (q - y) / p
        on_it = (x >= box.x_low) & (x <= box.x_high) & (x < 1 - q) & (y < q)
        in_x = (of_x.low <= x) & (x <= of_x.high) & (of_x.low < of_x.high) & (of_x.y_low <= y) & (y <= of_x.y_high)
        in_p = (of_p.x_from <= x) & (of_p.low < of_p.high) & (of_p.y_low <= y) & (y <= of_p.y_high)
        assert (in_x | in_p)[on_it].all()
        assert of_p.low == of_p.high or (of_p.low, of_p.high) == (box.p_low, box.p_high)
        assert of_x.free == joint_surface.X_IS_FREE != of_p.free == joint_surface.P_IS_FREE
        kinds.add((of_x.low < of_x.high, of_p.low < of_p.high))
    assert len(kinds) == 4


def gains_only(n: int) -> chance.Outcomes:
    """At least one vote, and all six replays gained: the largest y is the worst."""
    fewest = np.full((2, 7), n + 1, np.int64)
    fewest[:, 6] = 1
    return chance.Outcomes(fewest, 0, 0, n, 1, 6, 0.0)


BOX = joint_surface.Box(0.01, 0.1, 0.2, 0.4, 0.5, 0.95, 0.2)


@pytest.mark.parametrize("free", [joint_surface.X_IS_FREE, joint_surface.P_IS_FREE])
def test_cells_may_be_halved_to_the_last(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Where no cell is ever proven, the last one is as small as cells become: undecided."""
    cover_part = getattr(joint_search._cover, "py_func", joint_search._cover)
    for name in ("bound_cell_where_p_follows", "bound_cell_where_x_follows"):
        monkeypatch.setattr(joint_search, name, lambda *_: (0.5, 1.0, 1.0))
    outcomes = gains_only(40)._replace(target=-1e-12)
    part = joint_surface.Part(free, *((0.01, 0.1) if free == joint_surface.X_IS_FREE else (0.7, 0.9)), 0.2, 0.4, 0.01)
    box, q = BOX._replace(p_low=0.1, p_high=0.999, x_high=0.5), 0.7
    assert cover_part(outcomes, no_columns(outcomes), q, box, part)[0] == joint_search._UNDECIDED


@pytest.mark.parametrize("free", [joint_surface.X_IS_FREE, joint_surface.P_IS_FREE])
def test_a_value_is_computed_on_the_surface(free: int) -> None:
    """At places that are kept and between them; and again if p has moved."""
    outcomes, q = random_joint(np.random.default_rng(3), cut=False), 0.7
    columns = no_columns(outcomes)
    sides = [i * joint_surface.SIDE // 16 for i in (3, 7, 8, 9, 16)] + [1 << 23 | 1, 5, 1 << 7]
    for high in (0.3, 0.28):
        part = joint_surface.Part(free, 0.02, high, 0.05, 0.2, 0.02)
        if free == joint_surface.P_IS_FREE:
            part = part._replace(low=0.72, high=0.6 + high)
        for i, j in [*itertools.product(sides, sides)] * 2:
            p, x, y = joint_surface.point(q, part, i / joint_surface.SIDE, j / joint_surface.SIDE)
            assert value_of(p, x, y) == pytest.approx(q, abs=1e-12)
            if x > BOX.x_far:
                continue
            found = joint_surface.value_at(outcomes, columns, q, BOX, part, i, j)
            assert found == pytest.approx(chance.log_chance(outcomes, p, x, y), abs=2e-4)
        assert (columns.whole[0] > 0) == (free == joint_surface.P_IS_FREE)


def test_corners_have_places_of_their_own() -> None:
    """A slot is free or holds the same corner; where there is none left, there is no slot."""
    keys, corners = np.zeros(16, np.int64), [i << 16 for i in range(5)] + [3, 5 << 9]
    taken: dict[int, tuple[int, int]] = {}
    for i, j in itertools.product(corners, corners):
        slot = joint_search._slot(keys, i, j)
        if slot >= 0:
            assert slot not in taken
            taken[slot], keys[slot] = (i, j), (i << 32) + j + 1
        assert (slot < 0) == (len(taken) == 16 and (i, j) not in taken.values())
    for slot, (i, j) in taken.items():
        assert joint_search._slot(keys, i, j) == slot


def test_values_at_the_ends_do_not_count() -> None:
    outcomes = random_joint(np.random.default_rng(3), cut=False)
    columns, part = (
        no_columns(outcomes),
        joint_surface.Part(joint_surface.X_IS_FREE, 0.0, 1 - 0.7, 0.0, 0.2, 0.0),
    )
    middle = joint_surface.SIDE // 2

    def at(q: float, part: joint_surface.Part, i: int, j: int, outcomes: chance.Outcomes = outcomes) -> float:
        return float(joint_surface.value_at(outcomes, columns, q, BOX, part, i, j))

    assert at(0.5, part, 0, middle) == at(0.5, part, middle, 0) == chance.LOWEST
    assert at(0.7, part, joint_surface.SIDE, middle) == chance.LOWEST  # x = 1 - q, p = 1
    assert at(0.5, part, middle, 0, outcomes._replace(m0=0, fewest=outcomes.fewest[:, :1])) > chance.LOWEST
    part = joint_surface.Part(joint_surface.P_IS_FREE, 0.5, 0.9, 0.1, 0.2, 0.0)
    p, x, y = joint_surface.point(0.4, part, 1.0, 1.0)
    assert x > BOX.x_far
    assert at(0.4, part, joint_surface.SIDE, joint_surface.SIDE) == pytest.approx(chance.log_chance(outcomes, p, BOX.x_far, y), abs=2e-4)  # fmt: skip


@pytest.mark.parametrize("free", [joint_surface.X_IS_FREE, joint_surface.P_IS_FREE])
def test_the_sides_of_cells_rise_from_end_to_end(free: int) -> None:
    shares = np.linspace(0, 1, 33)
    for ends in ((0.1, 0.5), (0.7, 0.9), (0.6, 0.6), (0.0, 1.0)):
        edges = np.array([joint_surface.between(free, *ends, float(share)) for share in shares])
        assert (edges[0], edges[-1]) == ends
        if free == joint_surface.X_IS_FREE:
            expected = ends[0] + (ends[1] - ends[0]) * (1 - np.cos(math.pi * shares)) / 2
        elif sum(ends) > 1:
            expected = 1 - np.linspace(*np.sqrt(1 - np.array(ends)), 33) ** 2
        else:
            expected = np.linspace(*np.sqrt(ends), 33) ** 2
        assert edges == pytest.approx(expected)
    for low, high in [(0.212, 0.465), (0.299, 0.85), (0.189, 0.807)]:
        assert low + (high - low) != high
        assert joint_surface.between(free, low, high, 1.0) == high


def test_the_sides_of_the_box_are_clopper_pearsons() -> None:
    """Never inside, and hardly outside; in all sizes, for errors as small as they may be."""
    rng = np.random.default_rng(16)
    for _ in range(400):
        n = int(10 ** rng.uniform(0, 6))
        k, error = int(rng.choice([0, 1, n - 1, n, min(n, rng.poisson(5)), rng.integers(0, n + 1)])), float(10 ** rng.uniform(-60, -1))  # fmt: skip
        low, high = joint_rows.sides(k, n, error)
        lower, upper = binomial.clopper_pearson_lower(k, n, error), binomial.clopper_pearson_upper(k, n, error)
        assert lower - 1e-4 * (k / n - lower) - 1e-16 <= low <= lower
        assert upper <= high <= upper + 1e-4 * (upper - k / n) + 1e-15
    assert joint_rows.sides(0, 0, 0.01) == (0.0, 0.0)


def test_the_box_of_joint() -> None:
    """Six Clopper-Pearson bounds at .02 / 6 alpha each, and 0 without replays."""
    rows = np.array([(80, 100, 3, 50, 2, 10, 0.03), (80, 100, 0, 50, 0, 0, 0.03), (80, 100, 0, 0, 0, 0, 0.03)])
    boxes = np.full((3, joint_rows.SIDES), np.nan)
    joint_rows.find_boxes(rows, boxes, 0, 3)
    edges = [bound(*counts, 1e-4) for counts in ((3, 50), (2, 10), (80, 100)) for bound in (binomial.clopper_pearson_lower, binomial.clopper_pearson_upper)]  # fmt: skip
    assert boxes[0, :6] == pytest.approx(edges, rel=1e-4)
    assert boxes[0, 7:].tolist() == list(joint_rows.counts_in(joint_rows.box_of(rows[0]), 50, 10, 0.03))
    assert boxes[1, 2:4].tolist() == [0, 0]
    assert boxes[2].tolist() == [0] * joint_rows.SIDES


JOINT_ROWS = [(16, 20, 1, 10, 2, 5, 0.2), (28, 30, 0, 40, 0, 0, 0.05), (9, 12, 1, 25, 9, 12, 0.1), (5, 5, 0, 30, 1, 1, 0.9), (3, 3, 0, 1, 0, 1, 0.4)]  # fmt: skip


@pytest.mark.parametrize("counts", JOINT_ROWS)
def test_what_joint_searches(counts: tuple[float, ...]) -> None:
    """All outcomes that rank as high as the observed one, at .98 alpha, in the box and on the grid."""
    k, n, f, m1, g, m0 = (int(count) for count in counts[:6])
    alpha, edges = counts[6], (0.01, 0.4, 0.02, 0.5, 0.3, 0.99)
    order, found = ordering_by_definition(n, m1, m0, min(alpha, 0.4)), task_in_box(*counts, *edges)
    if order[k, f, g] == -1:
        assert found is None
        assert joint.joint_lower(*counts) == 0.0
        return
    assert found is not None
    outcomes, box, observed, tolerance = found
    assert outcomes.target == pytest.approx(math.log(0.98 * alpha))
    assert (outcomes.n, outcomes.m1, outcomes.m0, tuple(box)[:6]) == (n, m1, m0, edges)
    assert 0.4 + 1 / m1 < box.x_far < 1
    assert observed == pytest.approx(order[k, f, g])
    rows, columns = outcomes.fewest.shape
    assert (outcomes.first_f, outcomes.first_g) == (0, 0)
    assert rows == m1 + 1 or rows > 0.4 * m1 + 5
    assert columns == m0 + 1
    good = order[:, :rows] >= order[k, f, g] - 1e-10
    assert np.array_equal(outcomes.fewest, np.where(good.any(axis=0), good.argmax(axis=0), n + 1))
    y = g / max(m0, 1)
    half_width = k / n * (1 - f / m1) + (1 - k / n) * y - order[k, f, g]
    assert tolerance == pytest.approx(max(1e-6, min(9e-5, 0.015 * half_width)))
    assert (joint.joint_lower(*counts) * 2.0**20).is_integer()


def test_the_least_value_in_the_box() -> None:
    """Below every value in the box, and not far."""
    rng = np.random.default_rng(14)
    for _ in range(300):
        n, m1, m0 = int(10 ** rng.uniform(1, 5)), int(rng.integers(1, 900)), int(rng.integers(0, 200))
        k, f, g = rng.binomial(n, rng.random()), rng.binomial(m1, rng.random() ** 3), rng.binomial(m0, rng.random())
        alpha = float(rng.choice([0.2, 0.002, 1e-9]))
        [found] = joint._least_in_box(*np.array([[k], [n], [f], [m1], [g], [m0], [alpha]], dtype=float))
        sides = [joint_rows.sides(*of, alpha * 0.02 / 6) for of in ((k, n), (f, m1), (g, m0))]
        least = min(value_of(p, x, y) for p, x, y in itertools.product(*sides))
        assert 0 <= found <= max(0.0, least - 1e-6)
    for rate, m in ((0.9, 10**4), (0.6, 10**5)):  # with many counts it is of use: a sixth of the way further out
        [found] = joint._least_in_box(*np.array([[rate * m], [m], [0.01 * m], [m], [0.1 * m], [m], [0.002]]))
        sides = [joint_rows.sides(int(share * m), m, 0.002 * 0.02 / 6) for share in (rate, 0.01, 0.1)]
        least, middle = min(value_of(p, x, y) for p, x, y in itertools.product(*sides)), value_of(rate, 0.01, 0.1)
        assert middle - 1.4 * (middle - least) <= found
    assert joint._least_in_box(*np.array([[9.0], [9.0], [0.0], [0.0], [0.0], [0.0], [0.1]])).tolist() == [0.0]


@pytest.mark.parametrize("seed", range(3))
def test_joint_reaches_its_bound_and_not_much_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(6):
        n, m1, m0 = (int(rng.integers(10, most)) for most in (2_000, 200, 40))
        counts = rng.binomial(n, 0.95), n, rng.binomial(m1, 0.03), m1, rng.binomial(m0, 0.2), m0, 0.05
        found, searched = joint.joint_lower(*counts), task(*counts)
        assert (searched is not None) == (found > 0)
        if searched is not None:
            reached = [joint_search.is_covered(searched.outcomes, searched.box, value, np.empty(joint_columns.SPACE)) for value in (found, found * 0.9, found + 5e-4)]  # fmt: skip
            assert reached == [True, True, False]
    assert task(1, 100, 0, 50, 0, 0, 0.05) is None  # does not rank


@pytest.mark.parametrize("shares", [(0.9, 0.1), (1.0, 0.0)])
def test_series_reaches_its_bound_and_nothing_above(shares: tuple[float, float]) -> None:
    rng, asked = np.random.default_rng(15), series_rows.Asked(shares[1] > 0, True)
    bounds_of = series.series_lower if shares[1] else series.few_flips_lower
    rows = [(30, 30, 12, 12), (30, 30, 0, 12), (30, 30, 0, 0), (0, 30, 12, 12), (30, 30, 11, 12), (29, 30, 12, 12), (1, 30, 1, 12), (30, 30, 1, 1), (1, 1, 1, 1)]  # fmt: skip
    rows += [(int(n - n * rng.random() ** 2 * 0.5), int(n), int(m - m * rng.random() ** 2 * 0.4), int(m)) for n, m in rng.integers(1, 200, size=(40, 2))]  # fmt: skip
    for k, n, s, m in rows:
        alpha = float(rng.choice([0.3, 0.01]))
        single = min(binomial.clopper_pearson_lower(k, n, alpha), binomial.clopper_pearson_lower(s, max(m, 1), alpha))
        row = np.array((k, n, s, m, alpha, 0.0, single))
        if series_rows.is_known(row):
            assert series_rows.bound_if_known(row) == (0.0 if 0 in (k, s) else single)
            continue
        of_votes, of_replays = series._lower_table(n, shares[0] * alpha), series._lower_table(m, shares[1] * alpha) if shares[1] else series._flip_table(m)  # fmt: skip
        tables = series_rows.Tables(of_votes, of_replays, np.array([[0, n + 1, 0, m + 1]]))
        outcomes, observed = series_rows.outcomes_of(row, tables, 0, 20)
        corners = np.zeros((1, 2), dtype=np.int64)
        series_rows.find_corners(row[None], tables, corners, 0, 1)
        assert corners.tolist() == [[outcomes.fewest[-1], outcomes.first]]
        ceiling = float(stats.beta.ppf(alpha, corners[0], [n + 1, m + 1] - corners[0]).min())
        bound = series_rows.bound_of(row, outcomes, observed, ceiling, asked)
        assert bound <= bounds_of(k, n, s, m, alpha) <= max(bound, observed) + 1e-12
        for value, reached in ((bound, bound > 0), (bound * 0.9 + 1e-7, bound > 1e-6), (bound + 2e-6, False), (bound * 0.5 + 0.5, False)):  # fmt: skip
            assert series_rows.reaches(value, row, outcomes, ceiling) == reached


def test_what_does_not_rank_has_no_bound() -> None:
    assert task_in_box(20, 20, 0, 0, 0, 0, 0.1, 0, 0, 0, 0, 0.5, 1) is None
    found = ordering(20, 30, 0, 0.1)
    assert task_in_box(found.first_k - 1, 20, 0, 30, 0, 0, 0.1, 0, 0.1, 0, 0, 0.1, 0.9) is None
    assert task_in_box(found.first_k, 20, 0, 30, 0, 0, 0.1, 0, 0.1, 0, 0, 0.1, 0.9) is not None
    assert task_in_box(20, 20, len(found.of_lost), 30, 0, 0, 0.1, 0, 0.1, 0, 0, 0.5, 1) is None
    assert task_in_box(20, 20, len(found.of_lost) - 1, 30, 0, 0, 0.1, 0.2, 0.5, 0, 0, 0.5, 1) is not None
    for counts in ((20, 20, 0, 0, 0, 0, 0.1), (found.first_k - 1, 20, 0, 30, 0, 0, 0.1), (20, 20, len(found.of_lost), 30, 0, 0, 0.1)):  # fmt: skip
        assert joint.joint_lower(*counts) == 0.0


def test_tables_of_joint_hold_what_matters() -> None:
    """Of many counts only those that are likely somewhere in the box."""
    found = task_in_box(9_000, 10_000, 150, 1_000, 200, 1_000, 0.1, 0.1, 0.2, 0.15, 0.25, 0.89, 0.91)
    assert found is not None
    outcomes, box = found[:2]
    assert box.x_far == pytest.approx(0.2 + 2 * math.sqrt(0.2 * 0.8 / 1_000 + 1e-6))
    first_f, first_g = outcomes.first_f, outcomes.first_g
    last_f, last_g = (first + size - 1 for first, size in zip((first_f, first_g), outcomes.fewest.shape, strict=True))
    x_near = 0.1 - 2 * math.sqrt(0.1 * 0.9 / 1_000 + 1e-6)
    for value, smaller, limit in (
        (stats.binom.cdf(first_f - 1, 1_000, x_near), stats.binom.cdf(first_f + 1, 1_000, x_near), 9.8e-6),
        (stats.binom.sf(last_f, 1_000, box.x_far), stats.binom.sf(last_f - 2, 1_000, box.x_far), 2**-10),
        (stats.binom.cdf(first_g - 1, 1_000, 0.15), stats.binom.cdf(first_g + 1, 1_000, 0.15), 2**-10),
        (stats.binom.sf(last_g, 1_000, 0.25), stats.binom.sf(last_g - 2, 1_000, 0.25), 9.8e-6),
    ):
        assert value <= limit < smaller
    assert outcomes.fewest[150 - first_f, 200 - first_g] == 9_000
    assert isinstance(joint.joint_lower(20, 20, 0, 30, 0, 0, 0.1), float)


def one_cell(places: tuple[int, ...], part: joint_surface.Part) -> joint_search.Cells:
    stack = joint_search.no_cells(part, 8)
    stack.places[0] = places
    for side, (low, high) in enumerate([(part.low, part.high)] * 2 + [(part.y_low, part.y_high)] * 2):
        stack.sides[0, side] = joint_surface.between(part.free, low, high, places[side] / joint_surface.SIDE)
    stack.at_corners[0] = (1, 2, 3, 4)
    return stack


def test_halves_make_up_their_cell() -> None:
    """They have the sides of their places, and of the corners those that they share with the cell; the others are not known yet."""
    part, nan = joint_surface.Part(joint_surface.P_IS_FREE, 0.5, 0.9, 0.1, 0.2, 0.0), math.nan
    for places, across, left, right in (
        ((2, 6, 0, 6), True, ((2, 4, 0, 6), (1, 2, nan, nan)), ((4, 6, 0, 6), (nan, nan, 3, 4))),
        ((2, 6, 0, 6), False, ((2, 6, 0, 3), (1, nan, 3, nan)), ((2, 6, 3, 6), (nan, 2, nan, 4))),
        ((2, 3, 0, 6), True, ((2, 3, 0, 3), (1, nan, 3, nan)), ((2, 3, 3, 6), (nan, 2, nan, 4))),
        ((2, 6, 0, 1), False, ((2, 4, 0, 1), (1, 2, nan, nan)), ((4, 6, 0, 1), (nan, nan, 3, 4))),
    ):  # fmt: skip
        stack = one_cell(places, part)
        assert joint_search._halve(stack, 1, part, across) == 2
        for row, (expected, corners) in enumerate((left, right)):
            assert (*stack.places[row],) == expected
            assert np.array_equal(stack.at_corners[row], corners, equal_nan=True)
            assert np.array_equal(stack.sides[row], one_cell(expected, part).sides[0])
    assert joint_search._halve(one_cell((2, 3, 5, 6), part), 1, part, True) == -1
    whole = joint_search.no_cells(part, joint_surface.SIDE)
    assert (*whole.places[0],) == (0, joint_surface.SIDE) * 2
    assert (*whole.sides[0],) == (0.5, 0.9, 0.1, 0.2)
    assert np.isnan(whole.at_corners[0]).all()
    assert (*joint_search.no_cells(part, 0).sides[0],) == (0.5, 0.9, 0.1, 0.1)


# --- paired ---------------------------------------------------------------------------------------------------------


def test_costs_and_their_slopes_match_50_digits() -> None:
    with mpmath.workdps(50):
        for j, m in ((0, 1), (0, 7), (1, 2), (3, 9), (8, 9), (20, 400)):
            for at in (1e-4, 0.01, 0.05, 0.2, 0.5, 0.9, 0.99):

                def cost(t: mpmath.mpf, j: int = j, m: int = m) -> mpmath.mpf:
                    return -mpmath.log(sum(mpmath.binomial(m, i) * t**i * (1 - t) ** (m - i) for i in range(j + 1)))

                if cost(mpmath.mpf(at)) > 600:
                    continue
                expected = [cost(mpmath.mpf(at)), *(mpmath.diff(cost, mpmath.mpf(at), order) for order in (1, 2))]
                found = paired_search.cost_and_slopes(paired_search.Votes(j, m, 1.0), at)
                assert found[:2] == pytest.approx([float(value) for value in expected[:2]], rel=1e-11, abs=1e-40)
                assert found[2] == pytest.approx(float(expected[2]), rel=1e-6, abs=1e-6 * float(expected[1]) ** 2)
    assert paired_search.cost_and_slopes(paired_search.Votes(5, 5, 1.0), 0.3) == (0.0, 0.0, 0.0)
    assert paired_search.cost_and_slopes(paired_search.Votes(0, 5, 1.0), 0.0) == (0.0, 5.0, 0.0)
    assert paired_search.cost_and_slopes(paired_search.Votes(1, 5, 1.0), 0.0) == (0.0, 0.0, 0.0)


def costs(votes: paired_search.Votes, at: np.ndarray) -> np.ndarray:
    return -stats.binom.logcdf(votes.j, votes.m, at)


def random_votes(rng: np.random.Generator, budget: float) -> paired_search.Votes:
    m = int(rng.choice([1, 3, 20, 300]))
    j = int(rng.choice([0, m, rng.integers(0, m + 1)]))
    most = 1.0 if j == m else min(1 - 1e-12, float(stats.beta.isf(math.exp(-budget), j + 1, m - j)))
    return paired_search.Votes(j, m, most)


def test_conjugates_are_bounds_and_tight() -> None:
    rng = np.random.default_rng(12)
    for _ in range(300):
        votes = random_votes(rng, 8.0)
        weight, price = float(rng.choice([0.0, 1.0, rng.uniform(0, 1)])), float(10 ** rng.uniform(-4, 0))
        guess = float(rng.uniform(1e-3, votes.most))
        bound, t, cost, response = paired_search._conjugate(votes, weight, price, guess)
        between = np.linspace(0, votes.most, 4_001)
        exact = (weight * between - price * costs(votes, between)).max()
        assert exact - 1e-12 <= bound <= exact + 1e-4 * weight + 1e-12
        assert 0 <= t <= votes.most
        assert cost == pytest.approx(float(costs(votes, np.array(t))), rel=1e-9, abs=1e-12)
        assert response >= 0


def test_conjugates_are_bounds_whatever_the_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tangent at any t bounds the concave function: tried with one that is no maximizer."""
    conjugate = getattr(paired_search._conjugate, "py_func", paired_search._conjugate)
    rng = np.random.default_rng(13)
    for _ in range(200):
        votes = random_votes(rng, 8.0)
        weight, price = float(rng.uniform(0, 1)), float(10 ** rng.uniform(-4, 0))
        at = float(rng.uniform(0.01, 0.99)) * votes.most
        monkeypatch.setattr(paired_search, "_maximizer", lambda *_, at=at: at)
        bound, *_ = conjugate(votes, weight, price, 0.5)
        between = np.linspace(0, votes.most, 2_001)
        assert bound >= (weight * between - price * costs(votes, between)).max() - 1e-9
        tangent = weight - price * float(np.diff(costs(votes, at + np.array([-1e-7, 1e-7])))[0]) / 2e-7
        value = weight * at - price * float(costs(votes, np.array(at)))
        expected = max(value + tangent * (votes.most - at), value - tangent * at)
        assert bound == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_cells_of_paired_are_never_below_brute_force() -> None:
    """For the price that is found and for others; and tight in the middle, and over narrow cells."""
    rng = np.random.default_rng(14)
    for _ in range(60):
        budget = float(rng.uniform(3, 12))
        x, y, z = (random_votes(rng, budget) for _ in range(3))
        if y.j == y.m:
            continue
        region = paired_search.Region(budget, x, y, z)
        left = float(rng.uniform(0, 0.95)) * x.most
        right = left + float(rng.choice([1e-4, 0.05])) * (x.most - left)
        guess = (float(rng.choice([1.0 / y.m, 0.3, 1e-3])), y.most / 2, z.most / 2)
        bound, at_middle, price, at_y, at_z = paired_search._bound_cell(region, left, right, *guess)
        middle = (left + right) / 2
        exact = [largest_loss_at(region, at) for at in (left, middle, right)]
        assert bound >= max(exact) - 1e-9
        assert exact[1] - 1e-9 <= at_middle <= exact[1] + 2e-3
        if right - left <= 1e-4:
            assert bound <= at_middle + 1e-3
        assert price > 0
        assert 0 <= at_y <= y.most
        assert 0 <= at_z <= z.most


def test_cells_of_paired_have_their_margin() -> None:
    """A relative margin of 1e-10 for what is added up, on top of the larger of both ends."""
    votes = [paired_search.Votes(5, 40, 0.5), paired_search.Votes(2, 30, 0.4), paired_search.Votes(3, 9, 0.8)]
    region = paired_search.Region(7.0, *votes)
    for left, right in ((0.1, 0.3), (0.3, 0.45), (0.05, 0.06)):
        bound, _, price, at_y, at_z = paired_search._bound_cell(region, left, right, 0.05, 0.2, 0.5)
        middle = (left + right) / 2
        cost, slope, _ = paired_search.cost_and_slopes(region.x, middle)
        ends = [
            price * (region.budget - cost - slope * (x - middle))
            + paired_search._conjugate(region.y, 1 - x, price, at_y)[0]
            + paired_search._conjugate(region.z, x, price, at_z)[0]
            for x in (left, right)
        ]
        margin = 1e-10 * (1 + price * (region.budget + slope * (right - left)))
        assert bound - max(ends) == pytest.approx(margin, rel=1e-4)


def test_a_search_that_ends_early_has_a_valid_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    largest_loss = getattr(paired_search.largest_loss, "py_func", paired_search.largest_loss)
    most = [float(stats.beta.isf(math.exp(-7.0), j + 1, m - j)) for j, m in ((5, 40), (2, 30), (3, 9))]
    votes = [paired_search.Votes(j, m, t) for (j, m), t in zip(((5, 40), (2, 30), (3, 9)), most, strict=True)]
    region = paired_search.Region(7.0, *votes)
    exact = paired_search.largest_loss(region, 1e-7)
    for most_cells in (2, 3, 5):
        monkeypatch.setattr(paired_search, "_MOST_CELLS", most_cells)
        assert exact < largest_loss(region, -1.0) < exact + 0.3


def largest_loss_at(region: paired_search.Region, x: float) -> float:
    """The largest loss for a given x: over all y on a grid, with the z that the rest of the budget allows."""
    left = region.budget - float(costs(region.x, np.array(x)))
    if left <= 0:
        return 0.0
    y = np.linspace(0, region.y.most, 1_001)
    rest = left - costs(region.y, y)
    y, rest = y[rest > 0], rest[rest > 0]
    z = np.ones_like(y)
    if region.z.j < region.z.m:
        z = stats.beta.isf(np.exp(-rest), region.z.j + 1, region.z.m - region.z.j)
    return float(((1 - x) * y + x * z).max())


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_the_largest_loss_by_brute_force(tolerance: float) -> None:
    rng = np.random.default_rng(15)
    for _ in range(12):
        budget = float(rng.uniform(3, 12))
        x, y, z = (random_votes(rng, budget) for _ in range(3))
        if y.j == y.m:
            continue
        region = paired_search.Region(budget, x, y, z)
        exact = max(largest_loss_at(region, at) for at in np.linspace(0, x.most, 41))
        found = paired_search.largest_loss(region, tolerance)
        assert exact - 1e-9 <= found <= exact + 2e-3 + tolerance


def test_the_region_of_paired_is_no_smaller_than_fishers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    monkeypatch.setattr(paired, "map_distinct", lambda _, *columns: seen.extend(columns) or columns[0])
    paired.paired_lower([80, 100, 7], [100, 100, 10], [3, 0, 2], [50, 9, 2], [2, 0, 0], [10, 0, 3], 0.02)
    budget, most = seen[0][0], np.stack([seen[i] for i in (3, 6, 9)])
    against, trials = np.stack([seen[i] for i in (1, 4, 7)]), np.stack([seen[i] for i in (2, 5, 8)])
    assert against.tolist() == [[20, 0, 3], [3, 0, 2], [8, 0, 3]]
    assert trials.tolist() == [[100, 100, 10], [50, 9, 2], [10, 0, 3]]
    with mpmath.workdps(40):
        assert 0 <= mpmath.gammainc(3, 0, budget, regularized=True) - (1 - mpmath.mpf(0.02)) <= 1e-12
    everything = against == trials
    assert (most[everything] == 1).all()
    expected = stats.beta.isf(math.exp(-budget), against + 1, np.maximum(trials - against, 1))
    assert (most[~everything] >= expected[~everything]).all()
    assert most[~everything] == pytest.approx(expected[~everything], rel=1e-8)
    paired.paired_losses_lower(80, 100, 3, 50, 0.02)
    assert seen[10] == pytest.approx(stats.gamma.isf(0.02, 2), rel=1e-11)
    assert seen[10] > stats.gamma.isf(0.02, 2)
    assert (float(seen[17]), float(seen[18]), float(seen[19])) == (0, 0, 1)
    paired.paired_lower(0, 1, 0, 1, 0, 1, 1e-59)
    assert 1 - 3e-12 < seen[26] <= 1 - 0.9e-12


@pytest.mark.parametrize(
    ("loss", "expected"), [(0.25, 0.75 - 2**-20), (0.0, 1 - 2**-20), (1.0, 0.0), (0.3, 0.7), (0.9999999, 0.0)]
)
def test_bounds_of_paired_are_rounded_down(monkeypatch: pytest.MonkeyPatch, loss: float, expected: float) -> None:
    asked = []
    monkeypatch.setattr(paired, "largest_loss", lambda *arguments: asked.append(arguments) or loss)
    found = paired._search(9.0, 20.0, 100.0, 0.4, 3.0, 50.0, 0.3, 8.0, 10.0, 0.9)
    assert expected - 1e-6 <= found <= expected
    assert found * 2**20 % 1 == 0
    votes = [paired_search.Votes(20, 100, 0.4), paired_search.Votes(3, 50, 0.3), paired_search.Votes(8, 10, 0.9)]
    assert asked == [(paired_search.Region(9.0, *votes), 2.0**-22)]
    assert paired._search(9.0, 20.0, 100.0, 0.4, 50.0, 50.0, 1.0, 8.0, 10.0, 0.9) == 0.0


def test_nothing_is_claimed_where_a_tail_underflows(monkeypatch: pytest.MonkeyPatch) -> None:
    def underflows(*_: object) -> float:
        raise ZeroDivisionError

    monkeypatch.setattr(paired, "largest_loss", underflows)
    assert paired._search(9.0, 20.0, 100.0, 0.4, 3.0, 50.0, 0.3, 8.0, 10.0, 0.9) == 0.0
