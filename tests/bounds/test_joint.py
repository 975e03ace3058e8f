"""joint_lower against published values, a slow oracle that shares no code with it, exact coverage, and its laws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recert.bounds import clopper_pearson_lower
from recert.bounds._joint_chance import Outcomes, log_chance
from recert.bounds.joint import joint_lower
from recert.bounds.paired import paired_lower

# (top votes, samples, lost, replayed top, gained, replayed other), another program's value for nearly the same
# ordering, and a limit that no bound passes: with the true rates known to the normal approximation (None: not known).
REFERENCE = [
    (80_000, 100_000, 0, 800, 0, 200, 0.79326, 0.7956),
    (80_000, 100_000, 2, 4_000, 2, 1_000, 0.79596, 0.7962),
    (80_000, 100_000, 5, 800, 5, 200, 0.78838, 0.7903),
    (80_000, 100_000, 25, 4_000, 25, 1_000, 0.79445, 0.7946),
    (80_000, 100_000, 60, 4_000, 60, 1_000, 0.79273, 0.7930),
    (80_000, 100_000, 100, 16_000, 100, 4_000, 0.79584, 0.7959),
    (7_000, 10_000, 14, 700, 14, 300, 0.67954, None),
    (9_500, 10_000, 3, 950, 3, 50, 0.93911, None),
]


@pytest.mark.parametrize(("k", "n", "f", "m1", "g", "m0", "known", "ideal"), REFERENCE)
def test_reference_values(k, n, f, m1, g, m0, known, ideal):
    bound = joint_lower(k, n, f, m1, g, m0, 0.002)
    assert known - 1e-4 <= bound <= (ideal or known + 5e-4)
    assert bound > paired_lower(k, n, f, m1, g, m0, 0.002)


def ordering_by_definition(n, m1, m0, alpha):
    """T for all outcomes, -1 for those that rank below all others."""
    k, f, g = np.arange(n + 1), np.arange(m1 + 1), np.arange(m0 + 1)
    of_k = k / n - np.where(k == 0, 0, stats.beta.ppf(alpha, np.maximum(k, 1), n - k + 1))
    of_k = np.array([of_k[i:].max() for i in k])
    of_f = np.where(f == m1, 1, stats.beta.isf(alpha, f + 1, np.maximum(m1 - f, 1))) - f / m1
    of_f = np.array([of_f[: i + 1].max() for i in f])
    y = np.minimum(g / max(m0, 1), 0.5)
    of_g = np.maximum(y - np.where(g == 0, 0, stats.beta.ppf(alpha, np.maximum(g, 1), m0 - g + 1)), 0)
    p, of_k = (k / n)[:, None, None], of_k[:, None, None]
    x, of_f = (f / m1)[:, None], of_f[:, None]
    width = np.sqrt(((1 - x - y + of_g) * of_k) ** 2 + (p * of_f) ** 2 + ((1 - p) * of_g) ** 2)
    return np.where((p >= of_k) & (x + of_f <= 0.5), p * (1 - x) + (1 - p) * y - width, -1.0)


def largest_chance(good, q, box, points=30):
    """The largest probability of the outcomes over all (p, x, y) in the box with value q or less, by grids.

    `box` is the low and the high x, y and p. One grid is over x and y with the largest p, one over p and y with the least x;
    each is centred on the best point of the one before, and finer.
    """
    n = good.shape[0] - 1
    fewest = np.where(good.any(axis=0), good.argmax(axis=0), n + 1)
    assert np.array_equal(good, np.arange(n + 1)[:, None, None] >= fewest)
    x_low, x_high, y_low, y_high, p_low, p_high = box[:6]
    largest = 0.0
    for x_is_free in (True, False):
        highest, best, spread = 0.0, np.array([0.5, 0.5]), 0.5
        for _ in range(4):
            s, t = np.clip(best[:, None] + spread * np.linspace(-1, 1, points), 0, 1)
            y = between(y_low, y_high, t if y_high > y_low else t[:1])
            with np.errstate(all="ignore"):
                if x_is_free:
                    x = between(x_low, x_high, s)[:, None] + 0 * y
                    choices = np.stack(np.broadcast_arrays(p_low, p_high, (q - y) / (1 - x - y)))
                    allowed = (choices >= p_low) & (choices <= p_high) & (value_of(choices, x, y) <= q + 1e-13)
                    p = np.where(allowed, choices, 0.0).max(axis=0)  # the probability rises in p
                else:
                    p = between(p_low, p_high, s)[:, None] + 0 * y
                    x = np.clip(1 - y - (q - y) / p, x_low, x_high)  # and falls in x
            chances = np.where(value_of(p, x, y) <= q + 1e-13, chances_at(fewest, n, p, x, y), 0.0) * (p >= p_low)
            i, j = np.unravel_index(chances.argmax(), chances.shape)
            if chances[i, j] > highest:
                highest, best = chances[i, j], np.array([s[i], t[j]])
            spread /= 8
        largest = max(largest, highest)
    return largest


def between(low, high, share):
    return low + (high - low) * np.sin(share * np.pi / 2) ** 2


def value_of(p, x, y):
    return p * (1 - x) + (1 - p) * y


def chances_at(fewest, n, p, x, y):
    m1, m0 = (length - 1 for length in fewest.shape)
    of_k = stats.binom.pmf(np.arange(n + 1), n, p[..., None])
    tails = np.append(np.cumsum(of_k[..., ::-1], axis=-1)[..., ::-1], np.zeros((*p.shape, 1)), axis=-1)
    of_f, of_g = (
        stats.binom.pmf(np.arange(m1 + 1), m1, x[..., None]),
        stats.binom.pmf(np.arange(m0 + 1), m0, y[:, None]),
    )
    places = itertools.product(range(p.shape[0]), range(p.shape[1]))
    return np.array([of_f[i, j] @ tails[i, j][fewest] @ of_g[j] for i, j in places]).reshape(p.shape)


CASES = [
    (16, 20, 1, 10, 2, 5, 0.05),
    (12, 12, 0, 20, 1, 3, 0.05),
    (30, 40, 3, 30, 5, 20, 0.002),
    (38, 40, 0, 30, 0, 2, 0.002),
    (25, 30, 2, 25, 20, 25, 0.2),
    (45, 60, 10, 60, 0, 6, 0.3),
    (50, 60, 2, 40, 3, 30, 0.01),
    (60, 80, 0, 20, 0, 0, 0.05),
    (99, 100, 1, 60, 1, 1, 1e-6),
    (9, 12, 1, 14, 9, 12, 0.1),
    (176, 280, 0, 15, 34, 107, 0.002),  # the bound is near the largest y: places move while it is searched
    (326, 526, 1, 10, 80, 142, 0.3),
    (7, 7, 0, 46, 4, 4, 0.002),  # with plateaus
    (29, 48, 0, 27, 17, 17, 1e-6),  # largest where x > 1 - q and y > q
    (38, 47, 5, 28, 8, 13, 0.002),
    (58, 66, 0, 5, 1, 1, 0.05),
]


def box_by_definition(k, n, f, m1, g, m0, alpha):
    """Six one-sided bounds by Clopper and Pearson, which all hold but for .02 alpha. Without replays nothing is gained."""
    counts = ((f, m1), (g, m0), (k, n))
    return [bound(*c, alpha * 0.02 / 6) if c[1] else 0.0 for c in counts for bound in (lower_edge, upper_edge)]


def most_below(k, n, f, m1, g, m0, observed):
    """What a bound may be below its definition: the search ends between two q that are two tolerances apart. And the grid of q."""
    half_width = k / n * (1 - f / m1) + (1 - k / n) * g / max(m0, 1) - observed
    return 2 * min(1e-4, 0.02 * half_width) + 2e-6


@pytest.mark.parametrize("counts", CASES)
def test_is_buehlers_bound_by_brute_force(counts):
    k, n, f, m1, g, m0, alpha = counts
    order = ordering_by_definition(n, m1, m0, alpha)
    good, box = order >= order[k, f, g] - 1e-10, box_by_definition(*counts)
    bound = joint_lower(*counts)
    assert bound > 0.1
    points = 30 if n < 100 else 24  # with 12 the oracle misses a little of the largest chance
    assert largest_chance(good, bound, box, points) <= 0.98 * alpha
    assert largest_chance(good, bound + most_below(*counts[:6], order[k, f, g]), box, points) > 0.98 * alpha


@pytest.mark.parametrize("seed", range(6))
def test_random_counts_have_buehlers_bound(seed):
    """Never above it, and where the grids of the oracle are fine enough not further below than the search may end."""
    rng, below = np.random.default_rng(seed), []
    while len(below) < 8:
        n, m1, m0 = (int(rng.integers(least, most)) for least, most in ((4, 60), (2, 40), (0, 25)))
        k, f = rng.binomial(n, rng.uniform(0.3, 1) ** 0.4), rng.binomial(m1, rng.random() ** 3 * 0.5)
        g, alpha = rng.binomial(m0, rng.random() ** 1.5), float(rng.choice([0.5, 0.2, 0.05, 0.002, 1e-6]))
        order = ordering_by_definition(n, m1, m0, min(alpha, 0.4))
        bound = joint_lower(k, n, f, m1, g, m0, alpha)
        if order[k, f, g] == -1:
            assert bound == 0
            continue
        good, box = order >= order[k, f, g] - 1e-10, box_by_definition(k, n, f, m1, g, m0, alpha)
        assert largest_chance(good, bound, box, points=16) <= 0.98 * alpha
        above = bound + most_below(k, n, f, m1, g, m0, order[k, f, g])
        below.append(largest_chance(good, above, box, points=16) > 0.98 * alpha)
    assert sum(below) >= 7


def lower_edge(count, trials, error):
    return stats.beta.ppf(error, count, trials - count + 1) if count > 0 else 0.0


def upper_edge(count, trials, error):
    return stats.beta.isf(error, count + 1, trials - count) if count < trials else 1.0


@pytest.mark.parametrize(("n", "m1", "m0", "alpha"), [(20, 8, 4, 0.2), (9, 14, 6, 0.05), (12, 7, 12, 0.002)])
def test_the_ordering_is_monotone(n, m1, m0, alpha):
    order = ordering_by_definition(n, m1, m0, alpha)
    assert np.diff(order, axis=0).min() >= 0
    assert np.diff(order, axis=1).max() <= 0
    assert np.diff(order, axis=2).min() >= 0


@pytest.mark.parametrize(
    ("n", "m1", "m0", "alpha"),
    [
        (20, 8, 4, 0.2),
        (12, 10, 10, 0.2),
        (30, 12, 2, 0.05),
        (25, 10, 5, 0.05),
        (10, 20, 3, 0.2),
        (40, 8, 0, 0.05),
        (8, 5, 20, 0.3),
    ],
)
def test_exact_coverage(n, m1, m0, alpha):
    """Summed over all outcomes, from p near 0 to p near 1, rare and frequent flips, and x + y > 1."""
    k, f, g = np.arange(n + 1), np.arange(m1 + 1), np.arange(m0 + 1)
    bounds = joint_lower(k[:, None, None], n, f[:, None], m1, g, m0, alpha)
    shares = np.array([0, 1e-3, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 0.999, 1])
    rates = np.array([0, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 0.95, 1])
    of_k = stats.binom.pmf(k[:, None], n, shares)
    of_f, of_g = stats.binom.pmf(f[:, None], m1, rates), stats.binom.pmf(g[:, None], m0, rates)
    worst = 0.0
    for (i, p), (a, x), (b, y) in itertools.product(enumerate(shares), enumerate(rates), enumerate(rates)):
        missed = bounds > p * (1 - x) + (1 - p) * y
        worst = max(worst, of_k[:, i] @ (missed @ of_g[:, b]) @ of_f[:, a])
    assert 0.9 * alpha <= worst <= alpha + 1e-9


@pytest.mark.parametrize(("p", "x", "y"), [(0.9, 0.004, 0.03), (0.995, 0.01, 0.2), (0.6, 0.1, 0.1)])
def test_seeded_coverage_at_sizes_in_use(p, x, y):
    rng = np.random.default_rng(11)
    n, m1, m0, alpha, draws = 2_000, 160, 40, 0.05, 1_000
    k, f, g = rng.binomial(n, p, size=draws), rng.binomial(m1, x, size=draws), rng.binomial(m0, y, size=draws)
    misses = int((joint_lower(k, n, f, m1, g, m0, alpha) > p * (1 - x) + (1 - p) * y).sum())
    assert misses <= stats.binom.isf(1e-6, draws, alpha)


sizes = st.tuples(st.integers(1, 20_000), st.integers(1, 800), st.integers(0, 300))
shares = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(sizes, shares, st.sampled_from([1e-9, 0.002, 0.05, 0.3, 0.9]))
def test_laws(size, share, alpha):
    n, m1, m0 = size
    # Mostly many votes and few flips, where bounds are not trivial.
    k, f, g = n - round(share[0] ** 2 * n), round(share[1] ** 3 * m1), round(share[2] ** 2 * m0)
    bound = joint_lower(k, n, f, m1, g, m0, alpha)
    x_low, _, _, y_high, _, p_high = box_by_definition(k, n, f, m1, g, m0, alpha)
    # At the ends of the box two of the three counts are as good as observed, but for .02 / 6 alpha each.
    of_losses = clopper_pearson_lower(m1 - f, m1, alpha)
    assert 0 <= bound <= p_high * of_losses + (1 - p_high) * y_high + 1e-12
    of_votes = clopper_pearson_lower(k, n, alpha)
    assert bound <= of_votes * (1 - x_low) + (1 - of_votes) * y_high + 1e-12
    assert joint_lower(k, n, f, m1, 0, m0, alpha) <= of_votes  # y = 0 is allowed
    assert joint_lower(k, n, f, m1, 0, 0, alpha) <= of_votes


def test_rises_with_the_votes():
    """Of the probability this is a law. Of the bound it is not, as its box moves with the counts; but it hardly moves in k."""
    k = np.arange(150, 201, 5)
    for f, g in ((0, 0), (2, 3), (9, 1)):
        assert np.diff(joint_lower(k, 200, f, 100, g, 30, 0.01)).min() >= -1e-4


def test_corners():
    assert joint_lower(90, 100, 0, 0, 5, 10, 0.01) == 0  # nothing replayed where f voted for the class
    assert joint_lower(90, 100, 9, 9, 5, 10, 0.01) == 0  # everything lost
    assert joint_lower(0, 100, 0, 10, 0, 10, 0.01) == 0
    assert joint_lower(100, 100, 60, 100, 0, 10, 0.01) == 0  # less than half is kept
    alone = 0.00196 ** (1 / 1_000)  # p = 1: (1 - x)^1000 = .98 alpha
    assert alone - 0.02 * (1 - alone) - 2e-6 <= joint_lower(10**6, 10**6, 0, 1_000, 0, 0, 0.002) <= alone
    for counts in itertools.product((0, 1), (1,), (0, 1), (1,), (0, 1), (1,), (1e-12, 0.5, 0.999)):
        assert 0 <= joint_lower(*counts) <= 1
    assert 0 < joint_lower(10**6, 10**6, 0, 50_000, 1, 1, 1e-9) < 1


def test_broadcasts_and_gives_floats_for_scalars():
    bounds = joint_lower([[80], [90]], 100, [0, 1, 2], 50, 1, 10, 0.05)
    assert bounds.shape == (2, 3)
    assert bounds[1, 2] == joint_lower(90, 100, 2, 50, 1, 10, 0.05)
    assert isinstance(joint_lower(90, 100, 2, 50, 1, 10, 0.05), float)
    assert joint_lower(np.empty(0), 100, np.empty(0), 10, 0, 0, 0.05).shape == (0,)


@pytest.mark.parametrize(
    "counts", [(11, 10, 1, 2, 0, 0), (5, 10, 3, 2, 0, 0), (5, 10, 1, 0, 0, 1), (5, 10, 1, 2, 1, 0), (5, 10, 1, 2, 2, 1)]
)
def test_refuses_impossible_counts(counts):
    with pytest.raises(ValueError, match="expected"):
        joint_lower(*counts, 0.01)


@pytest.mark.parametrize(("n", "m1", "m0"), [(50, 20, 10), (10_000, 800, 200), (1_000_000, 4_000, 1_000)])
def test_chance_is_an_upper_bound_and_tight(n, m1, m0):
    rng = np.random.default_rng(n)
    f, g = np.arange(m1 // 2 + 1)[:, None], np.arange(m0 // 2 + 1)
    for _ in range(8):
        p, x, y = rng.uniform(0.5, 1), rng.uniform(0, 0.2), rng.uniform(0, 0.2)
        # A plane of outcomes through the middle of the distribution and up to four deviations above it.
        value = p * (1 - x) + (1 - p) * y + rng.uniform(-1, 4) / math.sqrt(n)
        fewest = np.ceil(n * (value - g / m0) / (1 - f / m1 - g / m0 + 1e-9)).clip(0, n + 1).astype(np.int64)
        fewest = np.minimum.accumulate(np.maximum.accumulate(fewest, axis=0), axis=1)
        # More f than the table has count like its last; more g, half of all, are all as good as the outcome.
        all_f = np.arange(m1 + 1)
        tails = stats.binom.sf(fewest[np.minimum(all_f, m1 // 2)] - 1, n, p)
        exact = float(stats.binom.pmf(all_f, m1, x) @ tails @ stats.binom.pmf(g, m0, y))
        missing = stats.binom.sf(m0 // 2, m0, y)
        found = log_chance(Outcomes(fewest, 0, 0, n, m1, m0, math.log(0.002)), p, x, y)
        assert math.log(exact + missing * 0.999) - 1e-10 <= found
        assert found <= math.log(exact * 1.003 + 3 * missing + 4e-4 * 0.002) + 1e-8


def test_chance_stays_an_upper_bound_where_it_underflows():
    outcomes = Outcomes(np.full((21, 1), 400, np.int64), 0, 0, 400, 20, 0, math.log(0.002))
    assert log_chance(outcomes, 0.15, 0.01, 0.0) >= 400 * math.log(0.15)  # -759: not a number that exp can take


@pytest.mark.parametrize(
    "counts", [(1, 1, 273, 2_742, 4, 286, 1e-6), (2, 2, 0, 115, 2, 2, 1e-30), (5, 5, 0, 154, 0, 0, 1e-30)]
)
def test_few_votes_and_many_replays_at_a_small_error(counts: tuple[float, ...]) -> None:
    """A box that reaches down to 0 has a bound, if hardly any."""
    assert 0 <= joint_lower(*counts) < 0.01
