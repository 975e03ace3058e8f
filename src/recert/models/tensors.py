"""The bytes of tensors, for digests."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from recert.errors import UnusableModel

MOST_AT_ONCE = 2**28
"""Bytes that are brought from a device together."""


def held_by(model: nn.Module) -> dict[str, Any]:
    """Weights and buffers of a network by name, also under each name of those that have several."""
    held = {
        **model.state_dict(keep_vars=True),  # what torch's quantised layers keep packed is in here alone
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    # A network may have such methods of its own, which leave out a part that is not to be trained, say.
    for place, module in layers(model):
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                held.setdefault(f"{place}.{name}".lstrip("."), tensor)
    return held


def layers(model: nn.Module, place: str = "", above: tuple[nn.Module, ...] = ()) -> Iterator[tuple[str, nn.Module]]:
    """All parts of a network by name, whatever its own methods say."""
    yield place, model
    for name, child in model._modules.items():
        if child is not None and not any(child is each for each in (*above, model)):
            yield from layers(child, f"{place}.{name}".lstrip("."), (*above, model))


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors of an entry: packed weights come with their bias."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors_in(each)


def parts_of(tensor: Tensor, name: str = "") -> list[tuple[str, Tensor]]:
    """A tensor by its name; of a wrapper around other tensors (torchao's quantised weights, say) those, by theirs."""
    flattened = flatten(tensor)
    if flattened is None:
        return [(name, tensor)]
    return [part for inner in flattened[0] for part in parts_of(getattr(tensor, inner), f"{name}.{inner}".lstrip("."))]


def flatten(tensor: Tensor) -> tuple[list[str], Any] | None:
    """The names of the tensors inside a wrapper, and all else that it knows; None of a tensor with elements of its own."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return None
    names, context = tensor.__tensor_flatten__()
    return list(names), context


def bytes_of(tensors: Sequence[Tensor]) -> Iterator[bytes]:
    """`tensor_bytes` of each. Those on a device come over together: for every one alone the device would be waited for."""
    start = 0
    while start < len(tensors):
        end, size = start, 0
        while end < len(tensors) and _is_plain(tensors[end]) and size < MOST_AT_ONCE:
            size += tensors[end].nbytes
            end += 1
        if end - start < 2:
            yield tensor_bytes(tensors[start])
            start += 1
            continue
        parts = [tensor.detach().contiguous().flatten().view(torch.uint8) for tensor in tensors[start:end]]
        together, at = torch.cat(parts).cpu().numpy(), 0
        for part in parts:
            yield together[at : at + len(part)].tobytes()
            at += len(part)
        start = end


def whole_storage(tensor: Tensor) -> Tensor | None:
    """All that is in memory behind a tensor that shows a part of it, and where that part begins; None if it shows all."""
    try:
        storage = tensor.untyped_storage()
        if tensor.layout != torch.strided or storage.nbytes() == tensor.nbytes:
            return None
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        return torch.cat([whole, torch.tensor([tensor.storage_offset()], device=tensor.device).view(torch.uint8)])
    except (RuntimeError, NotImplementedError):  # of a kind that has no memory of its own
        return None


def _is_plain(tensor: Tensor) -> bool:
    return (
        tensor.device.type == "cuda"
        and type(tensor) in (Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.numel() > 0
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )


def tensor_bytes(tensor: Tensor) -> bytes:
    """All elements in order, on the CPU; of a quantised tensor the integers and what they stand for."""
    if tensor.is_quantized:
        tensor = torch.cat([tensor.int_repr().flatten().double(), tensor.dequantize().flatten().double()])
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    try:
        flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten()
        return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    except (RuntimeError, NotImplementedError) as error:
        if type(tensor) in (Tensor, torch.nn.Parameter):
            raise
        raise UnusableModel(
            f"expected tensors whose elements can be read, got one of class {type(tensor).__name__}, which has neither elements nor "
            "__tensor_flatten__, which names the tensors inside it; give the class one, or pass a function, with identity=..."
        ) from error
