"""Models from files that have a card. The file is tensors or a graph: nothing in it can make this run code."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from recert.errors import RecertError, UnusableModel
from recert.models.cards import GRAPH, INT8, INT8_TWIN, WEIGHTS, ModelCard, card_of
from recert.models.specs import parse_spec
from recert.registration import function_named

# Named and not imported: quantised graphs are computed by classes of approximations, which know of models and not the reverse.
GRAPHS = {
    GRAPH: "recert.models.onnx_model:OnnxModel",
    INT8: "recert.approximations.onnx_kernels:OnnxKernels",
    INT8_TWIN: "recert.approximations.twin.module:Twin",
}


def saved_model(path: Path, card: ModelCard, *, trust: bool = False) -> nn.Module:
    """The network of a file with a card, in eval mode on the CPU: of the same identity as the one that was saved."""
    if card.kind != WEIGHTS:
        return graph_model(card.kind, path.read_bytes())
    if card.architecture is None:
        raise UnusableModel(f"expected the card of {path} to name an architecture, got none; save the model again")
    network = architecture(card.architecture, trust=trust, source=path)
    fill_exactly(network, stored_tensors(path), card, path)
    return network.eval()


def graph_model(kind: str, content: bytes) -> nn.Module:
    """The network that computes a graph as it was certified."""
    try:
        model: nn.Module = function_named(GRAPHS[kind])(content)
    except (RecertError, MemoryError):
        raise
    except Exception as error:  # a file from anybody may be no graph, or one without what the others have
        raise UnusableModel(
            f"expected a graph for {kind}, got one that cannot be read ({type(error).__name__}); save the model again"
        ) from None
    return model.eval()


def architecture(spec: str, *, trust: bool, source: object) -> nn.Module:
    """A network with weights of no meaning. A card may come from anybody: code that is not recert's or a library's needs trust."""
    parsed = parse_spec(spec)
    if parsed.kind == "registered":
        from recert.models.registry import build_model

        return build_model(parsed.name)
    if parsed.kind == "library":
        from recert.models.libraries import library_network

        return library_network(parsed.name, parsed.argument or "")
    if parsed.kind != "factory":
        raise UnusableModel(
            f"expected the card of {source} to name an architecture, got {spec!r}; save the model again"
        )
    if not trust:
        raise UnusableModel(
            f"the card of {source} says that its network is made by {spec}, which is code that would run here; if you know that "
            f"code, pass trust=True (--trust), or name it yourself: {spec}@{source}"
        )
    from recert.models.factories import call_factory

    made = call_factory(parsed.name, parsed.argument or "")
    if not isinstance(made, nn.Module):
        raise UnusableModel(f"expected {spec} to make a torch.nn.Module for {source}, got {type(made).__name__}")
    return made


def architecture_of(spec: str) -> str | None:
    """The architecture of the model that a spec names, itself a spec without weights; None for a graph or a program."""
    parsed = parse_spec(spec)
    if parsed.kind == "registered":
        return parsed.name
    if parsed.kind != "file":
        return f"{parsed.name}:{parsed.argument}"
    path = Path(parsed.name)
    if path.suffix.lower() in (".onnx", ".safetensors"):
        card = card_of(path)
        return None if card is None else card.architecture
    if path.suffix.lower() == ".pt2":
        return None
    from recert.models.locuslab import architecture_in

    return architecture_in(path)


def stored_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file."""
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise UnusableModel(
            f"expected a safetensors file, got {path}, which is not one ({error}); save the model again"
        ) from None


def fill_exactly(network: nn.Module, stored: Mapping[str, Tensor], card: ModelCard, source: object) -> None:
    """Put tensors in their places, in their own types: also those that a state dict leaves out, and rounded ones as they are."""
    tensors = _in_own_types(stored, card)
    places = {f"{prefix}{name}": (held, name) for prefix, held, name in _places(network)}
    missing = sorted(places.keys() - tensors.keys() - card.shared.keys())
    surplus = sorted((tensors.keys() | card.shared.keys()) - places.keys())
    if missing or surplus:
        raise UnusableModel(
            f"expected the tensors of {type(network).__name__}, got {source}, in which {len(missing)} of {len(places)} are missing"
            f"{_first(missing)} and {len(surplus)} have no place{_first(surplus)}; use the architecture they were made for"
        )
    made: dict[str, Tensor] = {}
    for name, (held, key) in places.items():
        stored_as = card.shared.get(name, name)
        if stored_as not in tensors:
            raise UnusableModel(f"expected {stored_as}, which {name} is, in {source}, got none; save the model again")
        tensor, before = tensors[stored_as], held[key]
        if tensor.shape != before.shape:
            raise UnusableModel(
                f"expected {name} of shape {tuple(before.shape)}, got {tuple(tensor.shape)} in {source}; use the architecture these "
                "tensors were made for"
            )
        # Names that are one tensor stay one.
        if stored_as not in made:
            of_weights = isinstance(before, nn.Parameter)
            made[stored_as] = nn.Parameter(tensor, requires_grad=before.requires_grad) if of_weights else tensor
        held[key] = made[stored_as]
    _reorder(network, card.order)


def orders(network: nn.Module) -> dict[str, str]:
    """The names of the tensors of every module, in the order in which code that goes through them finds them."""
    return {
        path: " ".join((*part._parameters, *part._buffers))
        for path, part in network.named_modules(remove_duplicate=False)
    }


def _reorder(network: nn.Module, order: Mapping[str, str]) -> None:
    """Pruning, for one, puts a weight behind its bias: that is part of a model's identity."""
    for path, part in network.named_modules(remove_duplicate=False):
        rank = {name: i for i, name in enumerate(order.get(path, "").split())}
        for held in (part._parameters, part._buffers) if rank else ():
            inside: dict[str, Any] = dict(sorted(held.items(), key=lambda item: rank.get(item[0], len(rank))))
            held.clear()
            held.update(inside)


def expanded_tensors(path: Path, card: ModelCard) -> dict[str, Tensor]:
    """The tensors of a file under all their names, in the types that the network has them in."""
    tensors = _in_own_types(stored_tensors(path), card)
    if lost := sorted(set(card.shared.values()) - tensors.keys()):
        raise UnusableModel(f"expected {lost[0]} in {path}, got none; save the model again")
    return {**tensors, **{name: tensors[first] for name, first in card.shared.items()}}


def _in_own_types(stored: Mapping[str, Tensor], card: ModelCard) -> dict[str, Tensor]:
    return {name: _widened(tensor, card.computed_in.get(name)) for name, tensor in stored.items()}


def named_tensors(network: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers, under all their names."""
    return {f"{prefix}{name}": held[name] for prefix, held, name in _places(network)}


def _places(network: nn.Module) -> Iterator[tuple[str, dict[str, Any], str]]:
    for path, module in network.named_modules(remove_duplicate=False):
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    yield f"{path}." if path else "", held, name


def _widened(tensor: Tensor, dtype: str | None) -> Tensor:
    if dtype is None:
        return tensor
    if dtype not in ("float32", "float64"):
        raise UnusableModel(f"expected a card with types float32 and float64, got {dtype!r}; save the model again")
    wide: torch.dtype = getattr(torch, dtype)
    return tensor.to(wide)


def _first(names: list[str]) -> str:
    return f" ({names[0]}, ...)" if names else ""
