"""Traced and scripted modules (TorchScript): their graph, and the values in it."""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def script_graph(module: torch.jit.ScriptModule) -> str:
    """The graph of all that is called, without names that change from one tracing to the next."""
    return re.sub(r"___torch_mangle_\d+\.", "", _graph(module).str(False))


def script_constants(module: torch.jit.ScriptModule) -> Iterator[tuple[str, Any]]:
    """Constants of the graph, and every attribute that it reads: in a scripted module these are not part of the graph."""
    graph = _graph(module)
    held = {next(iter(graph.inputs())).debugName(): module._c}
    yield from _read_by(graph, held)


def _graph(module: torch.jit.ScriptModule) -> Any:
    """Of all that `forward` calls. Not by way of `module.forward`, in the place of which something else may have been put."""
    return module._c._get_method("forward").inlined_graph


def _read_by(block: Any, held: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for node in block.nodes():
        if node.kind() == "prim::GetAttr" and (owner := held.get(node.inputsAt(0).debugName())) is not None:
            value = owner.getattr(node.s("name"))
            held[node.output().debugName()] = value
            if not isinstance(value, torch._C.ScriptModule):
                yield node.s("name"), value.detach() if isinstance(value, Tensor) else value
        elif (
            node.kind() == "prim::Constant"
            and node.hasAttribute("value")
            and node.kindOf("value") in ("t", "ts", "ival")
        ):
            yield "value", getattr(node, node.kindOf("value"))("value")  # the graph as text shows no large tensors
        elif node.kind() in ("prim::GetAttr", "prim::CallMethod"):  # of an object that only the run knows
            yield node.kind(), iter(())
        for inner in node.blocks():
            yield from _read_by(inner, held)
