"""Weights from files that cannot run code: safetensors, and PyTorch files read with `weights_only=True`."""

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.models.cards import card_of
from recert.models.saved import fill_exactly, stored_tensors

State = dict[str, Tensor]

_WRAPPERS = ("state_dict", "model_state_dict", "model")
_PREFIXES = ("module.", "_orig_mod.", "model.", "network.", "1.")
"""What DataParallel, torch.compile and a Sequential behind a normalisation layer put before every name."""


def load_weights(network: nn.Module, path: Path) -> str:
    """Put the weights of a file into the network, all of them or none, and describe them in a few words."""
    if path.is_file() and (card := card_of(path)) is not None:
        fill_exactly(network, stored_tensors(path), card, path)
        return f"{path.name}, {card.approximation or 'weights'}, as it was saved"
    state = fill(network, _state_of(read_tensors(path), path), path)
    kinds = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()} - {torch.float32}
    if not kinds:
        return f"weights from {path.name}"
    stored = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
    return f"weights from {path.name}, stored as {stored} and computed in float32"


def read_tensors(path: Path) -> Any:
    """What a weights file holds; nothing in it can make this run code.

    PyTorch files are pickles, and a pickle can call any function. The weights-only reader builds tensors and plain
    containers and refuses everything else.
    """
    if not path.is_file():
        raise ValueError(f"expected a weights file, got {str(path)!r}, which does not exist; check the path")
    if path.suffix.lower() == ".safetensors":
        try:
            return safetensors.torch.load_file(path)
        except (safetensors.SafetensorError, OSError) as error:
            raise UnusableModel(
                f"expected a safetensors file, got {path}, which is not one ({error}); save it again with safetensors"
            ) from None
    try:
        with warnings.catch_warnings(action="ignore"):  # about formats; what matters is whether it holds tensors only
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # an untrusted file can fail in any way, and each means that it holds no tensors
        raise UnusableModel(
            f"expected a file of tensors only, got {path}, which holds {_refused_content(error)}; nothing of it was run. "
            "Save weights with torch.save(model.state_dict(), FILE) or with safetensors"
        ) from None


def fill(network: nn.Module, state: Mapping[str, Tensor], source: object) -> State:
    """Load a state dict whose names and shapes must be the network's, up to a prefix; returns what was loaded."""
    wanted = network.state_dict()
    matched = _without_prefixes(state, wanted)
    # Batch counters do not enter the output, and old checkpoints have none.
    missing = [name for name in wanted if name not in matched and not name.endswith("num_batches_tracked")]
    surplus = [name for name in matched if name not in wanted]
    if missing or surplus:
        raise UnusableModel(
            f"expected the weights of {type(network).__name__}, got {source}, in which {len(missing)} of {len(wanted)} "
            f"tensors are missing{_examples(missing)} and {len(surplus)} have no place{_examples(surplus)}; "
            "use the architecture they were made for"
        )
    for name, tensor in matched.items():
        if tensor.shape != wanted[name].shape:
            raise UnusableModel(
                f"expected {name} of shape {tuple(wanted[name].shape)}, got {tuple(tensor.shape)} in {source}; "
                "use the architecture these weights were made for"
            )
    network.load_state_dict(matched, strict=False)
    return matched


def _state_of(content: Any, path: Path) -> Mapping[str, Tensor]:
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if isinstance(content, Mapping) and content and all(isinstance(tensor, Tensor) for tensor in content.values()):
        return content
    raise UnusableModel(
        f"expected a state dict (names to tensors), got {type(content).__name__} in {path}; "
        "save it with torch.save(model.state_dict(), FILE) or with safetensors"
    )


def _without_prefixes(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> State:
    found = dict(state)
    while found and not found.keys() & wanted.keys():
        prefix = next((p for p in _PREFIXES if all(name.startswith(p) for name in found)), None)
        if prefix is None:
            return found
        found = {name.removeprefix(prefix): tensor for name, tensor in found.items()}
    return found


def _examples(names: Iterable[str]) -> str:
    first = next(iter(names), None)
    return f" ({first}, ...)" if first else ""


def _refused_content(error: Exception) -> str:
    """What the weights-only reader refused. Its own text is not shown, since it advises to switch the protection off."""
    named = re.search(r"GLOBAL (\S+)", str(error)) or re.search(r"(?:class|function|type) (\S+\.\S+)", str(error))
    if named:
        return f"the Python object {named.group(1)}"
    if "TorchScript" in str(error):
        return "a TorchScript program"
    return f"something else ({type(error).__name__})"
