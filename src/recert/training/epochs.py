"""The inner loop: one epoch of noisy training, and accuracy afterwards."""

import hashlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from recert.data import Dataset
from recert.noise import Gaussian
from recert.training.augmentation import augmented, noisy
from recert.training.recipes import Recipe

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
    """One group decays and one does not: shrinking a bias or a normalisation scale is no regularisation."""
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    groups: list[dict[str, Any]] = [{"params": weights}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.SGD(
        groups, lr=recipe.learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, nesterov=True
    )


def train_epoch(
    network: nn.Module, optimizer: torch.optim.SGD, examples: Examples, recipe: Recipe, noise: Gaussian,
    epoch: int, generator: torch.Generator,
) -> tuple[float, float]:  # fmt: skip
    """One pass over the examples in random order; returns the mean loss and the accuracy along the way."""
    network.train()
    device = examples.inputs.device
    totals = torch.zeros(2, device=device)  # read once an epoch, since every read waits for the device
    order = torch.randperm(len(examples.labels), generator=generator, device=device)
    batches = torch.split(order, recipe.batch_size)
    for step, chosen in enumerate(batches):
        rate = recipe.rate_at((epoch + (step + 0.5) / len(batches)) / recipe.epochs)
        for group in optimizer.param_groups:
            group["lr"] = rate
        images = _laid_out(augmented(examples.inputs[chosen], recipe, noise, generator))
        labels = examples.labels[chosen]
        with _half_precision(device):
            logits = network(images)
            loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        totals += torch.stack([loss.detach() * len(labels), (logits.detach().argmax(1) == labels).sum()])
    loss_sum, correct = totals.tolist()
    return loss_sum / len(examples.labels), correct / len(examples.labels)


def accuracy(network: nn.Module, examples: Examples, noise: Gaussian | None, generator: torch.Generator) -> float:
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


def _half_precision(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 products on a GPU; the weights themselves stay float32."""
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()
