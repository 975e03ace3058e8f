"""Operators that move values without computing, and the arithmetic of shapes."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from recert.approximations.twin.values import Call, Operator, Value, numbers, real
from recert.errors import UnusableModel

CAST_TO = {1: torch.float32, 6: torch.int64, 7: torch.int64}  # numbers of TensorProto.DataType
TORCH_MODES = {b"constant": "constant", b"reflect": "reflect", b"edge": "replicate"}


def identity(call: Call, inputs: list[Value | None]) -> Value | None:
    return inputs[0]


def flatten(call: Call, inputs: list[Value | None]) -> Tensor:
    x, axis = real(inputs[0]), call.get("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def reshape(call: Call, inputs: list[Value | None]) -> Tensor:
    x, shape = real(inputs[0]), numbers(inputs[1])
    if not call.get("allowzero", 0):
        shape = [x.shape[i] if length == 0 else length for i, length in enumerate(shape)]
    return x.reshape(shape)


def transpose(call: Call, inputs: list[Value | None]) -> Tensor:
    x = real(inputs[0])
    return x.permute(call.get("perm", list(reversed(range(x.ndim)))))


def squeeze(call: Call, inputs: list[Value | None]) -> Tensor:
    x, axes = real(inputs[0]), _axes(call, inputs)
    return x.squeeze(tuple(axes)) if axes else x.squeeze()


def unsqueeze(call: Call, inputs: list[Value | None]) -> Tensor:
    x, axes = real(inputs[0]), _axes(call, inputs)
    dimensions = x.ndim + len(axes)
    for axis in sorted(axis % dimensions for axis in axes):
        x = x.unsqueeze(axis)
    return x


def cast(call: Call, inputs: list[Value | None]) -> Tensor:
    if call.attributes["to"] not in CAST_TO:
        raise UnusableModel(f"expected Cast to float32 or an integer type, got type number {call.attributes['to']}")
    return real(inputs[0]).to(CAST_TO[call.attributes["to"]])


def concat(call: Call, inputs: list[Value | None]) -> Tensor:
    return torch.cat([real(value) for value in inputs], dim=call.attributes["axis"])


def split(call: Call, inputs: list[Value | None]) -> tuple[Tensor, ...]:
    x, axis = real(inputs[0]), call.get("axis", 0)
    if len(inputs) > 1 and inputs[1] is not None:
        lengths: int | list[int] = numbers(inputs[1])
    else:
        lengths = -(-x.shape[axis] // len(call.writes))
    return torch.split(x, lengths, dim=axis)


def take_slice(call: Call, inputs: list[Value | None]) -> Tensor:
    x = real(inputs[0])
    starts, ends = numbers(inputs[1]), numbers(inputs[2])
    axes = numbers(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else list(range(len(starts)))
    steps = numbers(inputs[4]) if len(inputs) > 4 and inputs[4] is not None else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        chosen = range(x.shape[axis])[start:end:step]
        if step > 0:
            x = x[(slice(None),) * (axis % x.ndim) + (slice(chosen.start, chosen.stop, step),)]
        else:
            x = x.index_select(axis, torch.tensor(list(chosen), dtype=torch.int64, device=x.device))
    return x


def gather(call: Call, inputs: list[Value | None]) -> Tensor:
    x, index, axis = real(inputs[0]), real(inputs[1]), call.get("axis", 0)
    axis = axis % x.ndim
    wrapped = torch.where(index < 0, index + x.shape[axis], index).to(x.device)
    chosen = x.index_select(axis, wrapped.flatten())
    return chosen.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def gather_nd(call: Call, inputs: list[Value | None]) -> Tensor:
    x, index = real(inputs[0]), real(inputs[1])
    if call.get("batch_dims", 0):
        raise UnusableModel(f"expected GatherND without batch_dims, got batch_dims={call.get('batch_dims', 0)}")
    return x[tuple(index.to(x.device).unbind(-1))]


def number_range(call: Call, inputs: list[Value | None]) -> Tensor:
    start, limit, step = (int(real(value)) for value in inputs)
    return torch.arange(start, limit, step, dtype=torch.int64)


def pad(call: Call, inputs: list[Value | None]) -> Tensor:
    x, pads = real(inputs[0]), numbers(inputs[1])
    value = inputs[2] if len(inputs) > 2 else None
    fill = 0.0 if value is None else float(real(value))
    axes = numbers(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else list(range(x.ndim))
    mode = call.get("mode", b"constant")
    if mode not in TORCH_MODES:
        raise UnusableModel(f"expected Pad with constant, reflect or edge mode, got {mode.decode()!r}")
    begins = dict(zip((axis % x.ndim for axis in axes), pads[: len(axes)], strict=True))
    ends = dict(zip((axis % x.ndim for axis in axes), pads[len(axes) :], strict=True))
    flat = [side for axis in reversed(range(x.ndim)) for side in (begins.get(axis, 0), ends.get(axis, 0))]
    if mode == b"constant":
        return F.pad(x, flat, value=fill)
    if any(flat[-4:]):
        raise UnusableModel(f"expected Pad in {mode.decode()} mode beyond batch and channels only, got pads {pads}")
    return F.pad(x, flat[:-4], mode=TORCH_MODES[mode])


def shape_of(call: Call, inputs: list[Value | None]) -> Tensor:
    lengths = real(inputs[0]).shape[call.get("start", 0) : call.get("end", None)]
    return torch.tensor(lengths, dtype=torch.int64)


def expand(call: Call, inputs: list[Value | None]) -> Tensor:
    x = real(inputs[0])
    return x.expand(np.broadcast_shapes(tuple(x.shape), tuple(numbers(inputs[1]))))


def _axes(call: Call, inputs: list[Value | None]) -> list[int]:
    """Axes given as an input, or as an attribute by older files."""
    axes: list[int] = numbers(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else call.get("axes", [])
    return axes


SHAPES: dict[str, Operator] = {
    "Cast": cast,
    "Concat": concat,
    "Dropout": identity,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "GatherND": gather_nd,
    "Identity": identity,
    "Pad": pad,
    "Range": number_range,
    "Reshape": reshape,
    "Shape": shape_of,
    "Slice": take_slice,
    "Split": split,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
