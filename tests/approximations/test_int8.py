"""Int8 is really int8: in the file, and in the kernels."""

import copy
import logging
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

import recert
from recert.approximations import Calibration, approximate
from recert.approximations import int8 as int8_module

from .conftest import NOISE, answers, calibration, images, made, trained


@pytest.fixture(scope="module")
def graph() -> onnx.GraphProto:
    return onnx.load_from_string(made("int8").model.content).graph


def test_every_layer_reads_integers(graph: onnx.GraphProto) -> None:
    made_by = {name: node for node in graph.node for name in node.output}
    weights = {tensor.name: tensor for tensor in graph.initializer}
    layers = [node for node in graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    assert len(layers) == 5
    for layer in layers:
        x, weight, *bias = (made_by[name] for name in layer.input)
        assert {x.op_type, weight.op_type, *(b.op_type for b in bias)} == {"DequantizeLinear"}
        assert made_by[x.input[0]].op_type == "QuantizeLinear"
        integers = weights[weight.input[0]]
        assert integers.data_type == onnx.TensorProto.INT8
        axis = next(a.i for a in weight.attribute if a.name == "axis")
        scales = weights[weight.input[1]]
        assert (axis, list(scales.dims)) == (0, [integers.dims[0]])  # one scale per output channel
        assert weights[x.input[2]].data_type == onnx.TensorProto.UINT8
        assert not np.any(numpy_helper.to_array(weights[weight.input[2]]))


def test_weights_are_the_nearest_integers(graph: onnx.GraphProto) -> None:
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    integers = next(v for k, v in tensors.items() if k.endswith("last.weight_quantized"))
    scales = next(v for k, v in tensors.items() if k.endswith("last.weight_scale"))
    weight = trained().last.weight.detach().numpy()
    np.testing.assert_allclose(scales, np.abs(weight).max(axis=1) / 127, rtol=1e-5)
    np.testing.assert_array_equal(integers, np.rint(weight / scales[:, None]))


def test_logits_are_not_quantised(graph: onnx.GraphProto, noisy: torch.Tensor) -> None:
    assert next(node for node in graph.node if graph.output[0].name in node.output).op_type == "Gemm"
    assert len(answers(made("int8").model, noisy[:1024]).unique()) > 3000


def test_kernels_are_int8() -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(Path(folder, "optimised.onnx"))
        options.log_severity_level = 4
        onnxruntime.InferenceSession(made("int8").model.content, options, providers=["CPUExecutionProvider"])
        kernels = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    assert kernels.count("QLinearConv") == 4
    assert kernels.count("QGemm") == 1
    assert not {"Conv", "Gemm", "MatMul", "FusedConv"} & set(kernels)


def test_file_holds_no_paths() -> None:
    assert str(Path(__file__).parent).encode() not in made("int8").model.content


def test_facts_say_what_ran() -> None:
    facts = made("int8").facts
    assert facts["kernels"] == "onnxruntime int8"
    assert facts["quantised"] == "4 Conv, 1 Gemm"
    assert int(facts["scales"]) > 10
    assert facts["onnxruntime"] == onnxruntime.__version__
    assert made("int8-twin").facts["kernels"] == "fake-quant twin"


def test_disagreement_with_float_is_small(noisy: torch.Tensor) -> None:
    labels = [answers(model, noisy).argmax(1) for model in (trained(), made("int8").model)]
    share = (labels[0] != labels[1]).float().mean()
    print(f"int8 against float: {share:.3%} of {len(noisy)}")
    assert 0 < share < 0.02


def test_copies_and_pickles_open_their_own_session(noisy: torch.Tensor) -> None:
    model = made("int8").model
    expected = answers(model, noisy[:32])
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin._session is None
        assert torch.equal(answers(twin, noisy[:32]), expected)


def test_any_batch_size(noisy: torch.Tensor) -> None:
    model = made("int8").model
    whole = answers(model, noisy[:100])
    for size in (1, 7, 50):
        pieces = torch.cat([answers(model, rows) for rows in noisy[:100].split(size)])
        torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-5)


def test_other_devices_are_refused() -> None:
    with pytest.raises(recert.RecertError, match=r"expected a batch on the CPU, .* got one on meta; use int8-twin"):
        made("int8").model(torch.empty(2, 3, 8, 8, device="meta"))


class Attention(nn.Module):
    """Patches that look at each other, with the small weights of a fresh vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 2, 2)
        self.keys, self.out = nn.Linear(16, 48), nn.Linear(16, 4)
        nn.init.normal_(self.keys.weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.patches(x).flatten(2).transpose(1, 2)
        query, key, value = self.keys(rows).unsqueeze(1).chunk(3, dim=-1)  # one head
        return self.out((rows + F.scaled_dot_product_attention(query, key, value).squeeze(1)).mean(1))


def test_attention_is_left_in_float(noisy: torch.Tensor) -> None:
    torch.manual_seed(0)
    net = Attention().eval()
    int8 = approximate(net, "int8", calibration=calibration())
    twin = approximate(net, "int8-twin", calibration=calibration())
    assert (int8.facts["quantised"], int8.facts["in_float32"]) == ("1 Conv, 1 Gemm, 1 MatMul", "2 MatMul")
    logits = answers(int8.model, noisy[:256])
    torch.testing.assert_close(logits, answers(twin.model, noisy[:256]), rtol=0, atol=0.01)
    assert (logits - answers(net, noisy[:256])).abs().max() < 0.1


def test_kernels_that_do_not_follow_the_file_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert float(made("int8").facts["kernels_off_by"].split()[0]) < 0.05
    monkeypatch.setattr(int8_module, "kernel_gap", lambda content, rows: (2.0, 1.0))
    with pytest.warns(UserWarning, match=r"fused int8 kernels differ from the quantised file by 2, .* int8-twin"):
        approximate(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), "int8", calibration=calibration())


def test_half_precision_models_can_be_quantised() -> None:
    result = approximate(copy.deepcopy(trained()).bfloat16(), "int8", calibration=calibration())
    assert result.facts["quantised"] == "4 Conv, 1 Gemm"


def test_nothing_to_quantise() -> None:
    with pytest.raises(recert.RecertError, match="expected convolutions or linear layers to quantise"):
        approximate(nn.Flatten(), "int8", calibration=calibration())


def test_what_cannot_be_exported_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1) if x.sum() > 0 else -x.flatten(1)

    with pytest.raises(
        recert.RecertError, match=r"expected a model that torch\.onnx\.export can trace .*GuardOnData.*;"
    ) as caught:
        approximate(Branches(), "int8", calibration=calibration())
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime.quantization", None)  # makes the import fail
    with pytest.raises(recert.RecertError, match=r"onnxruntime.* could not be imported .* pip install .*\[onnx\]'"):
        approximate(trained(), "int8", calibration=calibration())


def test_quantising_says_nothing_and_leaves_logging_alone(capfd: pytest.CaptureFixture[str]) -> None:
    disabled = logging.root.manager.disable
    one = Calibration(images(1, seed=9)[0], NOISE)  # and a single row is enough
    approximate(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), "int8", calibration=one)
    assert capfd.readouterr() == ("", "")
    assert logging.root.manager.disable == disabled
