"""Layers by name: exactly those that are named are changed. Files are read with onnx, weights with torch."""

import onnx
import pytest
import torch
from onnx import numpy_helper

import recert
from recert.approximations import approximate, steps
from recert.approximations.rules import candidates
from tests.approximations.conftest import calibration, images, made, trained

LAYERS = {"stem", "block.first", "block.second", "down", "last"}


def quantised_layers(spec: str) -> set[str]:
    """Layers whose weights are 8-bit integers in the file."""
    graph = onnx.load_from_string(made(spec).model.content).graph
    integers = {i.name for i in graph.initializer if i.data_type == onnx.TensorProto.INT8 and len(i.dims) > 1}
    weights = {
        n.output[0]: n.input[0] for n in graph.node if n.op_type == "DequantizeLinear" and n.input[0] in integers
    }
    layers = [n for n in graph.node if n.op_type in ("Conv", "Gemm", "MatMul")]
    return {weights[n.input[1]].removeprefix("model.").partition(".weight")[0] for n in layers if n.input[1] in weights}


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("!stem", LAYERS - {"stem"}),
        ("!stem,!last", LAYERS - {"stem", "last"}),
        ("block", {"block.first", "block.second"}),
        ("block.*,!block.second", {"block.first"}),
        ("*st", {"last", "block.first"}),
        ("last", {"last"}),
    ],
)
def test_int8_of_exactly_these_layers(patterns: str, expected: set[str]) -> None:
    assert quantised_layers(f"int8[{patterns}]") == expected


def test_nothing_beside_a_layer_that_is_left_out_is_rounded() -> None:
    """Of a file with the last layer alone in integers, one activation is: what that layer reads."""
    graph = onnx.load_from_string(made("int8[last]").model.content).graph
    made_by = {name: node for node in graph.node for name in node.output}
    last = next(node for node in graph.node if node.op_type in ("Gemm", "MatMul"))
    quantised = [n for n in graph.node if n.op_type == "QuantizeLinear"]
    assert [n.output[0] for n in quantised] == [made_by[last.input[0]].input[0]]
    graph = onnx.load_from_string(made("int8[stem]").model.content).graph
    stem = next(node for node in graph.node if node.op_type == "Conv")
    made_by = {name: node for node in graph.node for name in node.output}
    quantised = {n.input[0] for n in graph.node if n.op_type == "QuantizeLinear"}
    assert quantised == {made_by[made_by[stem.input[0]].input[0]].input[0], stem.output[0]}
    whole = onnx.load_from_string(made("int8").model.content).graph
    assert sum(n.op_type == "QuantizeLinear" for n in whole.node) > 6


def test_float_weights_of_other_layers_are_those_of_the_model() -> None:
    graph = onnx.load_from_string(made("int8[!down]").model.content).graph
    arrays = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    assert (arrays["model.down.weight"] == trained().down.weight.detach().numpy()).all()


@pytest.mark.parametrize("kind", ["prune:0.5", "prune-layer:0.5", "fp16-weights", "bf16-weights"])
@pytest.mark.parametrize(
    ("patterns", "expected"), [("block", {"block.first", "block.second"}), ("!block,!down", {"stem", "last"})]
)
def test_weights_of_exactly_these_layers(kind: str, patterns: str, expected: set[str]) -> None:
    before, after = trained().state_dict(), made(f"{kind}[{patterns}]").model.state_dict()
    changed = {name.removesuffix(".weight") for name in before if not torch.equal(before[name], after[name])}
    assert changed & LAYERS == expected
    if kind == "prune:0.5":
        values = torch.cat([after[f"{name}.weight"].flatten() for name in sorted(expected)])
        assert int((values == 0).sum()) == round(0.5 * values.numel())


def test_in_a_chain_each_step_has_its_own() -> None:
    assert steps("prune:0.3[!last]+int8[!stem]") == ["prune:0.3[!last]", "int8[!stem]"]
    assert quantised_layers("prune:0.3[!last]+int8[!stem]") == LAYERS - {"stem"}


def test_bytes_follow() -> None:
    size = {spec: made(spec).model.data.numel() for spec in ("int8", "int8[!down]")}
    extra = trained().down.weight.numel() * 3  # four bytes instead of one
    assert 0.5 * extra < size["int8[!down]"] - size["int8"] < 1.5 * extra


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("int8[nothing]", "got 'nothing' .* the layers are stem, block.first, block.second, down, last"),
        ("prune:0.5[!nothing]", "got 'nothing' .* the layers are stem, block.first, block.second, down, last"),
        ("fp16-weights[fc]", "the layers are .*stem"),
        ("int8[!*]", "leaves none"),
        ("fp16[stem]", "expected fp16 for all layers"),
        ("halved[stem]", "expected halved for all layers"),
        ("int8[]", "expected names of layers"),
        ("int8[st em]", "expected names of layers"),
        ("int8[!!stem]", "expected names of layers"),
    ],
)
def test_bad_patterns(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        approximate(trained(), spec, calibration=calibration(), example_input=images(4, seed=3)[0])


def test_layers_that_share_a_weight_are_meant_together() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4)).eval()
    net[2].weight = net[0].weight
    with pytest.raises(ValueError, match="share a weight"):
        approximate(net, "prune:0.5[0]")
    assert int((approximate(net, "prune:0.5[0,2]").model[2].weight == 0).sum()) == 8


def test_an_approximation_of_a_users_own_may_know_layers() -> None:
    def flipped(
        model: torch.nn.Module, argument: str | None, context: recert.approximations.Context
    ) -> torch.nn.Module:
        for name in context.chosen(["stem", "last"]):
            model.get_submodule(name).weight.data.neg_()
        return model

    recert.register_approximation("flipped", flipped, by_layer=True)
    before, after = trained(), approximate(trained(), "flipped[last]").model
    assert torch.equal(after.last.weight, -before.last.weight)
    assert torch.equal(after.stem.weight, before.stem.weight)


def test_candidates_by_rule() -> None:
    assert candidates("prune:0.1..0.6/0.1+int8") == [f"prune:0.{i}+int8" for i in range(1, 7)]
    assert candidates("prune:0.25..0.3/0.025") == ["prune:0.25", "prune:0.275", "prune:0.3"]
    assert candidates("a:1..2/1[x]+b:3..4/1") == ["a:1[x]+b:3", "a:1[x]+b:4", "a:2[x]+b:3", "a:2[x]+b:4"]
    assert candidates("int8[!stem,!last],../my model.onnx, ,bf16") == ["int8[!stem,!last]", "../my model.onnx", "bf16"]
    for bad in ("prune:0.5..0.1/0.1", "prune:0.1..0.5/0", "prune:0..1/0.001", "a:1..30/1+b:1..30/1"):
        with pytest.raises(ValueError, match=r"range like|at most 500"):
            candidates(bad)
