"""Values in a twin: real tensors, and integers with their scale."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Scaled:
    """Integers, held in float32 with the zero point taken off, and the scale (broadcastable) that makes them real.

    Float32 holds integers up to 2**24 exactly, and TF32 those of 8 bits: sums of products of them are exact on any
    device, as in integer kernels, unless they grow beyond 2**24 (518 products of the largest values).
    """

    integers: Tensor
    scale: Tensor

    @property
    def real(self) -> Tensor:
        return self.integers * self.scale

    @property
    def one_scale(self) -> bool:
        return self.scale.numel() == 1


@dataclass(frozen=True)
class Known:
    """Integers of the file itself (a shape, axes), also as plain numbers: a compiler need not look into a tensor."""

    real: Tensor
    numbers: tuple[int, ...]


Value = Tensor | Scaled | Known
"""Integer tensors (shapes, axes) live on the CPU; everything else on the twin's device."""


@dataclass(frozen=True)
class Call:
    """One node of the graph: its operator, the names it reads ("" if left out) and writes, its attributes."""

    operator: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any) -> Any:
        return self.attributes.get(name, default)


Operator = Callable[[Call, list[Value | None]], Any]
"""Computes a node from its inputs: one value, or a tuple where the node writes several."""


def real(value: Value | None) -> Tensor:
    """The value as a real tensor."""
    if value is None:
        raise ValueError("expected an input, got none")
    return value if isinstance(value, Tensor) else value.real


def numbers(value: Value | None) -> list[int]:
    """A shape, axes or pads as a list."""
    if isinstance(value, Known):
        return list(value.numbers)
    return [int(number) for number in real(value).flatten().tolist()]
