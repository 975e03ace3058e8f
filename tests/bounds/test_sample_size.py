"""Approximate intervals against an independent formula, and the paper's figure of samples against p."""

import numpy as np
import pytest
from scipy import stats

from recert import bounds


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (50, 1_000), (999, 1_000)])
def test_wilson_solves_its_quadratic(k: int, n: int) -> None:
    """Wilson's bound is where the score test is just rejected: |k/n - p| = z sqrt(p (1 - p) / n)."""
    z = stats.norm.isf(0.01)
    for p in (bounds.wilson_lower(k, n, 0.01), bounds.wilson_upper(k, n, 0.01)):
        if 0 < p < 1:
            assert abs(k / n - p) == pytest.approx(z * np.sqrt(p * (1 - p) / n), rel=1e-9)


def test_wilson_equals_scipy() -> None:
    ours = bounds.wilson_lower(37, 120, 0.025), bounds.wilson_upper(37, 120, 0.025)
    theirs = stats.binomtest(37, 120).proportion_ci(0.95, method="wilson")
    assert ours == pytest.approx((theirs.low, theirs.high))


def test_agresti_coull_is_centred_on_wilson_and_wider() -> None:
    k, n = np.array([0, 3, 50]), 100
    middle = (bounds.wilson_lower(k, n, 0.01) + bounds.wilson_upper(k, n, 0.01)) / 2
    inner = slice(1, None)  # at k = 0 the lower bound is cut at 0
    ours = (bounds.agresti_coull_lower(k, n, 0.01) + bounds.agresti_coull_upper(k, n, 0.01)) / 2
    assert ours[inner] == pytest.approx(middle[inner])
    assert (bounds.agresti_coull_upper(k, n, 0.01) >= bounds.wilson_upper(k, n, 0.01)).all()


def test_the_papers_figures() -> None:
    """The paper: 41,500 samples at p = .05 and 216,900 at p = .5 for a target error of .5% at alpha = .01."""
    assert bounds.samples_for_width(0.05, 0.005, 0.01) == pytest.approx(41_500, abs=50)
    assert bounds.samples_for_width(0.5, 0.005, 0.01) == pytest.approx(216_900, abs=50)


@pytest.mark.parametrize("interval", list(bounds.Interval))
def test_samples_peak_at_one_half(interval: bounds.Interval) -> None:
    needed = [bounds.samples_for_width(p, 0.01, 0.01, interval) for p in (0.01, 0.1, 0.5, 0.9, 0.99)]
    assert needed[0] < needed[1] < needed[2] > needed[3] > needed[4]


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001, 1e-9])
def test_smallest_samples_to_certify(alpha: float) -> None:
    n = bounds.smallest_samples_to_certify(alpha)
    assert bounds.clopper_pearson_lower(n, n, alpha) > 0.5
    assert n == 1 or bounds.clopper_pearson_lower(n - 1, n - 1, alpha) <= 0.5
