"""Random crops, mirror images and noise for a whole batch at once, on the device that holds it."""

import torch
from torch import Tensor
from torch.nn import functional

from recert.noise import Gaussian
from recert.training.recipes import Recipe


def augmented(images: Tensor, recipe: Recipe, noise: Gaussian, generator: torch.Generator) -> Tensor:
    """The batch as the network sees it in training: cropped and mirrored as the recipe says, then noisy."""
    if recipe.crop:
        images = random_crop(images, recipe.crop, generator)
    if recipe.flip:
        images = random_flip(images, generator)
    return noisy(images, noise, generator)


def noisy(images: Tensor, noise: Gaussian, generator: torch.Generator) -> Tensor:
    """The batch under one draw of noise."""
    return torch.randn(images.shape, generator=generator, device=images.device).mul_(noise.sigma).add_(images)


def random_crop(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Each image moved by up to `padding` pixels in both directions; black comes in from the sides."""
    count, _, height, width = images.shape
    device = images.device
    down, right = torch.randint(0, 2 * padding + 1, (2, count, 1), generator=generator, device=device)
    rows = down + torch.arange(height, device=device)
    columns = right + torch.arange(width, device=device)
    padded = functional.pad(images, (padding, padding, padding, padding))
    which = torch.arange(count, device=device)[:, None, None]
    return padded[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def random_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image mirrored left to right with probability one half."""
    mirrored = torch.rand(len(images), 1, 1, 1, generator=generator, device=images.device) < 0.5
    return torch.where(mirrored, images.flip(3), images)
