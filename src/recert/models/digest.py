"""Digests that say which model was certified, and the numerics it ran with."""

import ast
import hashlib
import inspect
import platform
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from recert.models.identity import ModelIdentity
from recert.models.inference import PreparedModel, tf32_flags
from recert.models.numerics import Numerics


def identify(model: nn.Module | Callable[..., Any], name: str | None = None) -> ModelIdentity:
    """Identity of a model. Of a callable there are no weights to digest: its identity is `name`, or "unnamed"."""
    if isinstance(model, PreparedModel):
        return identify(model.network, f"{name or ''} run as {model.inference}")
    if isinstance(model, nn.Module):
        return ModelIdentity(_weights_digest(model), _structure_digest(model, name))
    return ModelIdentity("callable", name or "unnamed")


def numerics_on(device: torch.device, dtype: torch.dtype | None, batch_size: int) -> Numerics:
    """Everything beside the weights that can change the last bit of a logit."""
    described = {
        "dtype": str(dtype).removeprefix("torch."),
        "device": device.type,
        "batch_size": str(batch_size),
        "torch": torch.__version__.partition("+")[0],
        "processor": platform.machine(),
    }
    if device.type == "cpu":  # kernels are chosen by the vector instructions, and sum in another order with others
        described["processor"] += f" {torch.backends.cpu.get_cpu_capability()}"
    if device.type == "cuda":
        described["processor"] = torch.cuda.get_device_name(device)
        described["tf32_convolutions"], described["tf32_matmuls"] = (str(flag) for flag in tf32_flags())
        described["cudnn_benchmark"] = str(torch.backends.cudnn.benchmark)
    return Numerics.from_text(described)


def _weights_digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    tensors: dict[str, Any] = {
        **model.state_dict(keep_vars=True),  # what torch's quantised layers keep packed is in here alone
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    for name in sorted(tensors):
        for tensor in _tensors_in(tensors[name]):
            digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
            digest.update(_bytes(tensor))
    return digest.hexdigest()


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors_in(each)


def _bytes(tensor: Tensor) -> bytes:
    if tensor.is_quantized:
        tensor = torch.cat([tensor.int_repr().flatten().double(), tensor.dequantize().flatten().double()])
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _structure_digest(model: nn.Module, name: str | None) -> str:
    """Digest of the module tree: class, settings, hooks and code of every module."""
    digest = hashlib.sha256((name or "").encode())
    for path, module in model.named_modules():
        kind = type(module)
        # The source of every class that is not torch's own is part of the digest: a changed `forward` is another model.
        digest.update(
            f"{path}:{kind.__module__}.{kind.__qualname__}({module.extra_repr()}){_settings(module)};".encode()
        )
        for ancestor in kind.__mro__:
            if not ancestor.__module__.startswith(("torch.", "builtins", "typing")):
                digest.update(_code(ancestor).encode())
    return digest.hexdigest()


def _settings(module: nn.Module) -> str:
    """Plain public attributes, which `forward` may look at whether or not the module prints them; and hooks."""
    left_out = {"training", *getattr(module, "not_identity", ())}
    public = {name: value for name, value in vars(module).items() if name[0] != "_" and name not in left_out}
    plain = {name: text for name, value in sorted(public.items()) if (text := _plain(value)) is not None}
    hooks = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
    return f"{plain}{[_plain(hook) or type(hook).__qualname__ for hook in hooks]}"


def _plain(value: Any) -> str | None:
    """Text of a value made of numbers, texts and names of functions; None of anything else."""
    if isinstance(value, bool | int | float | complex | str | bytes | torch.dtype | None):
        return repr(value)
    if isinstance(value, tuple | list):
        texts = [_plain(each) for each in value]
        return None if None in texts else f"[{', '.join(map(str, texts))}]"
    if isinstance(value, dict):
        return _plain([*map(_plain, value), *value.values()])
    return f"{value.__module__}.{value.__qualname__}" if inspect.isroutine(value) else None


def _code(kind: type) -> str:
    """All methods of a class, without comments, layout and docstrings: those may change without changing the identity."""
    methods = {name: getattr(value, "__func__", getattr(value, "fget", value)) for name, value in vars(kind).items()}
    return "".join(f"{name}:{_source(m)};" for name, m in sorted(methods.items()) if inspect.isfunction(m))


def _source(function: FunctionType) -> str:
    """What a function does, as text; its compiled code if there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        code = function.__code__
        return f"{code.co_code.hex()}{_plain(code.co_consts)}{code.co_names}"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.unparse(tree)
