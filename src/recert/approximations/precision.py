"""Half precision: of weights and computation, or of the weights alone. Their names say which."""

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

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
    return _rounded_weights(model, torch.float16, context)


def bf16_weights(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """The weights of `bf16`, computed in float32."""
    return _rounded_weights(model, torch.bfloat16, context)


def _rounded_weights(model: nn.Module, dtype: torch.dtype, context: Context) -> nn.Module:
    """Rounded and back in float32; of the layers that are meant, if not all."""
    if context.layers is None:
        return _rounded(model, dtype).float()
    layers = {name: module for name, module in model.named_modules() if any(_floats(module))}
    chosen = context.chosen(list(layers))
    places = [
        (module, name, tensor) for path, module in layers.items() if path in chosen for name, tensor in _floats(module)
    ]
    rounded = {id(tensor): _finite(name, tensor, tensor.detach().to(dtype)).float() for _, name, tensor in places}
    for _, _, tensor in places:
        tensor.data.copy_(rounded[id(tensor)])
    return model


def _floats(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """A module's own floating-point tensors."""
    own = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    return ((name, tensor) for name, tensor in own if tensor.is_floating_point())


def _rounded(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """All floating-point parameters and buffers in `dtype`; refuses a weight that becomes infinite."""
    finite = {name for name, tensor in model.state_dict().items() if bool(tensor.isfinite().all())}
    rounded = model.to(dtype)
    for name, tensor in rounded.state_dict().items():
        if name in finite:
            _check_finite(name, tensor, dtype)
    return rounded


def _finite(name: str, tensor: Tensor, rounded: Tensor) -> Tensor:
    if bool(tensor.isfinite().all()):
        _check_finite(name, rounded, rounded.dtype)
    return rounded


def _check_finite(name: str, rounded: Tensor, dtype: torch.dtype) -> None:
    if not bool(rounded.isfinite().all()):
        raise UnusableModel(
            f"{name} has values beyond the range of {str(dtype).removeprefix('torch.')} "
            f"(largest {torch.finfo(dtype).max:g}); use bf16 or bf16-weights, whose range is that of float32"
        )
