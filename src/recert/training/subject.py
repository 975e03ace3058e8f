"""What is trained: a shipped network, one that a spec names, or a module of the user's."""

import copy
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from recert.errors import UnusableModel
from recert.models.loading import load_model
from recert.models.registry import ModelEntry, build_model, model_entry
from recert.models.specs import parse_spec
from recert.models.weights_files import load_weights
from recert.training.examples import Examples


@dataclass(frozen=True, eq=False)
class Subject:
    """A network of its own, its name for files and cards, and its weights' origin: None where they are drawn from the seed."""

    network: nn.Module
    name: str
    architecture: str
    start: str | None
    entry: ModelEntry | None = None


def subject_of(model: Any, start: Path | None, seed: int) -> Subject:
    """The network to train, which is a copy: what the user holds stays as it is."""
    if isinstance(model, str | os.PathLike):
        subject = _of_spec(os.fspath(model), seed)
    elif isinstance(model, nn.Module):
        kind = type(model)
        subject = Subject(copy.deepcopy(model), kind.__name__, f"{kind.__module__}:{kind.__qualname__}", None)
    else:
        raise ValueError(
            f"expected a torch.nn.Module to train, or a spec such as digits or package.module:factory, got {type(model).__name__}"
        )
    if start is not None:
        load_weights(subject.network, start)
        subject = Subject(
            subject.network, subject.name, subject.architecture, weights_digest(subject.network), subject.entry
        )
    _check_trainable(subject.network)
    return subject


def _of_spec(text: str, seed: int) -> Subject:
    spec = parse_spec(text)
    with seeded(torch.device("cpu"), seed):
        if spec.kind == "registered" and spec.argument is None and spec.weights is None:
            entry = model_entry(spec.name)
            return Subject(build_model(spec.name), entry.name, entry.name, None, entry)
        network = load_model(text).model
    if not isinstance(network, nn.Module):
        raise UnusableModel(
            f"expected a torch.nn.Module to train, got a function from {text}; only a network has weights"
        )
    if spec.kind == "registered":
        entry = model_entry(spec.name)
        return Subject(network, entry.name, entry.name, weights_digest(network), entry)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", Path(spec.name).stem if spec.kind == "file" else spec.argument or spec.name)
    known = spec.kind in ("library", "file") or spec.weights is not None
    architecture = spec.name if spec.argument is None else f"{spec.name}:{spec.argument}"
    return Subject(network, name, architecture, weights_digest(network) if known else None)


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Within it torch's global generators start from the seed; afterwards they are as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def weights_digest(network: nn.Module) -> str:
    """Of all parameters and buffers, by name."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _check_trainable(network: nn.Module) -> None:
    trained = [each for each in network.parameters() if each.requires_grad]
    if not trained:
        raise UnusableModel(
            f"expected a network with weights to train, got {type(network).__name__}, which has none that require a gradient; "
            "train the original network, not its quantised or exported form"
        )
    kinds = {each.dtype for each in trained} - {torch.float32}
    if kinds:
        raise UnusableModel(f"expected weights in float32, got {next(iter(kinds))}; convert the network with .float()")


def classes_of(subject: Subject, examples: Examples) -> int:
    """How many classes the network knows, asked of two examples; an error says what does not fit."""
    if subject.entry is not None and examples.shape != subject.entry.input_shape:
        raise ValueError(
            f"expected inputs of shape {subject.entry.input_shape} for {subject.name}, got {examples.shape} in {examples.name}; "
            "use the data set that the network was made for"
        )
    if subject.entry is not None:
        return subject.entry.classes
    inputs, _ = next(examples.batches(torch.arange(min(2, examples.count)), 2))
    device = next(subject.network.parameters()).device
    subject.network.eval()
    try:
        with torch.no_grad():
            logits = subject.network(inputs.to(device))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise UnusableModel(
            f"expected a network that takes inputs of shape {examples.shape}, as {examples.name} has them, got {type(error).__name__} from "
            f"{subject.name}: {str(error)[:200]}; resize the inputs or use another network"
        ) from error
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or len(logits) != len(inputs):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise UnusableModel(
            f"expected logits of shape (batch, classes) from {subject.name}, got {got}; wrap the network so that it returns them"
        )
    return logits.shape[1]
