"""Half precision: of weights and computation, or of the weights alone. Their names say which."""

import warnings

import torch
from torch import nn

from recert.approximations.context import Context
from recert.errors import UnusableModel

SLOW_ON_CPU = "convolutions in float16 are tens to hundreds of times slower than float32 on a CPU"


def fp16(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """Weights and computation in float16."""
    rounded = _rounded(model, torch.float16)
    if any(tensor.device.type == "cpu" for tensor in rounded.parameters()):
        context.description = f"weights and computation in float16; {SLOW_ON_CPU}"
        warnings.warn(
            f"{SLOW_ON_CPU}; use 'fp16-weights' (rounded weights, computed in float32) there, or a GPU", stacklevel=3
        )
    else:
        context.description = "weights and computation in float16"
    return rounded


def bf16(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """Weights and computation in bfloat16."""
    return _rounded(model, torch.bfloat16)


def fp16_weights(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """The weights of `fp16`, computed in float32: the same rounding of what is stored, none of what is computed."""
    return _rounded(model, torch.float16).float()


def bf16_weights(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """The weights of `bf16`, computed in float32."""
    return _rounded(model, torch.bfloat16).float()


def _rounded(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """All floating-point parameters and buffers in `dtype`; refuses a weight that becomes infinite."""
    finite = {name for name, tensor in model.state_dict().items() if bool(tensor.isfinite().all())}
    rounded = model.to(dtype)
    for name, tensor in rounded.state_dict().items():
        if name in finite and not bool(tensor.isfinite().all()):
            raise UnusableModel(
                f"{name} has values beyond the range of {str(dtype).removeprefix('torch.')} "
                f"(largest {torch.finfo(dtype).max:g}); use bf16 or bf16-weights, whose range is that of float32"
            )
    return rounded
