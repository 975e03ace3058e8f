"""Which nodes of an exported graph belong to which layer of the network, by name."""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from recert.errors import UnusableModel

LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
EXPORTED_AS = "model."
"""What the export puts before every name: the network is a part of what is exported (`onnx_export._Logits`)."""
SCOPES = "pkg.torch.onnx.name_scopes"


def nodes_beside(graph: Any, layers: frozenset[str]) -> list[str]:
    """Names of nodes that stay in float32: layers that are not among these, and all that lies next to one of them."""
    of_node = dict(_layers_of_nodes(graph))
    lost = sorted(layers - set(of_node.values()))
    if lost:
        raise UnusableModel(
            f"expected every layer to be found in the exported graph by its name, got none for {', '.join(lost)}, which is not "
            "used, or computed in another way; leave it out of the names"
        )
    left_out = {name for name, layer in of_node.items() if layer not in layers}
    before = _nearest(graph.node, of_node, backwards=False)
    after = _nearest(reversed(graph.node), of_node, backwards=True)
    between = [node.name for node in graph.node if node.name not in of_node]
    # Values that reach or leave a layer in float32 are not rounded on their way, as far as no chosen layer reads them as well.
    return [*sorted(left_out), *(name for name in between if (before[name] | after[name]) & left_out)]


def _layers_of_nodes(graph: Any) -> Iterator[tuple[str, str]]:
    """Names of nodes with weights, and the names of their layers."""
    weights = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        own = [name for name in node.input if name in weights]
        if node.op_type in LAYERS and own:
            # Fusing a normalisation into a convolution keeps the name of its weight, and changes what else is noted of it.
            named = next((name for name in own if name.startswith(EXPORTED_AS) and ".weight" in name), None)
            yield node.name, _scope(node) if named is None else named[len(EXPORTED_AS) :].partition(".weight")[0]


def _scope(node: Any) -> str:
    """The module that a node comes from, as the export noted it: its last scope is the operation itself."""
    noted = next((entry.value for entry in node.metadata_props if entry.key == SCOPES), "[]")
    scopes = [scope for scope in ast.literal_eval(noted)[:-1] if scope.startswith(EXPORTED_AS)]
    if not scopes:
        raise UnusableModel(
            f"the exported graph does not say which layer {node.name or node.op_type} belongs to; quantise all layers, or none by name"
        )
    return str(scopes[-1])[len(EXPORTED_AS) :]


def _nearest(nodes: Iterable[Any], of_node: dict[str, str], *, backwards: bool) -> dict[str, set[str]]:
    """For every node the nearest nodes of layers that its values come from; backwards, those that they go to."""
    reached: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for node in nodes:
        reads, writes = (node.output, node.input) if backwards else (node.input, node.output)
        found[node.name] = set().union(*(reached.get(name, set()) for name in reads))
        passed_on = {node.name} if node.name in of_node else found[node.name]
        for name in writes:
            reached[name] = reached.get(name, set()) | passed_on
    return found
