"""The inner loop: one epoch of noisy training, and accuracy afterwards."""

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recert.data import Dataset
from recert.noise import Noise
from recert.training.augmentation import augmented, noisy
from recert.training.recipes import Recipe
from recert.training.step import Step

_TEST_BATCH = 1024


@dataclass(frozen=True, eq=False)
class Examples:
    """A data set on the device, whole: the largest of ours takes 0.6 GB."""

    inputs: Tensor
    labels: Tensor

    @classmethod
    def of(cls, data: Dataset, device: torch.device) -> "Examples":
        return cls(torch.from_numpy(data.inputs).to(device), torch.from_numpy(data.labels).to(device))


def generator_for(device: torch.device, seed: int, purpose: object) -> torch.Generator:
    """A generator that depends on (seed, purpose) alone, so that an interrupted training continues with the same draws."""
    digest = hashlib.sha256(f"recert training:{seed}:{purpose}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.SGD:
    """One group decays and one does not: shrinking a bias or a normalisation scale is no regularisation.

    On a GPU the learning rate is a tensor there, so that a recorded step can read it.
    """
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    groups: list[dict[str, Any]] = [{"params": weights}, {"params": others, "weight_decay": 0.0}]
    device = weights[0].device
    on_gpu = device.type == "cuda"
    rate = torch.tensor(recipe.learning_rate, device=device) if on_gpu else recipe.learning_rate
    return torch.optim.SGD(
        groups, lr=rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, nesterov=True, fused=on_gpu or None
    )


def train_epoch(
    step: Step, examples: Examples, recipe: Recipe, noise: Noise, epoch: int, generator: torch.Generator
) -> tuple[float, float]:
    """One pass over the examples in random order; returns the mean loss and the accuracy along the way."""
    step.network.train()
    step.totals.zero_()
    order = torch.randperm(len(examples.labels), generator=generator, device=examples.labels.device)
    batches = torch.split(order, recipe.batch_size)
    for number, chosen in enumerate(batches):
        images = _laid_out(augmented(examples.inputs[chosen], recipe, noise, generator))
        rate = recipe.rate_at((epoch + (number + 0.5) / len(batches)) / recipe.epochs)
        step.take(images, examples.labels[chosen], rate)
    loss_sum, correct = step.totals.tolist()
    return loss_sum / len(examples.labels), correct / len(examples.labels)


def accuracy(network: nn.Module, examples: Examples, noise: Noise | None, generator: torch.Generator) -> float:
    """Share of examples that the network gets right, in float32, each under one draw of noise if there is one."""
    network.eval()
    correct = 0
    with torch.inference_mode():
        batches = zip(torch.split(examples.inputs, _TEST_BATCH), torch.split(examples.labels, _TEST_BATCH), strict=True)
        for images, labels in batches:
            seen = images if noise is None else noisy(images, noise, generator)
            correct += int((network(_laid_out(seen)).argmax(1) == labels).sum())
    return correct / len(examples.labels)


def prepared(network: nn.Module, device: torch.device) -> nn.Module:
    """The network on the device, in the memory layout that convolutions are fastest in there."""
    if device.type == "cuda":
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.to(device)


def _laid_out(images: Tensor) -> Tensor:
    if images.device.type == "cuda":
        return images.contiguous(memory_format=torch.channels_last)
    return images
