"""Pooling and reductions: averages of integers on one scale stay on that scale, the rest is on real values."""

import torch
import torch.nn.functional as F
from torch import Tensor

from recert.approximations.twin.padding import symmetric
from recert.approximations.twin.values import Call, Operator, Scaled, Value, numbers, real
from recert.errors import UnusableModel


def max_pool(call: Call, inputs: list[Value | None]) -> Tensor:
    kernel = call.attributes["kernel_shape"]
    x, padding = symmetric(call, real(inputs[0]), float("-inf"), kernel)
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    return pool(
        x,
        kernel,
        stride=call.get("strides", [1] * len(kernel)),
        padding=padding,
        dilation=call.get("dilations", [1] * len(kernel)),
        ceil_mode=bool(call.get("ceil_mode", 0)),
    )


def average_pool(call: Call, inputs: list[Value | None]) -> Value:
    value = inputs[0]
    if isinstance(value, Scaled) and value.one_scale:
        return Scaled(_average_pool(call, value.integers), value.scale)
    return _average_pool(call, real(value))


def _average_pool(call: Call, values: Tensor) -> Tensor:
    kernel = call.attributes["kernel_shape"]
    counted = bool(call.get("count_include_pad", 0))
    x, padding = symmetric(call, values, 0.0, kernel)
    if x.shape != values.shape and not counted:
        raise UnusableModel("expected AveragePool with equal pads on both sides, got unequal ones that are not counted")
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    settings = {"stride": call.get("strides", [1] * len(kernel)), "padding": padding}
    return pool(x, kernel, ceil_mode=bool(call.get("ceil_mode", 0)), count_include_pad=counted, **settings)


def global_average_pool(call: Call, inputs: list[Value | None]) -> Value:
    value = inputs[0]
    if isinstance(value, Scaled) and value.one_scale:
        return Scaled(value.integers.flatten(2).mean(2).reshape(_one_pixel(value.integers)), value.scale)
    return real(value).flatten(2).mean(2).reshape(_one_pixel(real(value)))


def global_max_pool(call: Call, inputs: list[Value | None]) -> Tensor:
    x = real(inputs[0])
    return x.flatten(2).amax(2).reshape(_one_pixel(x))


def _one_pixel(x: Tensor) -> list[int]:
    return [*x.shape[:2], *[1] * (x.ndim - 2)]


def over_axes(reduce: str) -> Operator:
    """A reduction over axes given as an input, or as an attribute by older files; over all of them if not at all."""

    def apply(call: Call, inputs: list[Value | None]) -> Tensor:
        x = real(inputs[0])
        given = numbers(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else call.get("axes", [])
        if not given and call.get("noop_with_empty_axes", 0):
            return x
        axes = tuple(given) or tuple(range(x.ndim))
        answer: Tensor = getattr(torch, reduce)(x, dim=axes, keepdim=bool(call.get("keepdims", 1)))
        return answer

    return apply


POOLS: dict[str, Operator] = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "MaxPool": max_pool,
    "ReduceMax": over_axes("amax"),
    "ReduceMean": over_axes("mean"),
    "ReduceMin": over_axes("amin"),
    "ReduceSum": over_axes("sum"),
}
