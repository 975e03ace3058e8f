"""What every approximation promises, over one table of all of them."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import recert
from recert.approximations import approximate, available_approximations
from recert.models.digest import identify

from .conftest import CLASSES, NOISE, SPECS, SmallResNet, answers, calibration, images, made, trained

every_spec = pytest.mark.parametrize("spec", SPECS)


def test_the_table_has_every_built_in() -> None:
    built_in = {usage.partition(":")[0] for usage in available_approximations()}
    assert built_in <= {spec.partition(":")[0] for spec in SPECS}


@every_spec
def test_never_in_place(spec: str) -> None:
    made(spec)  # registers the third party's
    model = copy.deepcopy(trained()).train()
    before, identity = {k: v.clone() for k, v in model.state_dict().items()}, identify(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = approximate(model, spec, calibration=calibration(), example_input=images(4, seed=3)[0])
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert identify(model) == identity
    assert all(module.training for module in model.modules())
    ours = {tensor.data_ptr() for tensor in model.state_dict().values() if tensor.numel()}
    assert not ours & {tensor.data_ptr() for tensor in result.model.state_dict().values() if tensor.numel()}


@every_spec
def test_result_is_described(spec: str) -> None:
    result = made(spec)
    assert result.spec == spec
    assert not any(module.training for module in result.model.modules())
    assert result.description
    assert "\n" not in result.description
    assert all(isinstance(value, str) for value in result.facts.values())
    assert {"bytes", "changed", "batch_mates"} <= set(result.facts)


@every_spec
def test_something_changed(spec: str, noisy: torch.Tensor) -> None:
    model = made(spec).model
    assert identify(model).weights != identify(trained()).weights
    gap = (answers(model, noisy[:64]) - answers(trained(), noisy[:64])).abs()
    assert 0 < gap.max() < 30
    assert "weights and outputs" in made(spec).facts["changed"]


@every_spec
def test_deterministic_and_blind_to_batch_mates(spec: str, noisy: torch.Tensor) -> None:
    model, batch = made(spec).model, noisy[:32]
    first = answers(model, batch)
    assert torch.equal(first, answers(model, batch))
    assert torch.equal(first, answers(copy.deepcopy(model), batch))
    mates = torch.cat([batch[:16], 100 * batch[16:].flip(0)])
    assert torch.equal(first[:16], answers(model, mates)[:16])


@every_spec
def test_made_twice_is_the_same(spec: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = approximate(trained(), spec, calibration=calibration())
    assert identify(again.model) == identify(made(spec).model)


@every_spec
def test_the_changed_model_still_works(spec: str, noisy: torch.Tensor) -> None:
    same = answers(made(spec).model, noisy[:512]).argmax(1) == answers(trained(), noisy[:512]).argmax(1)
    assert same.float().mean() > 0.75  # one label of four is right by chance


@pytest.fixture(scope="module")
def cached() -> tuple[recert.Cache, np.ndarray]:
    inputs = images(4, seed=6)[0]
    return recert.certify(trained(), inputs, noise=NOISE, samples=400, batch_size=64), inputs


@every_spec
def test_recertifiable(spec: str, cached: tuple[recert.Cache, np.ndarray]) -> None:
    cache, inputs = cached
    result = recert.recertify(made(spec).model, inputs, cache, samples=100)
    assert (result.radius > 0).any()
    assert (cache.certificates.radius > 0).any()


def test_a_network_of_another_kind(noisy: torch.Tensor) -> None:
    dense = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, CLASSES)).eval()
    int8 = approximate(dense, "int8", calibration=calibration())
    twin = approximate(dense, "int8-twin", calibration=calibration())
    assert int8.facts["quantised"] == "2 Gemm"
    gap = (answers(int8.model, noisy[:256]) - answers(twin.model, noisy[:256])).abs()
    assert gap.max() < 0.05


def test_no_change_is_refused_by_weights() -> None:
    with pytest.raises(recert.RecertError, match="prune:1e-9 changed nothing"):
        approximate(trained(), "prune:1e-9")


def test_no_change_is_refused_by_outputs() -> None:
    class Idle(SmallResNet):
        """Has a large layer that it does not use, and whose weights are the smallest."""

        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Linear(256, 256)
            nn.init.uniform_(self.unused.weight, 1e-9, 2e-9)

    with pytest.raises(recert.RecertError, match="not a bit of the outputs"):
        approximate(Idle(), "prune:0.5", example_input=images(4, seed=3)[0])
    assert "outputs not compared" in approximate(Idle(), "prune:0.5").facts["changed"]


def test_only_modules() -> None:
    with pytest.raises(ValueError, match=r"expected a torch\.nn\.Module, got function"):
        approximate(lambda batch: batch, "bf16")  # type: ignore[arg-type]


def test_one_example_row_gets_a_mate() -> None:
    result = approximate(trained(), "bf16", example_input=images(1, seed=3)[0])
    assert "1 example inputs" in result.facts["batch_mates"]
