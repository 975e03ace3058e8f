"""What a training keeps between epochs: weights and momentum in one safetensors file, facts in its header."""

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
class Standing:
    """How far a training is: epochs done, and the last one's loss and accuracy."""

    settings: dict[str, Any]
    epochs_done: int = 0
    loss: float = float("nan")
    accuracy: float = float("nan")
    seconds: float = 0.0


def plain_state(network: nn.Module) -> dict[str, Tensor]:
    """The state dict as contiguous tensors on the CPU, which is what a file holds."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}


def write_state(file: Path, network: nn.Module, optimizer: torch.optim.SGD, standing: Standing) -> None:
    """Put the whole state in place, or nothing of it: one file, so that its parts cannot disagree."""
    tensors = {f"weights.{name}": tensor for name, tensor in plain_state(network).items()}
    for name, parameter in network.named_parameters():
        momentum = optimizer.state[parameter]["momentum_buffer"]
        tensors[f"momentum.{name}"] = momentum.detach().cpu().contiguous()
    facts = {_FACTS: json.dumps(standing.__dict__)}
    Directory(file.parent).write(file.name, safetensors.torch.save(tensors, facts))


def read_standing(file: Path) -> Standing:
    with safe_open(file, "pt") as content:
        return Standing(**json.loads(content.metadata()[_FACTS]))


def restore(file: Path, network: nn.Module, optimizer: torch.optim.SGD) -> None:
    """Weights and momentum as they were, in the memory layout and on the device that the network has now."""
    tensors = safetensors.torch.load_file(file)
    network.load_state_dict({name: tensors[f"weights.{name}"] for name in network.state_dict()})
    for name, parameter in network.named_parameters():
        momentum = torch.empty_like(parameter).copy_(tensors[f"momentum.{name}"])
        optimizer.state[parameter]["momentum_buffer"] = momentum.detach()
