"""Digests that say which model was certified, and the numerics it ran with."""

import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from recert.models.identity import UNKNOWN, ModelIdentity
from recert.models.inference import PreparedModel, tf32_flags
from recert.models.numerics import Numerics
from recert.models.structure import structure_digest, unwrapped
from recert.models.tensors import bytes_of

MOST_SHOWN = 300


def identify(model: nn.Module | Callable[..., Any], name: str | None = None) -> ModelIdentity:
    """Identity of a model. Of a callable there are no weights to digest: its identity is `name`, or "unnamed".

    A module with an attribute that cannot be looked into has no identity either unless it is given a name.
    """
    run_as, model = "", unwrapped(model)
    if isinstance(model, PreparedModel):
        run_as, model = f" run as {model.inference}", unwrapped(model.network)
    if not isinstance(model, nn.Module):
        return ModelIdentity("callable", name or "unnamed")
    structure, unknown = structure_digest(model, f"{name or ''}{run_as}")
    if unknown and name is None:
        return ModelIdentity(_weights_digest(model), f"{UNKNOWN}{', '.join(dict.fromkeys(unknown))}"[:MOST_SHOWN])
    return ModelIdentity(_weights_digest(model), structure)


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
    # Settings of the whole process that change how torch computes, where they are not the usual ones.
    settings = {
        "default_dtype": (str(torch.get_default_dtype()).removeprefix("torch."), "float32"),
        "mkldnn": (str(torch.backends.mkldnn.enabled), "True"),
    }
    if device.type != "cuda":  # there the flags of TF32 say it
        settings["float32_matmul_precision"] = torch.get_float32_matmul_precision(), "highest"
    described |= {name: now for name, (now, usual) in settings.items() if now != usual}
    return Numerics.from_text(described)


def _weights_digest(model: nn.Module) -> str:
    tensors: dict[str, Any] = {
        **model.state_dict(keep_vars=True),  # what torch's quantised layers keep packed is in here alone
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    return digest_of_tensors(tensors)


def digest_of_tensors(tensors: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of tensors by name: what the weights of a model are known by."""
    digest = hashlib.sha256()
    # A part that torch.compile has wrapped has one name more, and the same weights. Other modules may have a part of that name.
    named = sorted((name.replace("_orig_mod.", ""), name) for name in tensors)
    found = [(short, tensor) for short, name in named for tensor in _tensors_in(tensors[name])]
    for (short, tensor), content in zip(found, bytes_of([tensor for _, tensor in found]), strict=True):
        digest.update(f"{short}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        digest.update(content)
    return digest.hexdigest()


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors_in(each)
