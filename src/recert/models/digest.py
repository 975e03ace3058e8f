"""Digests that say which model was certified, and the numerics it ran with."""

import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from recert.models.identity import UNKNOWN, ModelIdentity
from recert.models.inference import PreparedModel, tf32_flags
from recert.models.numerics import Numerics
from recert.models.permanent import masked, masks
from recert.models.process_settings import unusual_settings
from recert.models.structure import structure_digest
from recert.models.tensors import bytes_of, held_by, layers, parts_of, tensors_in
from recert.models.walk_modules import unwrapped

MOST_SHOWN = 300
LONGEST_NAME = 1000
"""Of a name that a user gives a model."""


def identify(model: nn.Module | Callable[..., Any], name: str | None = None) -> ModelIdentity:
    """Identity of a model. Of a callable there are no weights to digest: its identity is `name`, or "unnamed".

    A module with an attribute that cannot be looked into has no identity either unless it is given a name.
    """
    check_name(name)
    run_as, around = "", [model] if isinstance(model, nn.Module) else []
    model = unwrapped(model)
    if isinstance(model, PreparedModel):
        around += [model, model.network]
        run_as, model = f" run as {model.inference}", unwrapped(model.network)
    if not isinstance(model, nn.Module):
        return ModelIdentity("callable", name or "unnamed")
    structure, unknown = structure_digest(model, f"{name or ''}{run_as}", around)
    if unknown and name is None:
        return ModelIdentity(_weights_digest(model), f"{UNKNOWN}{', '.join(dict.fromkeys(unknown))}"[:MOST_SHOWN])
    return ModelIdentity(_weights_digest(model), structure)


def check_name(name: str | None) -> None:
    """ValueError unless a name that a model is given can be printed, and so be read again."""
    if name is None:
        return
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        shown = repr(name) if len(repr(name)) < MOST_SHOWN else f"{len(name)} characters"
        raise ValueError(
            f"expected identity=... as a name of 1 to {LONGEST_NAME} printable characters, got {shown}; e.g. 'my-api-2024-05'"
        )


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
    described |= unusual_settings(device)
    return Numerics.from_text(described)


def _weights_digest(model: nn.Module) -> str:
    return _digest_of(weights_of(model))


def digest_of_tensors(tensors: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of tensors by name: what the weights of a model are known by."""
    return _digest_of(_parts(tensors))


def _digest_of(parts: Iterator[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for text, content in parts:
        digest.update(text.encode())
        digest.update(content)
    return digest.hexdigest()


def weights_of(model: nn.Module) -> Iterator[tuple[str, bytes]]:
    """Each tensor: its name, type and shape as one text, and its bytes. Masks are multiplied with what they are on."""
    tensors = held_by(model)
    for place, module in layers(model):
        for name in masks(module):
            path = f"{place}.{name}".lstrip(".")
            tensors = {each: value for each, value in tensors.items() if each not in (f"{path}_orig", f"{path}_mask")}
            tensors[path] = masked(module, name)
    yield from _parts(tensors)


def _parts(tensors: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Each tensor, and those that are inside others: name, type and shape as one text, and the bytes."""
    # A part that torch.compile has wrapped has one name more, and the same weights. Other modules may have a part of that name.
    named = sorted((name.replace("_orig_mod.", ""), name) for name in tensors)
    found = [part for short, name in named for tensor in tensors_in(tensors[name]) for part in parts_of(tensor, short)]
    for (short, tensor), content in zip(found, bytes_of([tensor for _, tensor in found]), strict=True):
        yield f"{short}:{tensor.dtype}:{tuple(tensor.shape)};", content
