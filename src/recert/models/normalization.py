"""Normalisation inside the network, so that noise is added to pixels in [0, 1] and sigma is in pixel units."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Normalize(nn.Module):
    """Subtracts the mean of each channel and divides by its standard deviation.

    The constants belong to the architecture, not to the weights: they are left out of the state dict, so that
    checkpoints of the plain network load, and are still part of the weights digest.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


class NormalizedNetwork(nn.Module):
    """A network that expects normalised images, made into one that takes images in [0, 1]."""

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.normalize = Normalize(mean, std)
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(self.normalize(images))
        return logits
