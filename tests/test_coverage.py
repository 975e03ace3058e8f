"""Seeded coverage of the whole procedures on half-spaces, where the truth is known in closed form.

Every input of one call has noise of its own, so that thousands of inputs with the same geometry are thousands of
independent trials. A miss is a claim that is false: the wrong class, or a radius beyond the true one.
"""

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, norm

import recert
from recert import Certificates, Gaussian
from tests.halfspaces import HalfSpace, disparity, rotated

SIGMA = 0.5
TRIALS = 3_000


def points(x: float, y: float = 0.0, seed: int = 0, count: int = TRIALS) -> np.ndarray:
    """Inputs that differ only along a direction that no classifier here looks at."""
    along = np.random.default_rng(seed).normal(size=count)
    return np.stack([np.full(count, x), np.full(count, y), along], axis=1).astype(np.float32)


def solid(plane: HalfSpace) -> HalfSpace:
    return HalfSpace([*plane.direction.tolist(), 0.0], float(plane.offset))


def misses(result: Certificates, truth: HalfSpace, x: np.ndarray) -> int:
    distance = truth.distance(x[0])
    wrong_class = result.prediction != int(distance > 0)
    return int(np.sum(result.certified & (wrong_class | (result.radius > abs(distance)))))


def assert_covered(missed: int, alpha: float, trials: int = TRIALS) -> None:
    """Not above alpha beyond what chance allows (one in a thousand)."""
    assert binomtest(missed, trials, alpha, alternative="greater").pvalue > 1e-3, f"{missed} of {trials} at {alpha}"


def distance_for(probability: float) -> float:
    return float(SIGMA * norm.ppf(probability))


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("probability", [0.52, 0.7, 0.95, 0.999])
def test_certify(probability: float, alpha: float, certificate: str) -> None:
    truth, x = solid(rotated(0.0)), points(distance_for(probability))
    cache = recert.certify(
        truth, x, noise=Gaussian(SIGMA), samples=200, selection_samples=20, alpha=alpha, seed=7, certificate=certificate
    )
    assert_covered(misses(cache.certificates, truth, x), alpha)


def test_certify_misses_about_as_often_as_allowed() -> None:
    """The test above can fail: with a bound that claims five times the error it does."""
    truth, x = solid(rotated(0.0)), points(distance_for(0.95))
    cache = recert.certify(truth, x, noise=Gaussian(SIGMA), samples=200, selection_samples=20, alpha=0.05, seed=7)
    too_bold = misses(cache.certify(alpha=0.25), truth, x)
    assert binomtest(too_bold, TRIALS, 0.05, alternative="greater").pvalue < 1e-6


class ThreeBands(torch.nn.Module):
    """Class by the first coordinate: below 0, up to `edge`, above."""

    def __init__(self, edge: float) -> None:
        super().__init__()
        self.register_buffer("edge", torch.tensor(edge))
        self.eval()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        value = batch[:, 0]
        return torch.stack([value < 0, (value >= 0) & (value < self.edge), value >= self.edge], dim=1).float()


def test_two_sided_bounds_hold_jointly_without_a_majority() -> None:
    """Three classes, none with half of the votes: the lower and the upper bound fail together at most alpha often."""
    x = points(0.3)
    cache = recert.certify(
        ThreeBands(0.6),
        x,
        noise=Gaussian(SIGMA),
        samples=400,
        selection_samples=50,
        alpha=0.05,
        seed=3,
        certificate="two-sided",
    )
    p = np.array([norm.cdf(-0.6), norm.cdf(0.6) - norm.cdf(-0.6), norm.cdf(-0.6)])
    result = cache.certificates
    middle = result.certified & (result.prediction == 1)
    false = middle & ((result.top_lower > p[1]) | (result.runner_up_upper < p[0]))
    false |= result.certified & (result.prediction != 1)
    assert middle.mean() > 0.5
    assert_covered(int(false.sum()), 0.05)


@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("probability", [0.505, 0.55, 0.7])
def test_predict(probability: float, alpha: float) -> None:
    truth, x = solid(rotated(0.0)), points(distance_for(probability))
    result = recert.predict(truth, x, noise=Gaussian(SIGMA), samples=100, alpha=alpha, seed=5)
    assert_covered(int((result.prediction == 0).sum()), alpha)


# (probability under f, angle between the boundaries, second coordinate): agreeing, slightly turned, and far apart
PAIRS = [(0.7, 0.0, 0.0), (0.8, 0.05, -1.0), (0.9, 0.3, 0.0), (0.985, 0.1, -1.0), (0.97, 0.6, -0.5), (0.75, -0.2, 0.5)]


@pytest.mark.parametrize("form", ["exact", "paper"])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize(("probability", "angle", "height"), PAIRS)
def test_recertify_by_irs(probability: float, angle: float, height: float, alpha: float, form: str) -> None:
    """The threshold lies where both branches are taken, so that the switch on the cached votes is put to the test."""
    original, modified = solid(rotated(0.0)), solid(rotated(angle))
    x = points(distance_for(probability), height)
    cache = recert.certify(
        original, x, noise=Gaussian(SIGMA), samples=400, selection_samples=20, alpha=alpha / 2, seed=11
    )
    threshold = float(np.median(cache.certificates.top_lower))
    result = recert.recertify(modified, x, cache, samples=150, alpha=alpha, method=recert.Irs(threshold, form))
    assert 0 < result.replayed.astype(bool).mean() < 1
    assert result.settings.error == pytest.approx(alpha if form == "exact" else 1.5 * alpha)
    assert_covered(misses(result, modified, x), result.settings.error)


OUR_WAYS = [
    ("series", "uniform"),
    ("series", "acr"),
    ("paired", "uniform"),
    ("joint", "acr"),
    ("auto", "acr"),
    ("auto", "accuracy:0.3"),
]


@pytest.mark.parametrize(("method", "plan"), OUR_WAYS)
@pytest.mark.parametrize(("probability", "angle", "height"), PAIRS[1:5])
def test_recertify_our_way(probability: float, angle: float, height: float, method: str, plan: str) -> None:
    """The whole procedure: class and budget from the selection votes, flips from a pilot, replays, bounds."""
    original, modified = solid(rotated(0.0)), solid(rotated(angle))
    x = points(distance_for(probability), height)
    alpha = 0.05
    cache = recert.certify(original, x, noise=Gaussian(SIGMA), samples=400, selection_samples=30, alpha=0.01, seed=19)
    for certificate in ("one-sided", "two-sided"):
        result = recert.recertify(
            modified, x, cache, samples=60, alpha=alpha, method=method, plan=plan, certificate=certificate
        )
        assert result.settings.error == alpha
        assert result.mean_forward_passes <= 66
        assert_covered(misses(result, modified, x), alpha)


@pytest.mark.parametrize("method", ["series", "paired", "joint", "auto"])
@pytest.mark.parametrize("shift", [0.0, 0.05, -0.05])
def test_recertify_with_the_runner_up_holds_jointly(shift: float, method: str) -> None:
    """Three classes, none with half of the votes; the modified model moves one border."""
    x = points(0.3)
    cache = recert.certify(
        ThreeBands(0.6), x, noise=Gaussian(SIGMA), samples=400, selection_samples=50, alpha=0.01, seed=23
    )
    modified = ThreeBands(0.6 + shift)
    result = recert.recertify(modified, x, cache, samples=200, alpha=0.05, method=method, plan="uniform")
    p = np.array([norm.cdf(-0.6), norm.cdf((0.3 + shift) / SIGMA) - norm.cdf(-0.6), norm.sf((0.3 + shift) / SIGMA)])
    middle = result.certified & (result.prediction == 1)
    false = middle & ((result.top_lower > p[1]) | (result.runner_up_upper < max(p[0], p[2])))
    false |= result.certified & (result.prediction != 1) & (p[np.maximum(result.prediction, 0)] < p.max())
    assert middle.mean() > 0.02
    assert_covered(int(false.sum()), 0.05)


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
def test_recertify_where_flips_are_rare(certificate: str) -> None:
    """Where the pilot sees hardly a flip, an ordering that punishes them is chosen; the bounds hold for those that have some."""
    rng = np.random.default_rng(29)
    p, kept, gained = 0.95, 0.9997, 0.002
    base = (rng.random((TRIALS, 1_300), dtype=np.float32) < p).astype(np.uint8)
    stays = rng.random(base.shape, dtype=np.float32)
    changed = np.where(base == 1, stays < kept, stays < gained).astype(np.uint8)
    original, modified = (
        recert.StoredVotes(votes[:, 300:], selection=votes[:, :300], classes=2) for votes in (base, changed)
    )
    cache = recert.certify(
        original, None, noise=Gaussian(SIGMA), samples=1_000, selection_samples=300, certificate=certificate
    )
    result = recert.recertify(modified, None, cache, samples=200, alpha=0.01)
    assert (result.method == "few-flips").mean() > 0.3
    truth = p * kept + (1 - p) * gained
    assert_covered(int(np.sum(result.certified & (result.top_lower > truth))), 0.01)


@pytest.mark.parametrize("method", [recert.Scratch(20), "scratch-cached"], ids=["scratch", "scratch-cached"])
@pytest.mark.parametrize(("probability", "angle", "height"), PAIRS[1:4])
def test_recertify_from_scratch(probability: float, angle: float, height: float, method: str | recert.Method) -> None:
    original, modified = solid(rotated(0.0)), solid(rotated(angle))
    x = points(distance_for(probability), height)
    cache = recert.certify(original, x, noise=Gaussian(SIGMA), samples=400, selection_samples=20, alpha=0.01, seed=13)
    result = recert.recertify(modified, x, cache, samples=150, alpha=0.05, method=method)
    assert_covered(misses(result, modified, x), 0.05)


@pytest.mark.parametrize(("probability", "angle", "height"), PAIRS)
def test_disparity_equals_its_closed_form(probability: float, angle: float, height: float) -> None:
    original, modified = solid(rotated(0.0)), solid(rotated(angle))
    x = points(distance_for(probability), height, count=500)
    cache = recert.certify(original, x, noise=Gaussian(SIGMA), samples=400, selection_samples=100, alpha=0.01, seed=17)
    result = recert.recertify(modified, x, cache, samples=400, alpha=0.02, method=recert.Irs(reuse_threshold=1.0))
    flips, replays = int(result.lost.sum()), int(result.replayed.sum())
    assert replays == 500 * 400
    if angle == 0:
        assert flips == 0
    else:
        assert binomtest(flips, replays, disparity(original, modified, x[0], SIGMA)).pvalue > 1e-3
