"""Digests that say which model was certified, and the numerics it ran with."""

import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
LARGE = 2**20
"""Bytes of a tensor that is digested by itself."""


@dataclass(frozen=True)
class Structure:
    """What a model is beside its weights: a digest, and what could not be looked into."""

    digest: str
    unknown: tuple[str, ...] = ()


def identify(
    model: nn.Module | Callable[..., Any], name: str | None = None, structure: Structure | None = None
) -> ModelIdentity:
    """Identity of a model. Of a callable there are no weights to digest: its identity is `name`, or "unnamed".

    A module with an attribute that cannot be looked into has no identity either unless it is given a name. The structure may be known.
    """
    check_name(name)
    network = _network_in(model)
    if not isinstance(network, nn.Module):
        return ModelIdentity("callable", name or "unnamed")
    structure = structure or structure_of(model, name)
    if structure.unknown and name is None:
        return ModelIdentity(_weights_digest(network), f"{UNKNOWN}{', '.join(structure.unknown)}"[:MOST_SHOWN])
    return ModelIdentity(_weights_digest(network), structure.digest)


def structure_of(model: nn.Module | Callable[..., Any], name: str | None = None) -> Structure:
    """All of a model but its weights; of a callable nothing."""
    network, inside = _network_in(model), unwrapped(model)
    if not isinstance(network, nn.Module):
        return Structure("")
    run_as, around = "", [model] if isinstance(model, nn.Module) else []
    if isinstance(inside, PreparedModel):
        around += [inside, inside.network]
        run_as = f" run as {inside.inference}"
    digest, unknown = structure_digest(network, f"{name or ''}{run_as}", around)
    return Structure(digest, tuple(dict.fromkeys(unknown)))


def _network_in(model: nn.Module | Callable[..., Any]) -> Any:
    """The network itself, without what compiles it and how it is run."""
    inside = unwrapped(model)
    return unwrapped(inside.network) if isinstance(inside, PreparedModel) else inside


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
    digest, small = hashlib.sha256(), bytearray()
    for text, content in parts:
        small += text.encode()
        # Small ones together: each call of the digest gives the interpreter lock away, and waits for it where other threads compute.
        if len(content) < LARGE:
            small += content
        if len(content) >= LARGE or len(small) >= LARGE:
            digest.update(small)
            small.clear()
        if len(content) >= LARGE:
            digest.update(content)
    digest.update(small)
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
