"""QuantizeLinear and DequantizeLinear, as onnxruntime's fused kernels compute them."""

import torch
from torch import Tensor

from recert.approximations.twin.values import Call, Operator, Scaled, Value, real


def quantise(call: Call, inputs: list[Value | None]) -> Tensor:
    """The nearest integer (half to even) on the scale, in the range of the zero point's type; held in float32."""
    scale, zero = _along(call, inputs[1], inputs[0]), _along(call, inputs[2], inputs[0])
    value = inputs[0]
    if isinstance(value, Scaled):  # one multiplication by the ratio of scales, as integer kernels requantise
        steps = value.integers * (value.scale / scale)
    else:
        steps = real(value) / scale
    lowest, highest = call.get("range", (0, 255))
    return (steps.round() + zero).clamp(lowest, highest)


def dequantise(call: Call, inputs: list[Value | None]) -> Scaled:
    """Integers that remember their scale; whoever reads them decides whether to multiply it in."""
    integers = real(inputs[0])
    scale = _along(call, inputs[1], integers)
    zero = torch.zeros((), device=integers.device) if inputs[2] is None else _along(call, inputs[2], integers)
    return Scaled(integers - zero, scale)


def _along(call: Call, setting: Value | None, of: Value | None) -> Tensor:
    """Scales or zero points, one for all or one per channel, shaped to broadcast along the channel axis."""
    tensor = real(setting)
    if tensor.numel() == 1:
        return tensor.reshape(())
    dimensions = (of.integers if isinstance(of, Scaled) else real(of)).ndim
    axis = call.get("axis", 1) % dimensions
    return tensor.reshape([-1 if i == axis else 1 for i in range(dimensions)])


QUANTISERS: dict[str, Operator] = {"QuantizeLinear": quantise, "DequantizeLinear": dequantise}
