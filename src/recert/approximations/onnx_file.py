"""Reading and changing a quantised ONNX file. Files are `onnx.ModelProto`, which carries no types."""

from collections import Counter
from typing import Any

from recert.errors import UnusableModel
from recert.models.onnx_model import import_onnx

LAYERS = ("Conv", "Gemm", "MatMul")


def with_float_outputs(file: Any) -> Any:
    """Drop the quantisation of the graph's outputs: logits on 256 levels tie, and a tie is decided by class number."""
    nodes = file.graph.node
    made_by = {name: node for node in nodes for name in node.output}
    for output in file.graph.output:
        dequantise = made_by.get(output.name)
        if dequantise is None or dequantise.op_type != "DequantizeLinear":
            continue
        quantise = made_by[dequantise.input[0]]
        nodes.remove(dequantise)
        nodes.remove(quantise)
        _rename(nodes, quantise.input[0], output.name)
    read = {name for node in nodes for name in node.input}
    for initialiser in [i for i in file.graph.initializer if i.name not in read]:
        file.graph.initializer.remove(initialiser)
    return file


def _rename(nodes: Any, old: str, new: str) -> None:
    for node in nodes:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new


def describe(content: bytes) -> dict[str, str]:
    """What is quantised in a file and what is not; refuses a file in which no layer is."""
    graph = import_onnx("onnx").load_from_string(content).graph
    dequantised = {name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    layers: Counter[str] = Counter()
    in_float: Counter[str] = Counter()
    for node in graph.node:
        if node.op_type in LAYERS:
            (layers if set(node.input[:2]) <= dequantised else in_float)[node.op_type] += 1
    if not layers:
        raise UnusableModel("expected convolutions or linear layers to quantise, got none in the exported graph")
    quantisers = [node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    facts = {"quantised": _listed(layers), "scales": str(len({node.input[1] for node in quantisers}))}
    return facts | ({"in_float32": _listed(in_float)} if in_float else {})


def _listed(layers: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(layers.items()))
