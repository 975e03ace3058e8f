"""Traced and scripted modules (TorchScript): their graph, and the values in it."""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def script_graph(module: torch.jit.ScriptModule) -> str:
    """The graph of all that is called, without names that change from one tracing to the next."""
    graph = module.inlined_graph.str(False)  # type: ignore[attr-defined]
    return re.sub(r"___torch_mangle_\d+\.", "", graph)


def script_constants(module: torch.jit.ScriptModule) -> Iterator[tuple[str, Any]]:
    """Constants of the graph, and every attribute that it reads: in a scripted module these are not part of the graph."""
    graph: Any = module.inlined_graph
    yield from sorted(module.code_with_constants[1].const_mapping.items())
    held = {next(iter(graph.inputs())).debugName(): module._c}
    yield from _read_by(graph, held)


def _read_by(block: Any, held: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for node in block.nodes():
        if node.kind() == "prim::GetAttr" and (owner := held.get(node.inputsAt(0).debugName())) is not None:
            value = owner.getattr(node.s("name"))
            held[node.output().debugName()] = value
            if not isinstance(value, torch._C.ScriptModule):
                yield node.s("name"), value.detach() if isinstance(value, Tensor) else value
        elif node.kind() in ("prim::GetAttr", "prim::CallMethod"):  # of an object that only the run knows
            yield node.kind(), iter(())
        for inner in node.blocks():
            yield from _read_by(inner, held)
