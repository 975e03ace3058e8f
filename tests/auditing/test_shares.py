"""The bounds on the share of wrong votes, against exact sums over all outcomes of the sampling design."""

import itertools

import numpy as np
import pytest
from scipy import stats

from recert.auditing.shares import Share, enough, share_of

ALPHA = 0.05


@pytest.mark.parametrize(("strata", "size", "drawn"), [(1, 30, 12), (2, 12, 5), (3, 8, 4), (4, 6, 6), (3, 10, 1)])
def test_exact_coverage_under_stratified_sampling_without_replacement(strata: int, size: int, drawn: int) -> None:
    """For every way to spread wrong votes over the inputs: the chance that a bound misses is at most alpha."""
    shares = [
        share_of(k, strata * drawn, strata * size, lower_alpha=ALPHA, upper_alpha=ALPHA)
        for k in range(strata * drawn + 1)
    ]
    lower, upper = np.array([s.lower for s in shares]), np.array([s.upper for s in shares])
    worst = 0.0
    for spread in itertools.combinations_with_replacement(range(size + 1), strata):
        chance = np.ones(1)
        for wrong in spread:
            chance = np.convolve(chance, stats.hypergeom.pmf(np.arange(drawn + 1), size, wrong, drawn))
        truth = sum(spread) / (strata * size)
        worst = max(worst, chance[upper < truth - 1e-12].sum(), chance[lower > truth + 1e-12].sum())
    assert worst <= ALPHA + 1e-12
    if drawn == size:
        assert worst == 0  # everything was seen
        assert np.allclose(lower, upper)


def test_zero_wrong_is_the_closed_form() -> None:
    share = share_of(0, 1000, 10**9, lower_alpha=0.001, upper_alpha=0.001)
    assert share.upper == pytest.approx(1 - 0.001 ** (1 / 1000), rel=1e-9)
    assert share.lower == 0
    assert share.most_wrong == int(share.upper * 10**9)


def test_a_wrong_vote_that_was_seen_is_certain() -> None:
    assert share_of(1, 10, 1000, lower_alpha=1e-9, upper_alpha=1e-9).lower == 1 / 1000


def test_either_bound_has_its_own_error() -> None:
    share = share_of(7, 50, 10**9, lower_alpha=0.001, upper_alpha=0.02)
    assert share.lower == pytest.approx(stats.beta.ppf(0.001, 7, 44), rel=1e-9)
    assert share.upper == pytest.approx(stats.beta.isf(0.02, 8, 43), rel=1e-9)


def test_within_one_vote_of_the_mean_hoeffding_says_nothing() -> None:
    """At an error of .9 the binomial bounds would lie on the wrong side of the share that was found."""
    assert stats.beta.ppf(0.9, 5, 6) > 0.5 > stats.beta.isf(0.9, 6, 5)
    share = share_of(5, 10, 10**9, lower_alpha=0.9, upper_alpha=0.9)
    assert (share.lower, share.upper) == (0.4, 0.6)


def test_without_a_replay_nothing_is_known() -> None:
    assert share_of(0, 0, 100, lower_alpha=0.1, upper_alpha=0.1) == Share(0, 0, 100, 0.0, 1.0)
    assert share_of(1, 1, 100, lower_alpha=0.1, upper_alpha=0.1) == Share(1, 1, 100, 0.01, 1.0)


def test_most_wrong_votes_are_whole() -> None:
    assert 0.29 * 100 < 29
    assert Share(0, 10, 100, 0.0, 0.29).most_wrong == 29
    assert Share(0, 10, 100, 0.0, 0.295).most_wrong == 29
    assert Share(0, 10, 100, 0.0, 1.0).most_wrong == 100


@pytest.mark.parametrize(("tolerate", "detect"), [(0.0, 0.01), (0.001, 0.01), (0.01, 0.005), (0.0, 0.3)])
def test_enough_is_enough(tolerate: float, detect: float) -> None:
    votes = enough(tolerate, detect, 0.0005)
    most = int(stats.binom.ppf(0.99, votes, tolerate)) if tolerate else 0
    assert stats.binom.cdf(most, votes, tolerate + detect) <= 0.0005
    if not tolerate:
        assert votes == int(np.ceil(np.log(0.0005) / np.log1p(-detect)))
