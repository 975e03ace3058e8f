"""The twin against the real int8 kernels, and each of its operators against onnxruntime."""

import copy
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper

import recert
from recert.approximations.twin.module import OPERATORS, Twin

from .conftest import answers, made


def test_scales_and_zero_points_are_those_of_the_file() -> None:
    twin = made("int8-twin").model
    graph = onnx.load_from_string(made("int8").model.content).graph
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    quantisers = [node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    names = {name for node in quantisers for name in node.input[1:]}
    assert len(names) > 20
    for name in names | {name for name in tensors if name.endswith("_quantized")}:
        np.testing.assert_array_equal(twin.constant(name).numpy(), tensors[name])


def test_disagreement_with_the_kernels_is_small(noisy: torch.Tensor) -> None:
    kernels, twin = answers(made("int8").model, noisy), answers(made("int8-twin").model, noisy)
    differing = int((kernels.argmax(1) != twin.argmax(1)).sum())
    equal = (kernels == twin).all(1).float().mean()
    print(f"twin against int8: {differing} of {len(noisy)} labels differ, {equal:.1%} of the logit rows are bit-equal")
    assert len(noisy) >= 5_000
    assert differing <= 0.001 * len(noisy)
    assert equal > 0.5


def test_it_compiles_as_one_graph(noisy: torch.Tensor) -> None:
    twin = made("int8-twin").model
    whole = torch.compile(twin, backend="eager", fullgraph=True)  # raises where a graph would break
    with torch.inference_mode():
        assert torch.equal(whole(noisy[:16]), twin(noisy[:16]))


def test_it_can_be_moved_and_copied(noisy: torch.Tensor) -> None:
    twin = copy.deepcopy(made("int8-twin").model)
    assert torch.equal(answers(twin, noisy[:16]), answers(made("int8-twin").model, noisy[:16]))
    twin.to("meta")
    assert twin(noisy[:16].to("meta")).shape == (16, 4)
    assert {buffer.device.type for buffer in twin.buffers()} == {"meta"}


@pytest.mark.gpu
def test_it_gives_the_same_votes_on_a_gpu(noisy: torch.Tensor) -> None:
    twin = made("int8-twin").model
    on_gpu = answers(copy.deepcopy(twin).cuda(), noisy.cuda()).cpu()
    differing = int((answers(made("int8").model, noisy).argmax(1) != on_gpu.argmax(1)).sum())
    assert differing <= 0.001 * len(noisy)


def file_of(operator: str, x: np.ndarray, constants: list[Any], attributes: dict[str, Any], outputs: int = 1) -> bytes:
    """A file with one operator, whose first input is the batch and whose others are constants (None: left out)."""
    names = ["" if value is None else f"c{i}" for i, value in enumerate(constants)]
    node = helper.make_node(operator, ["x", *names], [f"y{i}" for i in range(outputs)], **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_empty_tensor_value_info("y0")],
        [numpy_helper.from_array(v, n) for v, n in zip(constants, names, strict=True) if v is not None],
    )
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    content: bytes = file.SerializeToString()
    return content


rng = np.random.default_rng(0)
IMAGE = rng.standard_normal((2, 4, 7, 7)).astype(np.float32)
POSITIVE = np.abs(IMAGE) + 0.1
ROWS = rng.standard_normal((3, 6)).astype(np.float32)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


CASES: list[tuple[str, np.ndarray, list[Any], dict[str, Any]]] = [
    ("Abs", IMAGE, [], {}),
    ("Add", IMAGE, [floats(1, 4, 1, 1)], {}),
    ("AveragePool", IMAGE, [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", IMAGE, [], {"kernel_shape": [3, 3], "pads": [0, 0, 1, 1], "count_include_pad": 1}),
    ("BatchNormalization", IMAGE, [floats(4), floats(4), floats(4), np.abs(floats(4))], {"epsilon": 0.01}),
    ("Cast", ROWS, [], {"to": 1}),
    ("Clip", IMAGE, [np.float32(-0.5), np.float32(0.5)], {}),
    ("Clip", IMAGE, [None, np.float32(0.5)], {}),
    ("Concat", IMAGE, [floats(2, 3, 7, 7)], {"axis": 1}),
    ("Conv", IMAGE, [floats(6, 2, 3, 3), floats(6)], {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 0]}),
    ("Conv", IMAGE, [floats(3, 4, 3, 3)], {"pads": [0, 1, 1, 2], "dilations": [2, 1]}),
    ("Conv", IMAGE[:, :, 0], [floats(3, 4, 3)], {}),
    (
        "DequantizeLinear",
        np.arange(8, dtype=np.uint8).reshape(2, 4),
        [floats(4), np.arange(4, dtype=np.uint8)],
        {"axis": 1},
    ),
    ("DequantizeLinear", np.arange(8, dtype=np.uint8).reshape(2, 4), [np.float32(0.1)], {}),
    ("Div", IMAGE, [np.abs(floats(4, 1, 1)) + 1], {}),
    ("Div", ints(7, -7, 9), [ints(2)], {}),
    ("Dropout", IMAGE, [], {}),
    ("Elu", IMAGE, [], {"alpha": 0.5}),
    ("Erf", IMAGE, [], {}),
    ("Exp", IMAGE, [], {}),
    ("Expand", ROWS, [ints(2, 1, 6)], {}),
    ("Flatten", IMAGE, [], {}),
    ("Flatten", IMAGE, [], {"axis": 2}),
    ("Gather", IMAGE, [ints(2, -1)], {"axis": 1}),
    ("Gather", IMAGE, [np.array(0)], {"axis": 1}),
    ("GatherND", IMAGE, [np.array([[[0, 1], [1, -1]]])], {}),
    ("Gelu", IMAGE, [], {}),
    ("Gelu", IMAGE, [], {"approximate": "tanh"}),
    ("Gemm", ROWS, [floats(6, 5), floats(5)], {}),
    ("Gemm", ROWS, [floats(5, 6), floats(5)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("GlobalAveragePool", IMAGE, [], {}),
    ("GlobalMaxPool", IMAGE, [], {}),
    ("HardSigmoid", IMAGE, [], {"alpha": 1 / 6, "beta": 0.5}),
    ("HardSwish", IMAGE, [], {}),
    ("Identity", IMAGE, [], {}),
    ("LayerNormalization", ROWS, [floats(6), floats(6)], {"epsilon": 0.01}),
    ("LeakyRelu", IMAGE, [], {"alpha": 0.2}),
    ("Log", POSITIVE, [], {}),
    ("LogSoftmax", ROWS, [], {}),
    ("MatMul", ROWS, [floats(6, 5)], {}),
    ("MatMul", IMAGE, [floats(7, 5)], {}),
    ("Max", IMAGE, [floats(1), floats(7)], {}),
    ("MaxPool", IMAGE, [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", IMAGE, [], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1]}),
    ("MaxPool", IMAGE, [], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("Min", IMAGE, [floats(1), floats(7)], {}),
    ("Mul", IMAGE, [floats(7)], {}),
    ("Neg", IMAGE, [], {}),
    ("PRelu", IMAGE, [floats(4, 1, 1)], {}),
    ("Pad", IMAGE, [ints(0, 2, 1, 0, 0, 1, 0, 3), np.float32(0.5)], {}),
    ("Pad", IMAGE, [ints(0, 0, 1, 2, 0, 0, 2, 1)], {"mode": "reflect"}),
    ("Pad", IMAGE, [ints(1, 2), None, ints(-1)], {"mode": "edge"}),
    ("Pow", POSITIVE, [np.float32(1.5)], {}),
    ("QuantizeLinear", IMAGE, [np.float32(0.02), np.uint8(100)], {}),
    ("QuantizeLinear", IMAGE, [np.abs(floats(4)) / 50, np.array([0, 3, -5, 0], dtype=np.int8)], {"axis": 1}),
    ("QuantizeLinear", IMAGE, [np.float32(0.02)], {}),
    ("Range", np.array(1), [np.array(9), np.array(3)], {}),
    ("Reciprocal", POSITIVE, [], {}),
    ("ReduceMax", IMAGE, [ints(2, 3)], {}),
    ("ReduceMean", IMAGE, [ints(2, 3)], {"keepdims": 0}),
    ("ReduceMean", IMAGE, [], {}),
    ("ReduceMin", IMAGE, [ints(-1)], {}),
    ("ReduceSum", IMAGE, [ints(1)], {}),
    ("ReduceSum", IMAGE, [], {"noop_with_empty_axes": 1}),
    ("Relu", IMAGE, [], {}),
    ("Reshape", IMAGE, [ints(0, -1, 7)], {}),
    ("Reshape", IMAGE, [ints(-1, 49)], {"allowzero": 1}),
    ("Shape", IMAGE, [], {}),
    ("Shape", IMAGE, [], {"start": 1, "end": 3}),
    ("Sigmoid", IMAGE, [], {}),
    ("Slice", IMAGE, [ints(0, 1), ints(2**62, -1), ints(2, -1), ints(2, 1)], {}),
    ("Slice", IMAGE, [ints(0, 1), ints(2, 3)], {}),
    ("Slice", IMAGE, [ints(-1), ints(-(2**62)), ints(3), ints(-2)], {}),
    ("Softmax", ROWS, [], {}),
    ("Softmax", IMAGE, [], {"axis": 1}),
    ("Softplus", IMAGE, [], {}),
    ("Split", IMAGE, [ints(1, 3)], {"axis": 1}),
    ("Sqrt", POSITIVE, [], {}),
    ("Squeeze", IMAGE[:, :1], [ints(1)], {}),
    ("Squeeze", IMAGE[:, :1], [], {}),
    ("Sub", IMAGE, [floats(7)], {}),
    ("Sum", IMAGE, [floats(7), floats(7, 1)], {}),
    ("Tanh", IMAGE, [], {}),
    ("Transpose", IMAGE, [], {"perm": [0, 2, 3, 1]}),
    ("Transpose", ROWS, [], {}),
    ("Unsqueeze", ROWS, [ints(0, -1)], {}),
]


@pytest.mark.parametrize(
    ("operator", "x", "constants", "attributes"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_operator_is_onnxruntimes(
    operator: str, x: np.ndarray, constants: list[Any], attributes: dict[str, Any]
) -> None:
    content = file_of(operator, x, constants, attributes, outputs=2 if operator == "Split" else 1)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    expected = session.run(["y0"], {"x": x})[0]
    answer = Twin(content)(torch.from_numpy(x)).numpy()
    assert answer.shape == expected.shape
    np.testing.assert_allclose(answer.astype(np.float64), expected.astype(np.float64), rtol=2e-5, atol=2e-5)


def test_every_operator_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(OPERATORS)


def test_split_gives_all_its_parts() -> None:
    twin = Twin(file_of("Split", IMAGE, [], {"axis": 1, "num_outputs": 2}, outputs=2))
    twin._output = "y1"
    np.testing.assert_array_equal(twin(torch.from_numpy(IMAGE)).numpy(), IMAGE[:, 2:])


@pytest.mark.parametrize(
    ("attribute", "expected"), [({"value_float": 0.5}, 0.5), ({"value": numpy_helper.from_array(np.float32(2))}, 2.0)]
)
def test_constants_in_the_graph(attribute: dict[str, Any], expected: float) -> None:
    file = onnx.load_from_string(file_of("Mul", ROWS, [np.float32(1)], {}))
    del file.graph.initializer[:]
    file.graph.node.insert(0, helper.make_node("Constant", [], ["c0"], **attribute))
    answer = Twin(file.SerializeToString())(torch.from_numpy(ROWS))
    np.testing.assert_array_equal(answer.numpy(), ROWS * np.float32(expected))


@pytest.mark.parametrize(
    ("operator", "x", "attributes", "message"),
    [
        ("Einsum", ROWS, {"equation": "ij->ji"}, "operators that the int8 twin knows, got 'Einsum' .* use int8"),
        ("MaxPool", IMAGE, {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, "explicit pads, got auto_pad"),
        ("Cast", ROWS, {"to": 9}, "expected Cast to float32 or an integer type, got type number 9"),
        ("AveragePool", IMAGE, {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}, "equal pads on both sides"),
    ],
)
def test_what_the_twin_does_not_know(operator: str, x: np.ndarray, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(recert.RecertError, match=message):
        Twin(file_of(operator, x, [], attributes))(torch.from_numpy(x))


@pytest.mark.parametrize(
    ("mode", "pads", "message"),
    [("wrap", (0, 0, 1, 1), "constant, reflect or edge mode, got 'wrap'"), ("edge", (0, 1, 0, 0), "beyond batch and")],
)
def test_pads_the_twin_does_not_know(mode: str, pads: tuple[int, ...], message: str) -> None:
    with pytest.raises(recert.RecertError, match=message):
        Twin(file_of("Pad", IMAGE, [ints(*pads, *pads)], {"mode": mode}))(torch.from_numpy(IMAGE))
