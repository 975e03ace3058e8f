"""Checkpoints of locuslab/smoothing (Cohen et al., 2019) and of the many projects that use its format.

A file holds `arch` and `state_dict`. The network is the second module of a Sequential whose first one normalises, and
may be wrapped in DataParallel, so names begin with `1.` or `1.module.`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.models.cifar_resnet import resnet20, resnet110
from recert.models.loading import LoadedModel
from recert.models.normalization import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD, NormalizedNetwork
from recert.models.weights_files import fill, read_tensors


def _resnet50() -> nn.Module:
    from recert.models.libraries import torchvision_network

    return NormalizedNetwork(torchvision_network("resnet50"), IMAGENET_MEAN, IMAGENET_STD)


@dataclass(frozen=True)
class _Architecture:
    build: Callable[[], nn.Module]
    constants: tuple[tuple[float, ...], ...]
    classes: int
    input_shape: tuple[int, ...]


_CIFAR10, _IMAGENET = (CIFAR10_MEAN, CIFAR10_STD), (IMAGENET_MEAN, IMAGENET_STD)
ARCHITECTURES = {
    "cifar_resnet20": _Architecture(resnet20, _CIFAR10, 10, (3, 32, 32)),
    "cifar_resnet110": _Architecture(resnet110, _CIFAR10, 10, (3, 32, 32)),
    "resnet50": _Architecture(_resnet50, _IMAGENET, 1000, (3, 224, 224)),
}

SPECS = {"cifar_resnet20": "cifar-resnet20", "cifar_resnet110": "cifar-resnet110", "resnet50": "torchvision:resnet50"}
"""The same networks by the names that we have for them."""


def load_checkpoint(path: Path) -> LoadedModel:
    """The network of a checkpoint file, normalisation inside."""
    content = read_tensors(path)
    name, state = _name_and_state(content, path)
    if name not in ARCHITECTURES:
        raise UnusableModel(
            f"expected a checkpoint of {', '.join(ARCHITECTURES)}, got arch = {name!r} in {path}; "
            f"load its weights into your own network with package.module:factory@{path}"
        )
    architecture = ARCHITECTURES[name]
    network = architecture.build()
    inner = network.network if isinstance(network, NormalizedNetwork) else network
    fill(inner, _network_part(state, architecture, path), path)
    note = f"checkpoint {path}, arch {name}"
    return LoadedModel(network.eval(), name, architecture.classes, architecture.input_shape, note)


def architecture_in(path: Path) -> str | None:
    """The network of a checkpoint as a spec without weights; None if it is not known."""
    name, _ = _name_and_state(read_tensors(path), path)
    return SPECS.get(name)


def _name_and_state(content: Any, path: Path) -> tuple[str, Mapping[str, Tensor]]:
    if isinstance(content, Mapping):
        name, state = content.get("arch"), content.get("state_dict")
        if isinstance(name, str) and isinstance(state, Mapping):
            return name, state
    raise UnusableModel(
        f"expected a checkpoint with 'arch' and 'state_dict', got {path} without them; weights alone do not say which "
        f"network they belong to: write NAME@{path} or package.module:factory@{path}"
    )


def _network_part(state: Mapping[str, Tensor], architecture: _Architecture, path: Path) -> dict[str, Tensor]:
    """The state without the normalisation layer, once its constants are known to be the ones that we use."""
    part = {}
    for name, tensor in state.items():
        if not name.removeprefix("module.").startswith("0."):
            part[name] = tensor
        elif not any(_equal(tensor, constants) for constants in architecture.constants):
            raise UnusableModel(
                f"expected the usual normalisation {architecture.constants}, got {name} = {tensor.flatten().tolist()} "
                f"in {path}; load it with a factory of your own that normalises so"
            )
    return part


def _equal(tensor: Tensor, constants: tuple[float, ...]) -> bool:
    return tensor.numel() == len(constants) and torch.allclose(tensor.flatten().float(), torch.tensor(constants))
