"""Random crops, mirror images and noise for a whole batch at once, on the device that holds it."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from recert.noise import Gaussian, Noise, Stream
from recert.noise.stream import NoisyRows, perturb
from recert.training.recipes import Recipe


def augmented(images: Tensor, recipe: Recipe, noise: Noise, generator: torch.Generator, copies: int = 1) -> Tensor:
    """The batch as the network sees it in training: cropped and mirrored as the recipe says, then noisy; so many noisy copies."""
    if recipe.crop:
        images = random_crop(images, recipe.crop, generator)
    if recipe.flip:
        images = random_flip(images, generator)
    # The copies of one image are moved alike: they differ in noise alone.
    return noisy(images.repeat(copies, *[1] * (images.ndim - 1)) if copies > 1 else images, noise, generator)


def noisy(images: Tensor, noise: Noise, generator: torch.Generator) -> Tensor:
    """The batch under one draw of noise."""
    if not isinstance(noise, Gaussian) or noise.grid is not None:
        return _from_stream(images, noise, generator)
    # torch's own normals: the shipped networks were trained with them.
    return torch.randn(images.shape, generator=generator, device=images.device).mul_(noise.sigma).add_(images)


def _from_stream(images: Tensor, noise: Noise, generator: torch.Generator) -> Tensor:
    """Noise of any family, by the kernels that certificates are made with, under keys of the generator: they share none with a cache."""
    count = len(images)
    keys = torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator, device=images.device)
    zeros = np.zeros(count, np.int64)
    wanted = NoisyRows(np.arange(count), zeros, zeros + int(Stream.CALIBRATION))
    return perturb(images.flatten(1), keys.cpu().numpy().view(np.uint64), wanted, noise).reshape(images.shape)


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
