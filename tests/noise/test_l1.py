"""Laplace, uniform and splitting noise: radii against 50 digits, the worst case of the norm, tails, and scales."""

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from recert import Laplace, Splitting, Uniform
from recert.noise import on_cpu
from recert.noise.stream import NoisyRows, perturb

mpmath.mp.dps = 50
FAMILIES = {"laplace": Laplace, "uniform": Uniform, "splitting": Splitting}


def quantile(family: str, p: float) -> mpmath.mpf:
    exact = mpmath.mpf(p)
    if family != "laplace":
        return 2 * exact - 1
    return mpmath.log(2 * exact) if p < 0.5 else -mpmath.log(2 * (1 - exact))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("p", [0.5 + 1e-12, 0.500001, 0.51, 0.6, 0.8, 0.99, 0.999, 0.999931, 1 - 1e-9, 1 - 1e-15])
@pytest.mark.parametrize("scale", [0.12, 0.25, 1.0])
def test_one_sided_is_never_above_and_hardly_below(family: str, p: float, scale: float) -> None:
    exact = mpmath.mpf(float(np.float32(scale))) * quantile(family, p)  # noise is drawn with the scale as a float32
    radius = FAMILIES[family](scale).radius(p)
    assert exact * (1 - mpmath.mpf("3e-14")) < radius <= exact


@pytest.mark.parametrize("family", FAMILIES)
def test_two_sided_is_never_above_and_hardly_below(family: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 1, 300)
    q = rng.uniform(0, 1, 300) * np.minimum(p, 1 - p)
    q[:50] = p[:50] * (1 - 1e-6)  # hardly a lead
    for top, rival, radius in zip(p, q, FAMILIES[family](0.3).radius(p, q), strict=True):
        exact = mpmath.mpf(float(np.float32(0.3))) / 2 * (quantile(family, top) - quantile(family, rival))
        assert exact - mpmath.mpf("2e-13") < radius <= exact


def test_the_laplace_radius_is_the_published_one_or_larger() -> None:
    """Teng et al. (2020): the larger of b/2 log(p/q) and -b log(1 - p + q)."""
    for p, q in ((0.4, 0.3), (0.6, 0.1), (0.9, 0.05), (0.999, 1e-6), (0.7, 0.3)):
        published = max(np.log(p / q) / 2, -np.log(1 - p + q))
        radius = Laplace(1.0).radius(p, q)
        assert radius >= published * (1 - 1e-12)
        assert (radius == pytest.approx(published)) == (p <= 0.5 or q == pytest.approx(1 - p))


LAWS = {"laplace": stats.laplace(), "uniform": stats.uniform(-1, 2)}
SHAPES = {
    "across an axis": lambda z: z[:, 0],
    "across the diagonal": lambda z: z.sum(axis=1),
    "oblique": lambda z: z @ [0.9, 0.3],
    "a square": lambda z: np.abs(z).max(axis=1),
    "a diamond": lambda z: np.abs(z).sum(axis=1),
    "a strip": lambda z: np.abs(z[:, 0] - 0.3),
}


@pytest.mark.parametrize("family", LAWS)
@pytest.mark.parametrize("p", [0.1, 0.6, 0.95])
def test_no_event_loses_more_than_the_theorem_says(family: str, p: float) -> None:
    """Events of probability p in the plane, moved by vectors of one l1 norm: half-spaces across an axis alone lose all that is allowed."""
    law, norm = LAWS[family], 0.4
    points = law.rvs(size=(100_000, 2), random_state=np.random.default_rng(3))
    allowed = law.cdf(law.ppf(p) - norm)
    left = {}
    for name, score in SHAPES.items():
        edge = np.quantile(score(points), p)
        moves = [np.array([share, 1 - share]) * norm for share in (1.0, 0.5, 0.2)]
        left[name] = min(float((score(points + move) <= edge).mean()) for move in moves)
    assert min(left.values()) > allowed - 0.006
    assert left["across an axis"] == pytest.approx(allowed, abs=0.006)


def drawn(noise: Laplace | Uniform, count: int) -> np.ndarray:
    """Elements of the noise of one input."""
    numbers = np.arange(count // 64)
    wanted = NoisyRows(numbers * 0, numbers, numbers * 0 + 1)
    return perturb(torch.zeros(1, 64), np.array([9], np.uint64), wanted, noise).numpy().ravel().astype(float)


def test_laplace_has_its_moments_tails_and_signs() -> None:
    z = drawn(Laplace(1.0), 2**20)
    assert abs(z.mean()) < 4 * np.sqrt(2 / z.size)
    assert stats.kstest(z, "laplace").pvalue > 1e-3
    assert stats.binomtest(int((np.abs(z) > 9).sum()), z.size, np.exp(-9)).pvalue > 1e-3
    assert stats.binomtest(int((z[np.abs(z) > 5] > 0).sum()), int((np.abs(z) > 5).sum()), 0.5).pvalue > 1e-3


def test_laplace_against_the_logarithm_of_numpy() -> None:
    words = np.array(
        [on_cpu.philox4x32(np.array([b, 3, 0, 1], np.uint32), np.array([9, 0], np.uint32)) for b in range(16)]
    )
    exact = -np.log((words.ravel() // 2 + 0.5) / 2**31) * np.where(words.ravel() % 2, -1, 1)
    assert drawn(Laplace(1.0), 64 * 4).reshape(4, 64)[3] == pytest.approx(exact, abs=3e-6)


def test_uniform_stays_within_its_width_and_reaches_the_ends() -> None:
    z = drawn(Uniform(0.5), 2**20)
    assert stats.kstest(z, stats.uniform(-0.5, 1).cdf).pvalue > 1e-3
    assert 0.4999 < z.max() <= 0.5
    assert -0.5 <= z.min() < -0.4999
    assert len(np.unique(z)) > 0.8 * z.size  # 2^23 different numbers


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), "0.5", True])
def test_bad_scales(family: str, scale: object) -> None:
    with pytest.raises(ValueError, match="expected a finite noise scale"):
        FAMILIES[family](scale)  # type: ignore[arg-type]


def test_a_certain_class_has_no_end_with_laplace_and_the_width_with_uniform() -> None:
    assert Laplace(0.5).radius(1.0) == np.inf
    assert 0.5 * (1 - 1e-13) < Uniform(0.5).radius(1.0) <= 0.5
