"""Convolutions and matrix products: on integers where both sides are integers, as int8 kernels do."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from recert.approximations.twin.padding import symmetric
from recert.approximations.twin.values import Call, Operator, Scaled, Value, real

Product = Callable[[Tensor, Tensor], Tensor]


def conv(call: Call, inputs: list[Value | None]) -> Value:
    x, weight, bias = (*inputs, None)[:3]
    shape = real(weight).shape
    dimensions = len(shape) - 2
    convolve = (F.conv1d, F.conv2d, F.conv3d)[dimensions - 1]
    settings = {
        "stride": call.get("strides", [1] * dimensions),
        "dilation": call.get("dilations", [1] * dimensions),
        "groups": call.get("group", 1),
    }

    def product(a: Tensor, b: Tensor) -> Tensor:
        a, padding = symmetric(call, a, 0.0, shape[2:])
        return convolve(a, b, padding=padding, **settings)

    def channels(setting: Tensor) -> Tensor:
        return setting.reshape(1, -1, *[1] * dimensions)

    return _layer(x, weight, bias, product, channels)


def gemm(call: Call, inputs: list[Value | None]) -> Value:
    a, b, c = (*inputs, None)[:3]
    if call.get("alpha", 1.0) != 1.0 or call.get("beta", 1.0) != 1.0:
        b, c = real(b) * call.get("alpha", 1.0), None if c is None else real(c) * call.get("beta", 1.0)

    def product(a: Tensor, b: Tensor) -> Tensor:
        return (a.mT if call.get("transA", 0) else a) @ (b.mT if call.get("transB", 0) else b)

    return _layer(a, b, c, product, lambda setting: setting.reshape(1, -1))


def matmul(call: Call, inputs: list[Value | None]) -> Value:
    return _layer(inputs[0], inputs[1], None, torch.matmul, lambda setting: setting.reshape(-1))


def _layer(
    x: Value | None, weight: Value | None, bias: Value | None, product: Product, channels: Callable[[Tensor], Tensor]
) -> Value:
    """product(x, weight) + bias; `channels` shapes one number per output channel like the result."""
    if not (isinstance(x, Scaled) and isinstance(weight, Scaled) and x.one_scale):
        answer = product(real(x), real(weight))
        return answer if bias is None else answer + channels(real(bias))
    scale = x.scale * channels(weight.scale)
    total = product(x.integers, weight.integers).round()  # some float algorithms (Winograd) are only nearly exact
    if bias is not None:
        total = total + (channels(real(bias)) / scale).round()  # a bias is an int32 on the scale of the products
    return Scaled(total, scale)


LAYERS: dict[str, Operator] = {"Conv": conv, "Gemm": gemm, "MatMul": matmul}
