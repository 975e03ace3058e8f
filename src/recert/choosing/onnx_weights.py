"""Weights inside an ONNX file."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.extras import import_extra


def nonzero_in_file(content: bytes) -> int:
    """Constants of a graph that are not zero, scales and zero points left out."""
    graph = _graph(content)
    # The inputs of a quantiser after the first are its scale and zero point, which are constants of the graph but no weights.
    quantisers = [node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    scales = {name for node in quantisers for name in node.input[1:]}
    return sum(int(np.count_nonzero(values)) for name, values in _constants(graph) if name not in scales)


def zeros_save(content: bytes) -> int:
    """Bytes that a file could do without: zeros of its constants left out, one bit per value to mark them."""
    sizes = (
        (values.nbytes, int(np.count_nonzero(values)) * values.itemsize + -(-values.size // 8))
        for _, values in _constants(_graph(content))
    )
    return sum(max(0, dense - sparse) for dense, sparse in sizes)


def _graph(content: bytes) -> Any:
    return _onnx("onnx").load_from_string(content).graph


def _constants(graph: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    to_array = _onnx("onnx.numpy_helper").to_array
    return ((each.name, to_array(each)) for each in graph.initializer)


def _onnx(module: str) -> Any:
    return import_extra(
        module, extra="onnx", purpose="the cost of an ONNX graph, unless passed as cost={name: number},"
    )
