"""Seeded coverage of the whole procedures under each noise, at alpha = .05: half-spaces across an axis, whose true radius is known.

The distance to such a half-space is the same in every norm, and by that distance the smoothed class changes. Every input has noise of its
own, so that inputs of one geometry are independent trials. A miss is a false claim: the wrong class, or a radius beyond the distance.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.stats import binomtest

import recert
from tests.halfspaces import HalfSpace

TRIALS, ALPHA = 2_000, 0.05


@dataclass(frozen=True)
class Case:
    """A noise, the distribution of one element at scale 1, and steps per unit: where inputs lie, and half-way where boundaries do."""

    noise: recert.Noise
    law: object
    steps: int

    def plane(self, distance: float) -> HalfSpace:
        """Votes 1 at distance on the side of the inputs, which have 0 as their first element."""
        return HalfSpace([1, 0, 0], -(np.floor(distance * self.steps) + 0.5) / self.steps)

    def distance(self, probability: float) -> float:
        return float(self.noise.scale * self.law.ppf(probability))  # type: ignore[attr-defined]


CASES = {
    "laplace": Case(recert.Laplace(0.5), stats.laplace, 1_000),
    "uniform": Case(recert.Uniform(0.5), stats.uniform(-1, 2), 1_000),
    "splitting": Case(recert.Splitting(0.5), stats.uniform(-1, 2), 1_000),
    "gaussian on a grid": Case(recert.Gaussian(0.5, grid=1 / 16), stats.norm, 16),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def inputs(case: Case) -> np.ndarray:
    """Different only in elements at which no half-space looks."""
    others = np.stack(np.unravel_index(np.arange(TRIALS), (40, TRIALS // 40)), axis=1)
    return np.concatenate([np.zeros((TRIALS, 1)), others / case.steps], axis=1).astype(np.float32)


def misses(result: recert.Certificates, truth: HalfSpace) -> int:
    distance = -float(truth.offset)
    return claims_that_are_false(result, int(distance > 0), abs(distance))


def claims_that_are_false(result: recert.Certificates, prediction: int, distance: float) -> int:
    """Another class, or a radius beyond the distance at which the smoothed class changes."""
    return int(np.sum(result.certified & ((result.prediction != prediction) | (result.radius > distance))))


def too_many(missed: int) -> bool:
    """More than alpha, beyond what chance allows (one in a thousand)."""
    return bool(binomtest(missed, TRIALS, ALPHA, alternative="greater").pvalue < 1e-3)


@pytest.mark.parametrize(("probability", "certificate"), [(0.6, "two-sided"), (0.95, "one-sided")])
def test_certify(case: Case, probability: float, certificate: str) -> None:
    truth = case.plane(case.distance(probability))
    cache = recert.certify(
        truth,
        inputs(case),
        noise=case.noise,
        samples=200,
        selection_samples=20,
        alpha=ALPHA,
        seed=7,
        certificate=certificate,
    )
    assert not too_many(misses(cache.certificates, truth))
    if certificate == "one-sided":
        # The test can fail, and the radius is no smaller than it needs to be: with a bound that errs five times as often it is too large.
        assert too_many(misses(cache.certify(alpha=5 * ALPHA), truth))


@lru_cache
def cached(name: str) -> recert.Cache:
    """Votes of the original, which all methods re-certify from."""
    case = CASES[name]
    original = case.plane(case.distance(0.9))
    return recert.certify(
        original, inputs(case), noise=case.noise, samples=250, selection_samples=30, alpha=0.01, seed=19
    )


@pytest.mark.parametrize("method", ["auto", "series", "joint", "paired", "irs", "scratch", "scratch-cached"])
@pytest.mark.parametrize("name", CASES)
def test_recertify(name: str, method: str) -> None:
    case = CASES[name]
    modified = case.plane(case.distance(0.87))
    result = recert.recertify(modified, inputs(case), cached(name), samples=60, alpha=ALPHA, method=method)
    assert result.certified.mean() > 0.3
    assert set(result.norm) == {case.noise.norm}
    missed = misses(result, modified)
    assert not too_many(
        round(missed * ALPHA / result.settings.error)
    )  # the paper's irs errs a little more often, and says so


class TwoOfMany(torch.nn.Module):
    """Class 0 where the first element is above -a, class 1 where it is below -b, and between them one of six others, by the second element.

    Moved down by r, class 0 has the probability F(a - r) and class 1 has F(r - b): they are equal at r = (a + b) / 2, in every norm.
    """

    def __init__(self, a: float, b: float) -> None:
        super().__init__()
        self.a, self.b = a, b
        self.eval()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        first, other = batch[:, 0], 2 + (batch[:, 1].double() * 7_919).floor().long() % 6
        classes = torch.where(first > -self.a, 0, torch.where(first < -self.b, 1, other))
        return torch.nn.functional.one_hot(classes, 8).float()


@pytest.mark.parametrize("method", ["certify", "auto", "series", "paired"])
def test_with_a_runner_up_and_no_majority(case: Case, method: str) -> None:
    """45% of the votes against 20%: the two-sided form claims what the class alone cannot."""
    a, b = (float(np.floor(case.distance(p) * case.steps) + 0.5) / case.steps for p in (0.45, 0.8))
    original, modified = TwoOfMany(a, b), TwoOfMany(a - 1 / case.steps, b)
    settings = {"noise": case.noise, "samples": 400, "selection_samples": 40, "seed": 37}
    if method == "certify":
        truth, result = original, recert.certify(original, inputs(case), alpha=ALPHA, **settings).certificates
    else:
        cache = recert.certify(original, inputs(case), alpha=0.01, **settings)
        truth = modified
        result = recert.recertify(modified, inputs(case), cache, samples=150, alpha=ALPHA, method=method)
    assert result.certified.mean() > 0.3
    assert result.top_lower[result.certified].max() < 0.5
    assert not too_many(claims_that_are_false(result, 0, (truth.a + truth.b) / 2))


@pytest.mark.parametrize("from_cache", [False, True], ids=["fresh", "from a cache"])
def test_is_the_radius_at_least_so_large(case: Case, from_cache: bool) -> None:
    """Asked about a radius just beyond the true one, and about one that is shown."""
    truth = case.plane(case.distance(0.85))
    distance = -float(truth.offset)
    at = [distance / 2, float(np.nextafter(distance, 9))]
    if from_cache:
        original = case.plane(case.distance(0.87))
        settings = {"noise": case.noise, "samples": 400, "selection_samples": 30, "seed": 23}
        cache = recert.certify(original, inputs(case), alpha=0.01, **settings)
        result = recert.recertify(truth, inputs(case), cache, samples=200, alpha=ALPHA, at=at)
    else:
        result = recert.certify(truth, inputs(case), noise=case.noise, samples=400, selection_samples=30, alpha=ALPHA, at=at)  # fmt: skip
    assert (result.radius >= at[0]).mean() > 0.3
    assert not too_many(misses(result, truth))


def test_answers_to_requests(case: Case) -> None:
    truth = case.plane(case.distance(0.7))
    smoothed = recert.Smoothed(
        truth, case.noise, samples=100, alpha=ALPHA, selection_samples=20, seed=5, certificate="one-sided"
    )
    answers = smoothed.answers(inputs(case), radius=True)
    false = (answers.prediction == 0) | (answers.radius > -float(truth.offset))
    assert (answers.radius > 0).mean() > 0.3
    assert not too_many(int(false.sum()))
