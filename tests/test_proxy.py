"""A fast network draws the votes; the claim is about the slow one, at the error that was asked for."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recert
from recert.data import load_data
from recert.errors import UnusableModel
from recert.models import load_model
from recert.models.digest import identify
from recert.models.inference import prepare
from recert.noise import Gaussian
from recert.proxy import proxy_of
from tests.halfspaces import HalfSpace
from tests.test_coverage import assert_covered, misses, points

NOISE = Gaussian(0.5)


def test_the_certificates_are_about_the_named_model() -> None:
    model, data = load_model("digits:0.5").model, load_data("digits", count=6)
    done = recert.certify_by_proxy(model, data.inputs, noise=NOISE, samples=3_000, proxy="bf16")
    direct = recert.certify(model, data.inputs, noise=NOISE, samples=3_000).certificates
    assert done.certificates.settings.model == {
        "weights": identify(model).weights,
        "structure": identify(model).structure,
    }
    assert done.certificates.settings.alpha == done.certificates.settings.error == 0.001
    assert "faster network (bf16)" in done.certificates.guarantee
    assert done.cache.manifest.model != identify(model)
    ours, theirs = (c.average_certified_radius(data.labels) for c in (done.certificates, direct))
    assert 0.8 * theirs < ours <= 1.02 * theirs
    assert done.certificates.mean_forward_passes < 0.15 * 3_000


class Opposite(nn.Module):
    """Votes for the other class."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Tensor) -> Tensor:
        return -self.model(batch)


def test_a_proxy_that_disagrees_costs_radius_not_soundness() -> None:
    x = points(0.4, count=50)
    model = HalfSpace([1.0, 0.0, 0.0], 0.0)
    done = recert.certify_by_proxy(model, x, noise=NOISE, samples=2_000, proxy=Opposite(model).eval(), transfer=400)
    assert misses(done.certificates, model, x) == 0


@pytest.mark.parametrize("shift", [-0.03, 0.03])
@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
def test_coverage_of_the_whole_procedure(shift: float, certificate: str) -> None:
    """A half-space whose proxy is a shifted one: how often a claim is false."""
    x, alpha = points(0.3), 0.05
    model, proxy = HalfSpace([1.0, 0.0, 0.0], 0.0), HalfSpace([1.0, 0.0, 0.0], shift)
    done = recert.certify_by_proxy(
        model, x, noise=NOISE, samples=400, alpha=alpha, proxy=proxy, transfer=100, certificate=certificate
    )
    assert done.certificates.certified.any()
    assert_covered(misses(done.certificates, model, x), alpha)


def test_prepared_models_get_a_prepared_proxy() -> None:
    model = prepare(load_model("digits").model, precision="fp32")
    stand_in, name = proxy_of(model, "bf16", np.zeros((2, 1, 8, 8), np.float32), NOISE, 0)
    assert stand_in.inference.precision == "bf16"
    assert name.startswith("bf16")
    assert next(stand_in.parameters()).dtype == torch.bfloat16

    other, name = proxy_of(model, "prune:0.5", np.zeros((2, 1, 8, 8), np.float32), NOISE, 0)
    assert name == "prune:0.5"
    assert next(other.parameters()).dtype == torch.float32


class NeverAsked(nn.Module):
    def forward(self, batch: Tensor) -> Tensor:
        raise AssertionError("the proxy was asked")


def test_a_model_that_cannot_be_certified_is_refused_before_the_proxy_has_drawn() -> None:
    x = np.zeros((1, 4), np.float32)
    with pytest.raises(UnusableModel, match="eval"):
        recert.certify_by_proxy(nn.Dropout().train(), x, noise=NOISE, samples=100, proxy=NeverAsked().eval())


@pytest.mark.parametrize(("samples", "transfer"), [(400, 100), (1_000, 100), (2_004, 200), (2_006, 201)])
def test_the_model_gives_a_tenth_of_the_votes_unless_told(samples: int, transfer: int) -> None:
    x, model = points(0.4, count=2), HalfSpace([1.0, 0.0, 0.0], 0.0)
    done = recert.certify_by_proxy(model, x, noise=NOISE, samples=samples, proxy=HalfSpace([1.0, 0.0, 0.0], 0.01))
    assert (done.certificates.settings.samples, done.cache.manifest.samples) == (transfer, samples)


def test_bad_proxies() -> None:
    x = np.zeros((1, 4), np.float32)
    with pytest.raises(ValueError, match="pass the proxy as a model"):
        recert.certify_by_proxy(lambda batch: batch, x, noise=NOISE, samples=100, proxy="bf16")
    with pytest.raises(ValueError, match="got votes"):
        recert.certify_by_proxy(recert.StoredVotes(np.zeros((1, 50), int)), None, noise=NOISE, samples=50, proxy="bf16")
    with pytest.raises(ValueError, match="known approximations"):
        recert.certify_by_proxy(
            load_model("digits").model, np.zeros((1, 1, 8, 8), np.float32), noise=NOISE, samples=100, proxy="int4"
        )
