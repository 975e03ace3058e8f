"""Half precision against torch's own rounding."""

import copy
import warnings

import pytest
import torch
from torch import nn

import recert
from recert.approximations import approximate

from .conftest import answers, made, trained

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


@pytest.mark.parametrize("name", DTYPES)
def test_weights_are_torchs_rounding(name: str) -> None:
    computed, weights = made(name).model.state_dict(), made(f"{name}-weights").model.state_dict()
    for key, tensor in trained().state_dict().items():
        expected = tensor.to(DTYPES[name]) if tensor.is_floating_point() else tensor
        assert torch.equal(computed[key], expected)
        assert torch.equal(weights[key], expected.to(tensor.dtype))
        assert weights[key].dtype == tensor.dtype


@pytest.mark.parametrize("name", DTYPES)
def test_computes_in_the_dtype_it_names(name: str, noisy: torch.Tensor) -> None:
    batch = noisy[:64]
    seen: list[torch.dtype] = []
    model = copy.deepcopy(made(name).model)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(lambda *given: seen.append(given[2].dtype))
    answers(model, batch)
    assert set(seen) == {DTYPES[name]}
    expected = answers(copy.deepcopy(trained()).to(DTYPES[name]), batch)
    assert torch.equal(answers(model, batch), expected)
    rounded = answers(made(f"{name}-weights").model, batch)
    assert not torch.equal(rounded, expected)


def test_fp16_on_a_cpu_says_that_it_is_slow() -> None:
    with pytest.warns(UserWarning, match="fp16-weights"):
        result = approximate(trained(), "fp16")
    assert "slower than float32 on a CPU" in result.description


def test_others_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for spec in ("bf16", "fp16-weights", "bf16-weights", "prune:0.1"):
            assert approximate(trained(), spec).description


def test_weights_beyond_the_range_of_fp16_are_refused() -> None:
    large = copy.deepcopy(trained())
    with torch.no_grad():
        large.last.weight[0, 0] = 1e5
    with pytest.raises(recert.RecertError, match=r"last\.weight has values beyond the range of float16 .*; use bf16"):
        approximate(large, "fp16-weights")
    assert approximate(large, "bf16-weights").model.last.weight.isfinite().all()
