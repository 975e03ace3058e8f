"""Residual networks for CIFAR-10 (He et al., 2016), laid out and named as in locuslab/smoothing.

Layer names and shapes are theirs, so that their checkpoints load. Where the shape changes, the shortcut is a 1x1
convolution with batch normalisation, as there; the original paper pads with zeros instead, which needs no parameters.
"""

import math

from torch import Tensor, nn
from torch.nn import functional

from recert.models.normalization import CIFAR10_MEAN, CIFAR10_STD, Normalize


def resnet20() -> nn.Module:
    """ResNet-20 for CIFAR-10: 272,474 parameters (2,752 of them in the two shortcuts)."""
    return CifarResNet(blocks=3)


def resnet110() -> nn.Module:
    """ResNet-110 for CIFAR-10: 1,730,714 parameters."""
    return CifarResNet(blocks=18)


class CifarResNet(nn.Module):
    """Three stages of `blocks` residual blocks each, so 6 * blocks + 2 layers, for images (3, 32, 32) in [0, 1]."""

    def __init__(self, blocks: int, classes: int = 10) -> None:
        super().__init__()
        self.normalize = Normalize(CIFAR10_MEAN, CIFAR10_STD)
        self.conv1 = nn.Conv2d(3, 16, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = _stage(16, 16, blocks, stride=1)
        self.layer2 = _stage(16, 32, blocks, stride=2)
        self.layer3 = _stage(32, 64, blocks, stride=2)
        self.fc = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                _initialize(module)

    def forward(self, images: Tensor) -> Tensor:
        hidden = functional.relu(self.bn1(self.conv1(self.normalize(images))))
        hidden = self.layer3(self.layer2(self.layer1(hidden)))
        logits: Tensor = self.fc(functional.avg_pool2d(hidden, 8).flatten(1))
        return logits


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = _shortcut(channels_in, channels, stride)

    def forward(self, images: Tensor) -> Tensor:
        hidden = functional.relu(self.bn1(self.conv1(images)))
        shortcut = images if self.downsample is None else self.downsample(images)
        return functional.relu(self.bn2(self.conv2(hidden)) + shortcut)


def _stage(channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
    later = (BasicBlock(channels, channels, stride=1) for _ in range(blocks - 1))
    return nn.Sequential(BasicBlock(channels_in, channels, stride), *later)


def _shortcut(channels_in: int, channels: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and channels_in == channels:
        return None
    convolution = nn.Conv2d(channels_in, channels, kernel_size=1, stride=stride, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels))


def _initialize(convolution: nn.Conv2d) -> None:
    """He's initialisation by fan-out, which keeps the scale of the gradients through 110 layers."""
    fan_out = math.prod(convolution.kernel_size) * convolution.out_channels
    nn.init.normal_(convolution.weight, 0.0, math.sqrt(2.0 / fan_out))
