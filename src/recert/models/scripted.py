"""Traced and scripted modules (TorchScript): their files, their graph, and the values in it."""

import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recert.errors import UnusableModel


def is_script_file(path: Path) -> bool:
    """Whether a file is what `torch.jit.save` writes: an archive with code in it. Nothing of it is run."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(re.fullmatch(r"[^/]+/code/.*", name) for name in archive.namelist())
    except Exception:  # no archive, or one that was doctored: other readers say what is wrong with it
        return False


def read_script(path: Path, *, trust: bool) -> nn.Module:
    """The module of a TorchScript file, in eval mode; refused unless trusted."""
    if not trust:
        raise UnusableModel(
            f"expected a file of tensors only, got {path}, which holds a TorchScript program: it can run code of whoever wrote it, and "
            "nothing of it was run. If you made it, or trust who did, pass trust=True (--trust); otherwise ask for ONNX, or for "
            "safetensors and the architecture"
        )
    try:
        with warnings.catch_warnings(action="ignore"):  # that torch means to replace TorchScript is not about this file
            module: nn.Module = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # many layers, no common class
        raise UnusableModel(
            f"expected a program saved by torch.jit.save, got {path}, which does not load ({type(error).__name__}); save it again "
            "with this version of torch"
        ) from None
    return module.eval() if hasattr(module, "training") else module  # a frozen one has no mode


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
        elif (
            node.kind().startswith("prim::Constant") and node.kind() != "prim::Constant"
        ):  # weights packed for a library, say
            packed = node.hasAttribute("value") and node.kindOf("value") == "t"
            yield node.kind(), node.t("value") if packed else iter(())
        elif node.kind() in ("prim::GetAttr", "prim::CallMethod"):  # of an object that only the run knows
            yield node.kind(), iter(())
        for inner in node.blocks():
            yield from _read_by(inner, held)
