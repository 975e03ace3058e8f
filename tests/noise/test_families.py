"""What every family of noise must keep, over all that are registered and one that only tests know."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import recert
from recert.noise import (
    Noise,
    Stream,
    available_noises,
    checked_noise,
    noise_with_spec,
    parse_noise,
    register_noise,
    registry,
)
from recert.noise.stream import NoisyRows, perturb, perturb_into
from recert.report import Result
from recert.report.page import render_page
from tests.noise.laplace import TestLaplace

EXAMPLES: dict[str, tuple[Noise, Noise, object]] = {
    "gaussian": (recert.Gaussian(0.5), recert.Gaussian(0.25), stats.norm),
    "gaussian on a grid": (recert.Gaussian(0.5, grid=1 / 1024), recert.Gaussian(0.25, grid=1 / 1024), stats.norm),
    "laplace": (recert.Laplace(0.5), recert.Laplace(0.25), stats.laplace),
    "splitting": (recert.Splitting(0.5), recert.Splitting(0.25), stats.uniform(-1, 2)),
    "uniform": (recert.Uniform(0.5), recert.Uniform(0.25), stats.uniform(-1, 2)),
    "test-laplace": (TestLaplace(0.5), TestLaplace(0.25), stats.laplace),
}
"""Of every family a noise, one of half its scale, and the distribution at scale 1."""
EXACT = {"gaussian on a grid": 1e-5}
"""How closely radii follow the formula, where not to the last digits: on a grid some 1e-9 of every probability is left out."""


@pytest.fixture(autouse=True)
def laplace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FAMILIES", dict(registry._FAMILIES))
    register_noise("test-laplace", TestLaplace.parse)


@pytest.fixture(params=sorted(EXAMPLES))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_family_has_an_example() -> None:
    assert set(available_noises()) == {noise.spec.partition(":")[0] for noise, _, _ in EXAMPLES.values()}


def test_a_spec_is_read_back(family: str) -> None:
    noise, half, _ = EXAMPLES[family]
    for each in (noise, half):
        assert each.spec.partition(":")[0] in available_noises()
        assert parse_noise(each.spec) == noise_with_spec(each.spec) == each
        assert hash(parse_noise(each.spec)) == hash(each)
        assert checked_noise(each) is each
    assert noise != half
    assert half.scale == noise.scale / 2
    assert noise.norm in ("l1", "l2")
    with pytest.raises(ValueError, match="expected a noise"):
        checked_noise(type(noise))  # a class has no scale


def test_radii_grow_with_the_lead_and_with_the_scale(family: str) -> None:
    noise, half, _ = EXAMPLES[family]
    p = np.linspace(0.501, 0.9999, 200)
    radii = noise.radius(p)
    assert (np.diff(radii) > 0).all()
    assert half.radius(p) == pytest.approx(radii / 2, rel=EXACT.get(family, 1e-12))
    assert noise.radius(p, 1 - p) == pytest.approx(radii, rel=1e-12)
    assert (noise.radius(p, (1 - p) / 2) > radii).all(), "a rival with less than the class leaves"
    assert isinstance(noise.radius(0.9), float)


def test_no_lead_no_radius(family: str) -> None:
    noise = EXAMPLES[family][0]
    assert noise.radius([0.0, 0.2, 0.5, 1.0], [0.0, 0.2, 0.5, 1.0]).tolist() == [0, 0, 0, 0]
    assert noise.radius([0.3, 0.4], [0.4, 0.7]).tolist() == [0, 0]
    assert noise.radius([0.0, 0.3, 0.5]).tolist() == [0, 0, 0]


def test_certain_votes_have_the_largest_radius_there_is(family: str) -> None:
    """A probability of 1, or a rival of 0: no end, or that of the noise; never what is no number."""
    noise = EXAMPLES[family][0]
    largest = noise.radius(1.0)
    assert noise.radius(0.999) < largest
    assert noise.radius(1.0, 0.0) == largest
    for p, q in ((0.9, 0.0), (1.0, 0.001), (0.3, 0.0)):
        assert noise.radius(p, max(q, 1e-6)) <= noise.radius(p, q) <= largest


def test_plans_expect_what_is_certified(family: str) -> None:
    """On the plan's scale 1/2 is 0, a probability and what it leaves are opposite, and radii are those of the bounds."""
    noise = EXAMPLES[family][0]
    p, q = np.linspace(0.51, 0.9999, 50), np.linspace(0.4, 1e-4, 50)
    assert noise.plan_scale(np.array([0.5])).tolist() == [0]
    assert (np.diff(noise.plan_scale(p)) > 0).all()
    assert noise.plan_scale(1 - p) == pytest.approx(-noise.plan_scale(p), rel=1e-9)
    planned = noise.planned_radius(noise.plan_scale(p), noise.plan_scale(1 - q))
    assert planned == pytest.approx(noise.radius(p, q), rel=EXACT.get(family, 1e-9))
    assert noise.planned_radius(np.array([-1.0]), np.array([0.5])).tolist() == [0]


def wanted(count: int) -> tuple[torch.Tensor, np.ndarray, NoisyRows]:
    inputs = torch.arange(2 * 7).reshape(2, 7) / 16
    numbers = np.arange(count, dtype=np.int64)
    return (
        inputs,
        np.array([3, 2**63 + 9], dtype=np.uint64),
        NoisyRows(numbers % 2, numbers // 2, np.full_like(numbers, 1)),
    )


def test_implementations_give_the_same_bits(family: str) -> None:
    noise = EXAMPLES[family][0]
    inputs, keys, rows = wanted(300)
    on_cpu = perturb(inputs, keys, rows, noise)
    arrays = (rows.rows, keys.view(np.int64), rows.samples, rows.streams)
    out = torch.empty_like(on_cpu)
    perturb_into(out, inputs, *map(torch.from_numpy, arrays), noise)  # by plain torch
    assert torch.equal(on_cpu, out)


def test_the_noise_has_the_distribution_and_the_scale_that_it_says(family: str) -> None:
    noise, _, distribution = EXAMPLES[family]
    inputs, keys, rows = wanted(20_000)
    added = (perturb(inputs, keys, rows, noise) - inputs[torch.from_numpy(rows.rows)]).numpy().ravel()
    assert stats.kstest(added / noise.scale, distribution.cdf).pvalue > 1e-3  # type: ignore[attr-defined]


class Ramp(torch.nn.Module):
    """Class 1 where the first coordinate is positive."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.tensor(shift))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([-(x[:, 0] + self.shift), x[:, 0] + self.shift], dim=1)


@pytest.mark.parametrize("method", ["auto", "series", "joint", "paired", "irs", "scratch"])
def test_everything_works_with_any_noise(family: str, method: str, tmp_path: Path) -> None:
    """Certify, re-certify and plan in the family's norm, against the probability in closed form; stores know their noise."""
    noise, other, distribution = EXAMPLES[family]
    x = np.stack([np.arange(1, 17) / 16 * noise.scale * 2, np.zeros(16)], axis=1).astype(np.float32)
    cache = recert.certify(Ramp().eval(), x, noise=noise, samples=2_000, selection_samples=200, store=tmp_path)
    assert recert.Cache.open(tmp_path).manifest.noise == noise
    with pytest.raises(recert.errors.ContextMismatch, match="noise"):
        recert.certify(Ramp().eval(), x, noise=other, samples=2_000, store=tmp_path)
    modified = Ramp(0.01).eval()
    result = recert.recertify(modified, x, tmp_path, samples=300, method=method)
    for found, shift in ((cache.certificates, 0.0), (result, 0.01)):
        truth = noise.radius(distribution.cdf((x[:, 0] + np.float32(shift)) / noise.scale))  # type: ignore[attr-defined]
        assert set(found.norm) == {noise.norm}
        assert found.certified.sum() > 8
        assert (found.radius[found.certified] < truth[found.certified]).all()
        assert (found.radius[found.certified] > 0.3 * truth[found.certified]).mean() > 0.8
    assert Stream.ESTIMATION in recert.open_source(modified, x, noise=noise, seed=0).streams
    assert recert.audit(Ramp().eval(), x, tmp_path, samples=40).wrong.sum() == 0


def test_other_verbs_work_with_any_noise(family: str) -> None:
    """Predicting, plans, decisions at a radius, requests, proxies and comparing: none claims more than what is true."""
    noise = EXAMPLES[family][0]
    x = np.stack([np.arange(1, 17) / 16 * noise.scale * 2, np.zeros(16)], axis=1).astype(np.float32)
    model, modified, ones = Ramp().eval(), Ramp(0.01).eval(), np.ones(16, int)

    def truth(shift: float) -> np.ndarray:
        return x[:, 0].astype(float) + shift  # the distance to the boundary, along an axis and so in every norm

    assert recert.predict(model, x, noise=noise, samples=500).prediction[8:].tolist() == [1] * 8
    cache = recert.certify(model, x, noise=noise, samples=1_000, selection_samples=200)
    radius = 0.3 * noise.scale
    found = {
        "plan": recert.certify(model, x, noise=noise, samples=500, plan="acr").certificates,
        "at": recert.certify(model, x, noise=noise, samples=1_000, at=radius),
        "proxy": recert.certify_by_proxy(
            model, x, proxy=modified, noise=noise, samples=1_000, transfer=300
        ).certificates,
        "accuracy": recert.recertify(modified, x, cache, samples=300, plan=f"accuracy:{radius}"),
        "at from a cache": recert.recertify(modified, x, cache, samples=500, at=radius),
    }
    for name, result in found.items():
        allowed = truth(0.01 if name in ("accuracy", "at from a cache") else 0.0)
        assert result.certified.sum() >= 6, name
        assert (result.radius[result.certified] <= allowed[result.certified]).all(), name
        assert noise.norm in result.guarantee, name
    answers = recert.Smoothed(model, noise, samples=500, seed=1).answers(x, radius=True)
    assert (answers.radius > 0).sum() >= 8
    assert (answers.radius < truth(0.0)).all()
    curves = recert.compare(modified, x, cache, ones, budgets=[100, 300], methods=["auto", "irs"]).methods
    assert all(curve.radii[-1] > 0 for curve in curves.values())


def test_select_works_with_any_noise(family: str) -> None:
    noise = EXAMPLES[family][0]
    x = np.stack([np.arange(1, 13) / 16, np.zeros(12)], axis=1).astype(np.float32)
    cache = recert.certify(Ramp().eval(), x, noise=noise, samples=1_000, selection_samples=200)
    candidates = {"near": Ramp(0.001).eval(), "far": Ramp(-3.0).eval()}
    chosen = recert.select(
        candidates, x, cache, np.ones(12, int), metric="acr", tolerance=0.1, cost={"near": 2.0, "far": 1.0}
    )
    assert chosen.winner == "near"
    assert chosen.certificates is not None
    assert set(chosen.certificates.norm) == {noise.norm}


def test_reports_name_the_norm(family: str) -> None:
    noise = EXAMPLES[family][0]
    votes = (np.random.default_rng(0).random((6, 1_000)) < 0.9).astype(int)
    stored = recert.StoredVotes(votes, selection=votes[:, :100], classes=2)
    cache = recert.certify(stored, None, noise=noise, samples=1_000, selection_samples=100)
    page = render_page([Result("base", cache.certificates)], [0.1])
    assert f"within this {noise.norm} distance of the input" in page
    assert noise.spec in page


def test_names_of_families_are_checked() -> None:
    for name, message in (("gaussian", "which is taken"), ("Big Noise", "small letters")):
        with pytest.raises(ValueError, match=message):
            register_noise(name, TestLaplace.parse)
    with pytest.raises(ValueError, match="known families: gaussian, laplace, splitting, uniform, test-laplace"):
        parse_noise("cauchy:1")
    with pytest.raises(ValueError, match="as it writes itself"):
        noise_with_spec("gaussian:0.50")
    assert noise_with_spec("gaussian:1").spec == "gaussian:1", "a cache made with Gaussian(1) keeps its context"
