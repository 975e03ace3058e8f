"""The bytes of tensors, for digests."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

MOST_AT_ONCE = 2**28
"""Bytes that are brought from a device together."""


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
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
