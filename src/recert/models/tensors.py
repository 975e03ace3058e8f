"""The bytes of a tensor, for digests."""

import torch
from torch import Tensor


def tensor_bytes(tensor: Tensor) -> bytes:
    """All elements in order, on the CPU; of a quantised tensor the integers and what they stand for."""
    if tensor.is_quantized:
        tensor = torch.cat([tensor.int_repr().flatten().double(), tensor.dequantize().flatten().double()])
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
