"""Costs against numbers worked out by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from recert import StoredVotes
from recert.approximations import Calibration, approximate
from recert.choosing import costs
from recert.choosing.costs import find_costs, nonzero_parameters, stored_bytes
from recert.choosing.onnx_weights import nonzero_in_file, zeros_save
from recert.data import load_data
from recert.models import load_model
from recert.noise import Gaussian


def layer(values: list[float], dtype: torch.dtype = torch.float32) -> nn.Module:
    made = nn.Linear(len(values), 1, bias=False)
    made.weight = nn.Parameter(torch.tensor([values], dtype=dtype))
    return made


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([0.1] * 16, torch.float32, 64),  # no narrower type holds 0.1f
        ([0.1] * 16, torch.bfloat16, 32),
        ([0.5] * 16, torch.float32, 32),  # exactly a float16
        ([3.0] * 16, torch.float32, 16),  # whole numbers below 128
        ([0.1] * 4 + [0.0] * 12, torch.float32, 4 * 4 + 2),  # four values and sixteen bits
        ([1e20] * 8, torch.float32, 32),  # beyond float16, and no bfloat16
    ],
)
def test_bytes(values: list[float], dtype: torch.dtype, expected: int) -> None:
    assert stored_bytes(layer(values, dtype)) == expected


def test_nonzero_parameters() -> None:
    assert nonzero_parameters(layer([0.0, 1.0, 2.0])) == 2
    model = load_model("digits").model
    total = sum(p.numel() for p in model.parameters())
    pruned = nonzero_parameters(approximate(model, "prune:0.5").model)
    weights = sum(p.numel() for name, p in model.named_parameters() if name.endswith("weight"))
    assert pruned == pytest.approx(total - weights / 2, abs=2)


def test_a_graph_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine weights of one byte, seven of them zero, and a scale with its zero point, which are no weights."""
    onnx = pytest.importorskip("onnx")
    named = {
        "weights": np.array([0, 1, 0, 0, 2, 0, 0, 0, 0], np.int8), "scale": np.float32(0.5), "zero": np.int8(3), "bias": np.ones(3, np.float32),
    }  # fmt: skip
    constants = [onnx.numpy_helper.from_array(np.asarray(values), name) for name, values in named.items()]
    nodes = [onnx.helper.make_node("DequantizeLinear", ["weights", "scale", "zero"], ["out"])]
    nodes.append(onnx.helper.make_node("Add", ["out", "bias"], ["sum"]))
    content = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], [], constants)).SerializeToString()
    assert nonzero_in_file(content) == 2 + 3
    assert zeros_save(content) == 9 - (2 + 2)  # two values and nine bits; the others have no zero to leave out
    monkeypatch.setattr(costs, "_files", lambda model: iter([content]))
    around = layer([0.1] * 16)
    assert (stored_bytes(around), nonzero_parameters(around)) == (64 - 5, 16 + 5)


def test_costs_are_asked_of_modules_or_given() -> None:
    models = {"a": layer([1.0, 0.0]), "b": layer([1.0, 2.0])}
    found = find_costs(models, "parameters", None)
    assert (found.values, found.unit, found.note) == (
        {"a": 1.0, "b": 2.0},
        "parameters",
        "parameters that are not zero",
    )
    found = find_costs(models, "bytes", None)
    assert (found.values, found.unit) == ({"a": 2.0, "b": 2.0}, "bytes")
    assert find_costs(models, {"a": 1, "b": 2, "c": 3}, None).values == {"a": 1.0, "b": 2.0}
    strange = {**models, "function": lambda batch: batch}
    for kind in ("bytes", "parameters"):
        with pytest.raises(
            ValueError, match=f"torch modules to find their {kind}, got function for candidate 'function'"
        ):
            find_costs(strange, kind, None)
    with pytest.raises(ValueError, match="to find their latency, got StoredVotes for candidate 'votes'"):
        find_costs({"votes": StoredVotes(np.zeros((1, 5), int))}, "latency", None)
    with pytest.raises(ValueError, match="got none for b"):
        find_costs(models, {"a": 1.0}, None)


def test_what_is_stored_once_or_is_no_float() -> None:
    """A tensor under two names, one that is no weight, and whole numbers that just fit into a byte."""
    twice = nn.Sequential(layer([0.1] * 8), nn.Identity())
    twice[1].weight = twice[0].weight
    assert stored_bytes(twice) == 32
    counter = nn.Module()
    counter.register_buffer("steps", torch.zeros(4, dtype=torch.int64))
    assert stored_bytes(counter) == 4 * 8
    assert stored_bytes(layer([127.0, -127.0] * 4)) == 8
    assert stored_bytes(layer([128.0, -128.0] * 4)) == 16
    assert stored_bytes(layer([0.0] * 9)) == 2  # nine bits


def test_an_int8_network_of_zeros_and_bytes() -> None:
    pytest.importorskip("onnxruntime")
    model = load_model("digits").model
    calibration = Calibration(load_data("digits", split="train", count=16).inputs, noise=Gaussian(0.5))
    pruned = approximate(model, "prune:0.5").model
    dense, sparse = (approximate(m, "int8", calibration=calibration).model for m in (model, pruned))
    assert stored_bytes(dense) < stored_bytes(model) / 2
    assert stored_bytes(sparse) < 0.75 * stored_bytes(dense)
    assert nonzero_parameters(sparse) < 0.55 * nonzero_parameters(dense)


def test_latency_is_measured_and_tells_slow_from_fast() -> None:
    class Slow(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            work = torch.ones(300, 300)
            for _ in range(20):
                work = work @ work / 300
            return batch.flatten(1)[:, :2] + work[0, 0]

    class Fast(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return batch.flatten(1)[:, :2]

    found = find_costs({"slow": Slow().eval(), "fast": Fast().eval()}, "latency", np.zeros((4, 1, 2, 2), np.float32))
    assert found.values["slow"] > found.values["fast"] > 0
    assert "median of" in found.note


def test_a_function_and_numbers_as_costs() -> None:
    models = {"a": layer([1.0]), "b": layer([1.0, 2.0])}
    assert find_costs(models, lambda model: model.in_features, None).values == {"a": 1.0, "b": 2.0}
    with pytest.raises(ValueError, match="finite"):
        find_costs(models, {"a": 1.0, "b": float("nan")}, None)
