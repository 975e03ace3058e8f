"""ONNX graphs against the torch network they came from, and against graphs whose answer is known."""

import copy
import os
import pickle
import sys
from pathlib import Path

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from recert.errors import MissingExtra, UnusableModel
from recert.models import load_model
from recert.models.digest import identify
from recert.models.onnx_model import OnnxModel
from recert.models.saved import graph_model


def graph(weight: float = 2.0, batch: int | str = "batch", kind: int = TensorProto.FLOAT, inputs: int = 1) -> bytes:
    """A graph that multiplies its input (batch x 3) by one number."""
    given = [helper.make_tensor_value_info(f"x{i}", kind, [batch, 3]) for i in range(inputs)]
    result = helper.make_tensor_value_info("logits", kind, [batch, 3])
    constant = helper.make_tensor("weight", kind, [1], [weight])
    node = helper.make_node("Mul", ["x0", "weight"], ["logits"])
    whole = helper.make_graph([node], "scale", given, [result], [constant])
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString()


ROWS = torch.arange(21, dtype=torch.float32).reshape(7, 3)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    """The shipped digits network, exported as torch does it by default: weights in a file beside the graph."""
    path = tmp_path_factory.mktemp("onnx") / "digits.onnx"
    batch = torch.export.Dim("batch")
    example = torch.zeros(2, 1, 8, 8)
    torch.onnx.export(
        load_model("digits").model, (example,), path, dynamo=True, dynamic_shapes=({0: batch},), verbose=False
    )
    return path


def test_exported_digits_answer_as_torch_does(exported):
    loaded = load_model(exported)
    digits = torch.rand(33, 1, 8, 8)
    with torch.inference_mode():
        torch.testing.assert_close(loaded.model(digits), load_model("digits").model(digits), atol=1e-5, rtol=0)
    assert (loaded.name, loaded.classes, loaded.input_shape) == ("digits", 10, (1, 8, 8))
    assert "onnxruntime" in loaded.note


def test_weights_beside_the_graph_are_part_of_its_identity(exported, monkeypatch):
    side = exported.with_name("digits.onnx.data")
    assert side.is_file()
    monkeypatch.chdir(exported.parent)  # where onnxruntime would find the side file by itself
    assert load_model("digits.onnx").model.data.numel() > side.stat().st_size
    with pytest.raises(UnusableModel, match="expected a graph with its weights inside"):
        OnnxModel(exported.read_bytes())


def test_side_file_missing(exported, tmp_path):
    (tmp_path / "alone.onnx").write_bytes(exported.read_bytes())
    with pytest.raises(UnusableModel, match=r"keeps in another file, got none .* external_data=False"):
        load_model(tmp_path / "alone.onnx")


@pytest.mark.parametrize("batch", ["batch", 4, 1, 7])
def test_any_number_of_rows_with_free_and_fixed_batches(batch):
    assert torch.equal(OnnxModel(graph(batch=batch))(ROWS), 2 * ROWS)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_other_floating_types(kind):
    assert torch.equal(OnnxModel(graph(kind=kind))(ROWS).float(), 2 * ROWS)


def test_identity_follows_the_file():
    same, other = graph(2.0), graph(3.0)
    assert identify(OnnxModel(same)) == identify(OnnxModel(same))
    assert identify(OnnxModel(same)).weights != identify(OnnxModel(other)).weights


def test_copies_and_pickles_answer_alike():
    model = OnnxModel(graph()).eval()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(ROWS), model(ROWS))
        assert identify(twin) == identify(model)


BAD = {
    "integers": (graph(kind=TensorProto.INT64), "one floating-point input, got"),
    "two inputs": (graph(inputs=2), r"got \(x0: tensor\(float\), x1: tensor\(float\)\)"),
    "garbage": (b"not a graph", "onnxruntime does not open"),
    "empty": (b"", "onnxruntime does not open"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_graphs(tmp_path, bad):
    data, message = BAD[bad]
    (tmp_path / "bad.onnx").write_bytes(data)
    with pytest.raises(UnusableModel, match=message):
        load_model(tmp_path / "bad.onnx")


def test_wrong_input_shape():
    with pytest.raises(UnusableModel, match=r"expected a batch of shape \['batch', 3\], got \(2, 5\)"):
        OnnxModel(graph())(torch.zeros(2, 5))


def test_onnxruntime_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[onnx\]"):
        OnnxModel(graph())


@pytest.mark.parametrize("kind", ["onnx", "int8", "int8-twin"])
@pytest.mark.parametrize("swapped", [False, True])
def test_no_graph_in_bytes_reads_a_file(kind, swapped, tmp_path, monkeypatch):
    """onnxruntime finds such weights in the current directory, in whatever order the bytes name them; no digest would cover them."""
    monkeypatch.chdir(tmp_path)
    torch.full((1,), 3.0).numpy().tofile("w.bin")
    model = onnx.load_from_string(graph())
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    data, usual, other = model.SerializeToString(), b"\n\x08location\x12\x05w.bin", b"\x12\x05w.bin\n\x08location"
    assert usual in data
    data = data.replace(usual, other) if swapped else data
    assert onnx.load_from_string(data) == model
    with pytest.raises(UnusableModel, match="keeps them in another file"):
        graph_model(kind, data)


def test_side_file_elsewhere_is_refused(tmp_path):
    (tmp_path / "secret").write_bytes(b"\0" * 64)
    (tmp_path / "models").mkdir()
    model = onnx.load_from_string(graph())
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=os.path.join("..", "secret"))
    (tmp_path / "models" / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UnusableModel, match="keeps in another file, got none"):
        load_model(tmp_path / "models" / "m.onnx")
