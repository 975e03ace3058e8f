"""L1 unstructured pruning of convolutions and linear layers, made permanent: zeros, no masks left behind."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils import prune

from recert.approximations.context import Context
from recert.errors import UnusableModel

Layers = list[tuple[nn.Module, str]]
NamedLayers = list[list[tuple[str, nn.Module]]]


def prune_globally(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """The fraction of smallest magnitude among all weights set to zero, one threshold for all layers."""
    fraction = float(argument or "")
    context.description = (
        f"{fraction:.4g} of all convolution and linear weights set to zero, the smallest ones; dense computation"
    )

    def apply(layers: Layers) -> None:
        prune.global_unstructured(layers, pruning_method=prune.L1Unstructured, amount=fraction)

    return _pruned(model, apply, context)


def prune_by_layer(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """The same fraction of every layer's weights set to zero, those of smallest magnitude."""
    fraction = float(argument or "")
    context.description = f"{fraction:.4g} of each layer's weights set to zero, the smallest ones; dense computation"

    def apply(layers: Layers) -> None:
        for layer, name in layers:
            prune.l1_unstructured(layer, name, amount=fraction)  # type: ignore[no-untyped-call]

    return _pruned(model, apply, context)


def _pruned(model: nn.Module, apply: Callable[[Layers], None], context: Context) -> nn.Module:
    # torch.nn.utils.prune concatenates weights with view(), which needs contiguous memory.
    model = model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    sharing = _limited(_layers_by_weight(model), context)
    weights = [_weight(layers[0]) for layers in sharing]
    total, zero_before = sum(w.numel() for w in weights), _zeros(weights)
    order = {id(layers[0]): list(layers[0]._parameters) for layers in sharing}
    apply([(layers[0], "weight") for layers in sharing])
    for first, *others in sharing:
        prune.remove(first, "weight")  # type: ignore[no-untyped-call]
        # It is the last parameter now. Code may go through them in their order, so that this is a part of what a model is.
        first._parameters = dict(sorted(first._parameters.items(), key=lambda item: order[id(first)].index(item[0])))
        for other in others:
            other.weight = first.weight
    zeros = _zeros([_weight(layers[0]) for layers in sharing])
    context.facts["zero_weights"] = f"{zeros} of {total} ({zeros / total:.4%}), {zero_before} before"
    context.facts["layers"] = str(len(sharing))
    return model


def _limited(sharing: NamedLayers, context: Context) -> list[list[nn.Module]]:
    """The layers that are meant. Layers that share a weight are meant or not together: it is one tensor."""
    chosen = context.chosen([name for layers in sharing for name, _ in layers])
    for layers in sharing:
        if len({name in chosen for name, _ in layers}) > 1:
            raise ValueError(
                f"expected {context.spec} to mean all layers that share a weight, or none, got some of {', '.join(name for name, _ in layers)}"
            )
    return [[layer for _, layer in layers] for layers in sharing if layers[0][0] in chosen]


def _layers_by_weight(model: nn.Module) -> NamedLayers:
    """Convolutions and linear layers with their names, those that share one weight together."""
    sharing: dict[int, list[tuple[str, nn.Module]]] = {}
    for name, module in model.named_modules():
        if isinstance(module, _ConvNd | nn.Linear):
            if "weight" not in dict(module.named_parameters(recurse=False)):
                raise UnusableModel(
                    f"the weight of {name or 'the model'} is computed from other tensors (a parametrisation or a pruning mask); "
                    "make it permanent first, with torch.nn.utils.parametrize.remove_parametrizations or prune.remove"
                )
            sharing.setdefault(id(module.weight), []).append((name, module))
    if not sharing:
        raise UnusableModel("expected a model with convolutions or linear layers to prune, got one without any")
    return list(sharing.values())


def _weight(layer: nn.Module) -> Tensor:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight


def _zeros(weights: list[Tensor]) -> int:
    return sum(int((weight == 0).sum()) for weight in weights)
