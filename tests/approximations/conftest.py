"""A small trained residual network with its normalisation inside, and every approximation of it, made once."""

import warnings
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import recert
from recert.approximations import Approximation, Calibration, approximate, register_approximation

CLASSES = 4
NOISE = recert.Gaussian(0.5)
SPECS = ("fp16", "bf16", "fp16-weights", "bf16-weights", "int8", "int8-twin", "prune:0.2", "prune-layer:0.2", "halved")


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(x + self.second_norm(self.second(inner)))


class SmallResNet(nn.Module):
    """Normalisation, stem, residual block, strided shortcut as in CIFAR ResNets, pooling, linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]).reshape(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.2, 0.25, 0.3]).reshape(1, 3, 1, 1))
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(8)
        self.block = Residual(8)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.last = nn.Linear(16, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem_norm(self.stem((x - self.mean) / self.deviation)))
        x = self.block(x)
        shortcut = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 4, 4))
        x = F.relu(self.down(x) + shortcut)
        return self.last(F.adaptive_avg_pool2d(x, 1).flatten(1))


def images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of four classes: a prototype each, varied."""
    prototypes = np.random.default_rng(0).uniform(0, 1, (CLASSES, 3, 8, 8))
    draw = np.random.default_rng(seed)
    labels = draw.integers(CLASSES, size=count)
    values = 0.5 + 0.6 * (prototypes[labels] - 0.5) + 0.15 * draw.standard_normal((count, 3, 8, 8))
    return values.astype(np.float32), labels


@cache
def trained() -> SmallResNet:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = SmallResNet()
    x, y = (torch.from_numpy(part) for part in images(1024, seed=1))
    optimiser = torch.optim.Adam(net.parameters(), 0.01)
    for step in range(80):
        rows = torch.arange(64 * step, 64 * (step + 1)) % len(x)
        noisy = x[rows] + NOISE.sigma * torch.randn_like(x[rows])
        optimiser.zero_grad()
        F.cross_entropy(net(noisy), y[rows]).backward()
        optimiser.step()
    optimiser.zero_grad()
    return net.eval()


@cache
def calibration() -> Calibration:
    return Calibration(images(128, seed=2)[0], NOISE, seed=0, noisy_copies=2)


@cache
def made(spec: str) -> Approximation:
    """The approximation of the trained network by this spec."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return approximate(trained(), spec, calibration=calibration(), example_input=images(16, seed=3)[0])


def halved(model: nn.Module, argument: str | None, context: object) -> nn.Module:
    """A third party's approximation: the last layer halved, in place of the copy it is given."""
    with torch.no_grad():
        model.last.weight *= 0.5
    return model


register_approximation("halved", halved)


@pytest.fixture
def net() -> SmallResNet:
    return trained()


@pytest.fixture
def noisy() -> torch.Tensor:
    """5,120 noisy samples of inputs that nothing was trained or calibrated on."""
    x = torch.from_numpy(images(128, seed=4)[0]).repeat(40, 1, 1, 1)
    return x + NOISE.sigma * torch.randn(x.shape, generator=torch.Generator().manual_seed(5))


def answers(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    dtype = next((p.dtype for p in model.parameters()), torch.float32)
    with torch.inference_mode():
        return torch.cat([model(rows.to(dtype)).float() for rows in batch.split(256)])
