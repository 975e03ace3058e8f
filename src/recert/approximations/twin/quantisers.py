"""QuantizeLinear and DequantizeLinear, as onnxruntime's fused kernels compute them."""

import torch
from torch import Tensor

from recert.approximations.twin.values import Call, Operator, Scaled, Value, real


def quantise(call: Call, inputs: list[Value | None]) -> Tensor:
    """The nearest integer (half to even) on the scale, in the range of the zero point's type; held in float32."""
    value, scale, zero = _settings(call, inputs)
    # Integers are multiplied once by the ratio of scales, as integer kernels requantise.
    steps = value.integers * (value.scale / scale) if isinstance(value, Scaled) else value / scale
    lowest, highest = call.get("range", (0, 255))
    return (steps.round() + zero).clamp(lowest, highest)


def dequantise(call: Call, inputs: list[Value | None]) -> Scaled:
    """Integers with their scale; the operator that reads them decides whether to multiply by it."""
    value, scale, zero = _settings(call, inputs)
    return Scaled(real(value) - zero, scale)


def _settings(call: Call, inputs: list[Value | None]) -> tuple[Tensor | Scaled, Tensor, Tensor]:
    """The value, and its scale and zero point: one for all, or one per channel along the channel axis."""
    given, scale, zero = (*inputs, None)[:3]
    value = given if isinstance(given, Scaled) else real(given)
    dimensions = (value.integers if isinstance(value, Scaled) else value).ndim
    shaped = _along(real(scale), call.get("axis", 1), dimensions)
    if zero is None:
        return value, shaped, torch.zeros_like(shaped)
    return value, shaped, _along(real(zero), call.get("axis", 1), dimensions)


def _along(setting: Tensor, axis: int, dimensions: int) -> Tensor:
    if setting.numel() == 1:
        return setting.reshape(())
    return setting.reshape([-1 if i == axis % dimensions else 1 for i in range(dimensions)])


QUANTISERS: dict[str, Operator] = {"QuantizeLinear": quantise, "DequantizeLinear": dequantise}
