"""The twin itself: a small interpreter of ONNX graphs."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recert.approximations.twin.elementwise import ELEMENTWISE
from recert.approximations.twin.layers import LAYERS
from recert.approximations.twin.pools import POOLS
from recert.approximations.twin.quantisers import QUANTISERS
from recert.approximations.twin.shapes import SHAPES
from recert.approximations.twin.values import Call, Known, Operator, Value, real
from recert.errors import UnusableModel

# The source of Twin is part of the identity of every twin, also of those in old stores: inside the class this name stays.
from recert.models.onnx_model import import_onnx as needed
from recert.models.onnx_model import is_outside

OPERATORS: dict[str, Operator] = {**ELEMENTWISE, **LAYERS, **POOLS, **QUANTISERS, **SHAPES}
RANGES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


class Twin(nn.Module):
    """Computes a quantised ONNX file in float32 on any device, integers exactly. The file's bytes identify it."""

    file: Tensor
    likes_channels_last = True

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.register_buffer("file", torch.frombuffer(bytearray(content), dtype=torch.uint8))
        graph = needed("onnx").load_from_string(content).graph
        tensors = _tensors(graph)
        self._shapes = {name: _known(tensor) for name, tensor in tensors.items() if tensor.dtype == torch.int64}
        self._buffer_of = {name: f"_{i}" for i, name in enumerate(tensors) if name not in self._shapes}
        for name, buffer in self._buffer_of.items():
            self.register_buffer(buffer, tensors[name].to(torch.float32), persistent=False)
        self._calls = [_call(node, tensors) for node in graph.node if node.op_type != "Constant"]
        self._input, self._output = graph.input[0].name, graph.output[0].name
        self._last_use = {name: i for i, call in enumerate(self._calls) for name in call.reads}

    def forward(self, batch: Tensor) -> Tensor:
        values: dict[str, Value] = {self._input: batch, **self._shapes}
        values.update({name: getattr(self, buffer) for name, buffer in self._buffer_of.items()})
        for i, call in enumerate(self._calls):
            inputs = [values[name] if name else None for name in call.reads]
            outputs = OPERATORS[call.operator](call, inputs)
            values.update(zip(call.writes, outputs if isinstance(outputs, tuple) else (outputs,), strict=False))
            for name in call.reads:
                if self._last_use.get(name) == i:
                    values.pop(name, None)
        return real(values[self._output])

    def constant(self, name: str) -> Tensor:
        """A tensor of the file by its name: a scale, a zero point, the integers of a weight (held in float32)."""
        return self._shapes[name].real if name in self._shapes else self.get_buffer(self._buffer_of[name])


def _known(tensor: Tensor) -> Known:
    return Known(tensor, tuple(int(number) for number in tensor.flatten().tolist()))


def _tensors(graph: Any) -> dict[str, Tensor]:
    """All constants of a graph by name."""
    if is_outside(graph):  # onnx would look for them in the current directory
        raise UnusableModel("expected a graph with its weights inside, got one that keeps them in another file")
    to_array = needed("onnx").numpy_helper.to_array
    arrays = {initialiser.name: to_array(initialiser) for initialiser in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            ((kind, value),) = _attributes(node).items()
            arrays[node.output[0]] = to_array(value) if kind == "value" else _array(value)
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _array(value: Any) -> NDArray[Any]:
    """A constant written as plain numbers."""
    array = np.asarray(value)
    return array.astype(np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32)


def _call(node: Any, tensors: dict[str, Tensor]) -> Call:
    if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx"):
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        raise UnusableModel(
            f"expected operators that the int8 twin knows, got {operator!r} ({node.name or 'unnamed'}); "
            f"it knows {', '.join(sorted(OPERATORS))}; use int8 on a CPU instead"
        )
    attributes = _attributes(node)
    if node.op_type == "QuantizeLinear":
        attributes["range"] = RANGES[tensors[node.input[2]].dtype if len(node.input) > 2 else torch.uint8]
    return Call(node.op_type, tuple(node.input), tuple(node.output), attributes)


def _attributes(node: Any) -> dict[str, Any]:
    value_of = needed("onnx").helper.get_attribute_value
    values = {attribute.name: value_of(attribute) for attribute in node.attribute}
    return {name: list(v) if type(v).__name__.startswith("Repeated") else v for name, v in values.items()}
