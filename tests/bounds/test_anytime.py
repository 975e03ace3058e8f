"""Evidence at any time: its error summed over all outcomes, its values against many digits, and what the proofs rest on."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy import stats

from recert.bounds.anytime import log_evidence_above, log_evidence_of_change, log_evidence_of_share, reached

SHARES, SHARE_WEIGHTS = np.array([0.72, 0.8, 0.9, 0.99, 1.0]), np.array([0.1, 0.2, 0.3, 0.2, 0.2])
STAKES, STAKE_WEIGHTS = np.array([0.2, 0.5, 0.9, 1.0]), np.array([0.25, 0.25, 0.25, 0.25])


def ever(p: float, trials: int, crossed: Callable[[np.ndarray, int], np.ndarray]) -> float:
    """P(the counts of a coin cross at any of so many times), exactly: by the law of counts that have not crossed yet."""
    law, total = np.zeros(trials + 1), 0.0
    law[0] = 1.0
    for n in range(1, trials + 1):
        law = law * (1 - p) + np.concatenate([[0.0], law[:-1]]) * p
        over = crossed(np.arange(trials + 1), n) & (np.arange(trials + 1) <= n)
        total += law[over].sum()
        law[over] = 0.0
    return total


@pytest.mark.parametrize("p", [0.3, 0.6, 0.69, 0.7])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_a_share_is_never_shown_too_high_more_often_than_alpha(p: float, alpha: float) -> None:
    def crossed(k: np.ndarray, n: int) -> np.ndarray:
        return reached(log_evidence_above(np.minimum(k, n), n, 0.7, SHARES, SHARE_WEIGHTS), alpha)

    error = ever(p, 400, crossed)
    assert error <= alpha
    if p == 0.7:  # nearly all of it: half of alpha would be a waste, twice as much a mistake that this notices
        assert error > 0.45 * alpha


@pytest.mark.parametrize(("p", "a", "b"), [(0.7, 1.0, 1.0), (0.7, 40.0, 10.0), (0.05, 1.0, 8.0)])
def test_a_lower_bound_that_moves_is_never_too_high_more_often_than_alpha(p: float, a: float, b: float) -> None:
    error = ever(p, 400, lambda k, n: reached(log_evidence_of_share(np.minimum(k, n), n, p, a, b), 0.1))
    assert 0.02 < error <= 0.1


def test_evidence_falls_with_the_threshold_up_to_the_share() -> None:
    """So that if it is reached for any threshold above the truth, it is for the truth."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        n = int(rng.integers(1, 500))
        k = int(rng.integers(0, n + 1))
        thresholds = np.linspace(1e-6, 1 - 1e-6, 400)
        values = log_evidence_of_share(k, n, thresholds, *rng.uniform(0.3, 60, 2))
        below = thresholds * n < k
        assert np.all(np.isneginf(values[~below]))
        falling = values[below]
        assert np.all(np.diff(falling) <= 1e-9 * (1 + np.abs(falling[1:])))


def ever_changed(lost: float, gained: float, slack: float, trials: int, alpha: float) -> float:
    """The same for noises that lose, gain, or neither."""
    law, total = np.zeros((trials + 1, trials + 1)), 0.0
    law[0, 0] = 1.0
    f, g = np.mgrid[: trials + 1, : trials + 1]
    for n in range(1, trials + 1):
        new = law * (1 - lost - gained)
        new[1:] += law[:-1] * lost
        new[:, 1:] += law[:, :-1] * gained
        possible = f + g <= n
        values = log_evidence_of_change(np.maximum(n - f - g, 0), f, g, slack, STAKES, STAKE_WEIGHTS)
        over = reached(values, alpha) & possible
        total += new[over].sum()
        law = np.where(over, 0.0, new)
    return total


@pytest.mark.parametrize(("lost", "gained"), [(0.2, 0.0), (0.25, 0.05), (0.4, 0.2), (0.5, 0.1), (0.6, 0.4)])
def test_a_change_is_never_shown_too_small_more_often_than_alpha(lost: float, gained: float) -> None:
    """The truth loses `lost - gained`, at least the slack of .2."""
    error = ever_changed(lost, gained, 0.2, 60, 0.1)
    assert error <= 0.1
    if lost - gained == 0.2:
        assert error > 0.03


def test_evidence_of_change_grows_with_the_slack() -> None:
    """So that a lower bound on the slack may stand for it."""
    rng = np.random.default_rng(2)
    slack = np.linspace(1e-6, 1 - 1e-6, 300)
    for _ in range(100):
        z, f, g = (int(rng.integers(0, 80)) for _ in range(3))
        values = log_evidence_of_change(z, f, g, slack, STAKES, STAKE_WEIGHTS)
        assert np.all(np.diff(values) >= -1e-9 * (1 + np.abs(values[1:])))


def test_values_against_fifty_digits() -> None:
    """Never above the exact value, and hardly below it."""
    rng = np.random.default_rng(3)
    with mpmath.workdps(50):
        for _ in range(60):
            n = int(10 ** rng.uniform(0, 6))
            k = int(rng.binomial(n, rng.uniform(0.4, 1.0)))
            mixed = sum(
                mpmath.mpf(w)
                * (mpmath.mpf(s) / mpmath.mpf(0.7)) ** k
                * ((1 - mpmath.mpf(s)) / (1 - mpmath.mpf(0.7))) ** (n - k)
                for s, w in zip(SHARES.tolist(), SHARE_WEIGHTS.tolist(), strict=True)
            )
            check(float(log_evidence_above(k, n, 0.7, SHARES, SHARE_WEIGHTS)), mpmath.log(mixed), n)
            tau, a, b = float(rng.uniform(0.01, 0.99)), *(float(x) for x in rng.uniform(0.5, 300, 2))
            if tau * n < k:
                tail = mpmath.log(mpmath.beta(k + mpmath.mpf(a), n - k + mpmath.mpf(b)) / mpmath.beta(a, b))
                exact = tail - k * mpmath.log(tau) - (n - k) * mpmath.log(1 - mpmath.mpf(tau))
                check(float(log_evidence_of_share(k, n, tau, a, b)), exact, n)
            f, g, slack = int(rng.binomial(n, 0.01)), int(rng.binomial(n, 0.01)), float(rng.uniform(0.001, 0.5))
            z = max(n - f - g, 0)
            exact = mpmath.log(
                sum(
                    mpmath.mpf(w) * (1 + mpmath.mpf(u) * slack / (1 - mpmath.mpf(slack))) ** z * (1 - mpmath.mpf(u)) ** f
                    * (1 + mpmath.mpf(u) * (1 + mpmath.mpf(slack)) / (1 - mpmath.mpf(slack))) ** g
                    for u, w in zip(STAKES.tolist(), STAKE_WEIGHTS.tolist(), strict=True)
                )
            )  # fmt: skip
            check(float(log_evidence_of_change(z, f, g, slack, STAKES, STAKE_WEIGHTS)), exact, n)


def check(value: float, exact: mpmath.mpf, n: int) -> None:
    assert value <= exact
    assert value >= exact - 1e-11 * (100 + n * math.log(n + 3))


def test_one_bet_of_everything_is_a_power() -> None:
    one = np.array([1.0])
    # With nothing lost, 20 noises at a slack of .3 multiply what one has by (1 / .7)^20.
    assert float(log_evidence_of_change(20, 0, 0, 0.3, one, one)) == pytest.approx(-20 * math.log(0.7), rel=1e-9)
    assert np.isneginf(log_evidence_of_change(20, 1, 0, 0.3, one, one))
    # Against scipy: the ratio of two binomial probabilities.
    ratio = stats.binom.logpmf(8, 10, 0.9) - stats.binom.logpmf(8, 10, 0.6)
    assert float(log_evidence_above(8, 10, 0.6, np.array([0.9]), one)) == pytest.approx(ratio, rel=1e-9)


@pytest.mark.parametrize(
    ("alpha", "log", "is_it"), [(0.01, 4.6051, False), (0.01, 4.6052, True), (0.5, 0.6931, False), (0.5, 0.6932, True)]
)
def test_reached_is_one_over_alpha(alpha: float, log: float, is_it: bool) -> None:
    assert bool(reached(log, alpha)) is is_it


def test_bad_bets_are_refused() -> None:
    one = np.array([1.0])
    with pytest.raises(ValueError, match="expected shares to bet on between the threshold and 1"):
        log_evidence_above(1, 2, 0.7, np.array([0.6]), one)
    with pytest.raises(ValueError, match="expected a slack between 0 and 1"):
        log_evidence_of_change(1, 0, 0, 0.0, one, one)
    with pytest.raises(ValueError, match="expected stakes above 0 and at most 1"):
        log_evidence_of_change(1, 0, 0, 0.1, np.array([1.5]), one)
    with pytest.raises(ValueError, match="expected a > 0 and b > 0"):
        log_evidence_of_share(1, 2, 0.5, 0.0, 1.0)


def test_evidence_of_a_share_grows_with_the_votes_where_there_is_any() -> None:
    """So the rival with most votes stands for all: the others have more votes that are not for them, whatever is believed before."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        n, tau = int(rng.integers(2, 400)), rng.uniform(0.02, 0.98)
        a, b = 1 + rng.uniform(0, 50), 1 + rng.uniform(0, 50)
        evidence = log_evidence_of_share(np.arange(n + 1), n, tau, a, b)
        some = np.flatnonzero(evidence > 0)
        assert np.all(np.diff(evidence[some]) > 0)
        assert len(some) == 0 or some[-1] == n
        assert np.all(np.diff(some) == 1)
