"""The inner loop: one epoch of noisy training, and accuracy afterwards."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from recert.noise import Noise
from recert.training.augmentation import augmented, noisy
from recert.training.examples import Examples, whole_batches, without_single_rest
from recert.training.recipes import Recipe
from recert.training.step import Step
from recert.training.subject import seeded

_TEST_BATCH = 1024
_LARGEST_TEST_BATCH = 2**26
"""Elements of a batch of inputs that are tested at once: 256 MiB."""


def generator_for(device: torch.device, seed: int, purpose: object) -> torch.Generator:
    """A generator that depends on (seed, purpose) alone, so that an interrupted training continues with the same draws."""
    return torch.Generator(device).manual_seed(seed_for(seed, purpose))


def seed_for(seed: int, purpose: object) -> int:
    digest = hashlib.sha256(f"recert training:{seed}:{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """One group decays and one does not: shrinking a bias or a normalisation scale is no regularisation.

    On a GPU the learning rate is a tensor there, so that a recorded step can read it.
    """
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    weights = [parameter for parameter in trained if parameter.ndim > 1]
    others = [parameter for parameter in trained if parameter.ndim <= 1]
    groups: list[dict[str, Any]] = [{"params": weights}, {"params": others, "weight_decay": 0.0}]
    device = trained[0].device
    on_gpu = device.type == "cuda"
    rate = torch.tensor(recipe.learning_rate, device=device) if on_gpu else recipe.learning_rate
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(
            groups, lr=rate, weight_decay=recipe.weight_decay, fused=on_gpu or None, capturable=on_gpu
        )
    return torch.optim.SGD(
        groups, lr=rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, nesterov=True, fused=on_gpu or None
    )


def train_epoch(
    step: Step, examples: Examples, recipe: Recipe, noise: Noise, epoch: int, seed: int
) -> tuple[float, float]:
    """One pass over the examples in random order; returns the mean loss and the accuracy along the way."""
    device = step.totals.device
    generator = generator_for(device, seed, epoch)
    step.network.train()
    step.totals.zero_()
    order = torch.randperm(examples.count, generator=generator, device=device)
    order = (whole_batches if step.one_shape else without_single_rest)(order, recipe.batch_size)
    count = -(-len(order) // recipe.batch_size)
    # Dropout, and augmentation in a data set of the user's, draw from torch's global generators.
    with seeded(device, seed_for(seed, f"{epoch} of the network")):
        batches = examples.batches(order, recipe.batch_size, seed_for(seed, f"{epoch} of workers"))
        for number, (inputs, labels) in enumerate(batches):
            images = _laid_out(augmented(inputs, recipe, noise, generator, step.loss.copies))
            step.take(images, labels, recipe.rate_at((epoch + (number + 0.5) / count) / recipe.epochs))
    loss_sum, correct = step.totals.tolist()
    return loss_sum / len(order), correct / len(order)


def right_answers(
    network: nn.Module, examples: Examples, places: Tensor, noise: Noise | None, generator: torch.Generator
) -> Tensor:
    """Whether the network is right about each of these examples, in float32, each under one draw of noise if there is one."""
    network.eval()
    size = max(1, min(_TEST_BATCH, _LARGEST_TEST_BATCH // torch.Size(examples.shape).numel()))
    right: list[Tensor] = []
    with torch.inference_mode(), seeded(generator.device, 0):
        for inputs, labels in examples.batches(places, size):
            seen = inputs if noise is None else noisy(inputs, noise, generator)
            right.append((network(_laid_out(seen)).argmax(1) == labels).cpu())
    return torch.cat(right)


def votes_for_label(
    network: nn.Module, examples: Examples, places: Tensor, noise: Noise, votes: int, generator: torch.Generator
) -> Tensor:
    """How many of so many votes under noise each of these examples has for its label. They are in memory at once."""
    network.eval()
    with torch.inference_mode(), seeded(generator.device, 0):
        inputs, labels = next(examples.batches(places, len(places)))
        counts = torch.zeros_like(labels)
        for _ in range(votes):
            counts += network(_laid_out(noisy(inputs, noise, generator))).argmax(1) == labels
    return counts.cpu()


def _laid_out(images: Tensor) -> Tensor:
    if images.device.type == "cuda" and images.ndim == 4:
        return images.contiguous(memory_format=torch.channels_last)
    return images


def prepared(network: nn.Module, device: torch.device) -> nn.Module:
    """The network on the device, in the memory layout that convolutions are fastest in there."""
    if device.type == "cuda" and all(parameter.ndim < 5 for parameter in network.parameters()):
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.to(device)
