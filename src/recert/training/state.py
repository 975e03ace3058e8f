"""What a training saves after every epoch: weights and momentum in one safetensors file, facts in its header."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from recert.storage import Directory

_FACTS = "training"


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training is: epochs done, and the last one's loss and accuracy."""

    settings: dict[str, Any]
    epochs_done: int = 0
    loss: float = float("nan")
    accuracy: float = float("nan")
    seconds: float = 0.0
    before: dict[str, Any] | None = None


def plain_state(network: nn.Module) -> dict[str, Tensor]:
    """The state dict as contiguous tensors on the CPU, which is what a file holds; tensors that are shared, once for each name."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in network.state_dict().items()}


def write_state(file: Path, network: nn.Module, optimizer: torch.optim.Optimizer, reached: TrainingProgress) -> None:
    """Put the whole state in place, or nothing of it: one file, so that its parts cannot disagree."""
    tensors = {f"weights.{name}": tensor for name, tensor in plain_state(network).items()}
    for name, parameter in network.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"{key}.{name}"] = value.detach().cpu().clone().contiguous()
    facts = {_FACTS: json.dumps(reached.__dict__)}
    Directory(file.parent).write(file.name, safetensors.torch.save(tensors, facts))


def read_progress(file: Path) -> TrainingProgress:
    with safe_open(file, "pt") as content:
        return TrainingProgress(**json.loads(content.metadata()[_FACTS]))


def restore(file: Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Weights and the optimiser's averages as they were, in the memory layout and on the device that the network has now."""
    tensors = safetensors.torch.load_file(file)
    network.load_state_dict({name: tensors.pop(f"weights.{name}") for name in network.state_dict()})
    parameters = dict(network.named_parameters())
    on_device = any(group.get("capturable") or group.get("fused") for group in optimizer.param_groups)
    for entry, value in tensors.items():
        key, _, name = entry.partition(".")
        parameter = parameters[name]
        if value.shape == parameter.shape:
            kept = torch.empty_like(parameter).copy_(value).detach()
        else:  # a count of steps
            kept = value.to(parameter.device) if on_device else value
        optimizer.state[parameter][key] = kept
