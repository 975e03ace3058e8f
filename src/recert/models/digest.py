"""Digests that say which model was certified, and the numerics it ran with."""

import ast
import hashlib
import inspect
import platform
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from recert.models.identity import ModelIdentity
from recert.models.inference import PreparedModel, tf32_flags


def identify(model: nn.Module | Callable[..., Any], name: str | None = None) -> ModelIdentity:
    """Identity of a model. A callable has no weights to look at: `name` stands for it, or "unnamed"."""
    if isinstance(model, PreparedModel):
        return identify(model.network, f"{name or ''} run as {model.inference}")
    if isinstance(model, nn.Module):
        return ModelIdentity(_weights_digest(model), _structure_digest(model, name))
    return ModelIdentity("callable", name or "unnamed")


def numerics(device: torch.device, dtype: torch.dtype | None, batch_size: int) -> dict[str, str]:
    """Everything beside the weights that can change the last bit of a logit."""
    described = {
        "dtype": str(dtype).removeprefix("torch."),
        "device": device.type,
        "batch_size": str(batch_size),
        "torch": torch.__version__.partition("+")[0],
        "processor": platform.machine(),
    }
    if device.type == "cpu":
        described["processor"] += f" {torch.backends.cpu.get_cpu_capability()}"
    if device.type == "cuda":
        described["processor"] = torch.cuda.get_device_name(device)
        described["tf32_convolutions"], described["tf32_matmuls"] = (str(flag) for flag in tf32_flags())
        described["cudnn_benchmark"] = str(torch.backends.cudnn.benchmark)
    return described


def _weights_digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    tensors = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    if tensor.is_quantized:
        tensor = torch.cat([tensor.int_repr().flatten().double(), tensor.dequantize().flatten().double()])
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _structure_digest(model: nn.Module, name: str | None) -> str:
    """Digest of the module tree: class, settings and forward code of every module."""
    digest = hashlib.sha256((name or "").encode())
    for path, module in model.named_modules():
        kind = type(module)
        digest.update(f"{path}:{kind.__module__}.{kind.__qualname__}({module.extra_repr()});".encode())
        if not kind.__module__.startswith("torch."):
            digest.update(_forward_code(kind).encode())
    return digest.hexdigest()


def _forward_code(kind: type[nn.Module]) -> str:
    """The forward method without comments and layout; empty when its source is not at hand."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind.forward)))
    except (OSError, TypeError, SyntaxError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.unparse(tree)
