"""Radii against 50 digits; always rounded down."""

import mpmath
import numpy as np
import pytest

from recert import Gaussian

mpmath.mp.dps = 50


def quantile(p: float) -> mpmath.mpf:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)


@pytest.mark.parametrize("p", [0.5 + 1e-12, 0.500001, 0.51, 0.6, 0.8, 0.99, 0.999, 0.999931, 1 - 1e-9, 1 - 1e-15])
@pytest.mark.parametrize("sigma", [0.12, 0.25, 1.0])
def test_one_sided_is_never_above_and_hardly_below(p: float, sigma: float) -> None:
    exact = mpmath.mpf(float(np.float32(sigma))) * quantile(p)  # the noise that is drawn has the scale as a float32
    radius = Gaussian(sigma).radius(p)
    assert exact * (1 - mpmath.mpf("3e-14")) < radius <= exact


@pytest.mark.parametrize(
    ("p", "q"), [(0.4, 0.3), (0.35, 0.3499), (0.9, 0.05), (0.51, 0.49), (0.999, 1e-6), (1e-3, 1e-9)]
)
def test_two_sided_is_never_above_and_hardly_below(p: float, q: float) -> None:
    exact = (quantile(p) - quantile(q)) / 4
    radius = Gaussian(0.5).radius(p, q)
    assert exact - mpmath.mpf("1e-12") < radius <= exact


@pytest.mark.parametrize("q", [0.5, 0.499, 1e-3])
def test_two_sided_is_never_above_in_the_last_digit(q: float) -> None:
    """A rival at one half has a quantile of 0, so that nothing but the quantile of the class is rounded."""
    leaders = np.random.default_rng(0).uniform(0.51, 1, 60)
    for p, radius in zip(leaders, Gaussian(0.5).radius(leaders, q), strict=True):
        exact = (quantile(float(p)) - quantile(q)) / 4
        assert exact * (1 - mpmath.mpf("5e-14")) < mpmath.mpf(float(radius)) <= exact


def test_no_radius_without_a_lead() -> None:
    assert Gaussian(1.0).radius([0.0, 0.3, 0.5]).tolist() == [0, 0, 0]
    assert Gaussian(1.0).radius([0.3, 0.3], [0.3, 0.4]).tolist() == [0, 0]
    assert Gaussian(1.0).radius([0.0, 1.0, 0.5], [0.0, 1.0, 0.5]).tolist() == [0, 0, 0]


def test_two_sided_with_the_trivial_rival_is_one_sided() -> None:
    p = np.linspace(0.51, 0.999, 50)
    assert Gaussian(0.5).radius(p, 1 - p).tolist() == Gaussian(0.5).radius(p).tolist()
    nearly = np.nextafter(1 - p, 0)  # another formula, since the class leaves a little more
    assert Gaussian(0.5).radius(p, nearly) == pytest.approx(Gaussian(0.5).radius(p), rel=1e-12)


def test_the_smallest_and_the_largest_scale() -> None:
    """float32 holds both of them, and beyond it nothing is accepted."""
    for sigma in (1e-30, 1e30, 1):
        assert Gaussian(sigma).scale == pytest.approx(sigma, rel=1e-7)
    for sigma in (np.nextafter(1e-30, 0), np.nextafter(1e30, np.inf)):
        with pytest.raises(ValueError, match="from 1e-30 to 1e30"):
            Gaussian(float(sigma))
