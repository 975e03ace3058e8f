"""Pads of convolutions and pools, which ONNX gives as (begins..., ends...)."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from recert.approximations.twin.values import Call
from recert.errors import UnusableModel


def symmetric(call: Call, x: Tensor, fill: float, kernel: Sequence[int]) -> tuple[Tensor, list[int]]:
    """What is left to pad on both sides alike, after `x` was padded where the two sides differ."""
    dimensions = len(kernel)
    if call.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise UnusableModel(f"expected {call.operator} with explicit pads, got auto_pad={call.get('auto_pad', b'')!r}")
    pads = call.get("pads", [0] * 2 * dimensions)
    begins, ends = pads[:dimensions], pads[dimensions:]
    if begins == ends:
        return x, begins
    flat = [side for pair in reversed(list(zip(begins, ends, strict=True))) for side in pair]
    return F.pad(x, flat, value=fill), [0] * dimensions
