"""Elementwise functions, activations and normalisations, on real values."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from recert.approximations.twin.values import Call, Operator, Scaled, Value, real


def plain(function: Callable[..., Tensor]) -> Operator:
    """A torch function of the inputs alone."""
    return lambda call, inputs: function(*(real(value) for value in inputs if value is not None))


def folded(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    """A torch function of two, over any number of inputs."""

    def apply(call: Call, inputs: list[Value | None]) -> Tensor:
        answer, *others = (real(value) for value in inputs)
        for other in others:
            answer = function(answer, other)
        return answer

    return apply


def divide(call: Call, inputs: list[Value | None]) -> Tensor:
    a, b = real(inputs[0]), real(inputs[1])
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def relu(call: Call, inputs: list[Value | None]) -> Value:
    value = inputs[0]
    return Scaled(value.integers.relu(), value.scale) if isinstance(value, Scaled) else real(value).relu()


def clip(call: Call, inputs: list[Value | None]) -> Tensor:
    _, low, high = (*inputs, None, None)[:3]
    lowest = call.get("min", -math.inf) if low is None else real(low)
    highest = call.get("max", math.inf) if high is None else real(high)
    return real(inputs[0]).clamp(min=lowest).clamp(max=highest)


def softmax(call: Call, inputs: list[Value | None]) -> Tensor:
    return real(inputs[0]).softmax(dim=call.get("axis", -1))


def log_softmax(call: Call, inputs: list[Value | None]) -> Tensor:
    return real(inputs[0]).log_softmax(dim=call.get("axis", -1))


def batch_normalisation(call: Call, inputs: list[Value | None]) -> Tensor:
    x, scale, bias, mean, variance = (real(value) for value in inputs)
    return F.batch_norm(x, mean, variance, scale, bias, training=False, eps=call.get("epsilon", 1e-5))


def layer_normalisation(call: Call, inputs: list[Value | None]) -> Tensor:
    x, scale = real(inputs[0]), real(inputs[1])
    bias = real(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else None
    return F.layer_norm(x, x.shape[call.get("axis", -1) :], scale, bias, eps=call.get("epsilon", 1e-5))


def leaky_relu(call: Call, inputs: list[Value | None]) -> Tensor:
    return F.leaky_relu(real(inputs[0]), call.get("alpha", 0.01))


def elu(call: Call, inputs: list[Value | None]) -> Tensor:
    return F.elu(real(inputs[0]), call.get("alpha", 1.0))


def gelu(call: Call, inputs: list[Value | None]) -> Tensor:
    return F.gelu(real(inputs[0]), approximate=call.get("approximate", b"none").decode())


def hard_sigmoid(call: Call, inputs: list[Value | None]) -> Tensor:
    slope, offset = float(call.get("alpha", 0.2)), float(call.get("beta", 0.5))
    return (real(inputs[0]) * slope + offset).clamp(0, 1)


ELEMENTWISE: dict[str, Operator] = {
    "Abs": plain(torch.abs),
    "Add": plain(torch.add),
    "BatchNormalization": batch_normalisation,
    "Clip": clip,
    "Div": divide,
    "Elu": elu,
    "Erf": plain(torch.erf),
    "Exp": plain(torch.exp),
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": plain(F.hardswish),
    "LayerNormalization": layer_normalisation,
    "LeakyRelu": leaky_relu,
    "Log": plain(torch.log),
    "LogSoftmax": log_softmax,
    "Max": folded(torch.maximum),
    "Min": folded(torch.minimum),
    "Mul": plain(torch.mul),
    "Neg": plain(torch.neg),
    "Pow": plain(torch.pow),
    "PRelu": plain(lambda x, slope: torch.where(x < 0, x * slope, x)),
    "Reciprocal": plain(torch.reciprocal),
    "Relu": relu,
    "Sigmoid": plain(torch.sigmoid),
    "Softmax": softmax,
    "Softplus": plain(F.softplus),
    "Sqrt": plain(torch.sqrt),
    "Sub": plain(torch.sub),
    "Sum": folded(torch.add),
    "Tanh": plain(torch.tanh),
}
