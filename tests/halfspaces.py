"""Half-space classifiers: vote probability, flip probability and robust radius in closed form."""

import math

import numpy as np
import torch
from scipy.stats import multivariate_normal, norm
from torch import nn


class HalfSpace(nn.Module):
    """Votes 1 where direction . x > offset, else 0. The direction is made a unit vector."""

    def __init__(self, direction: list[float], offset: float) -> None:
        super().__init__()
        w = torch.tensor(direction, dtype=torch.float32)
        self.register_buffer("direction", w / w.norm())
        self.register_buffer("offset", torch.tensor(offset, dtype=torch.float32))
        self.eval()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        score = batch.flatten(1) @ self.direction - self.offset
        return torch.stack([-score, score], dim=1)

    def distance(self, x: np.ndarray) -> float:
        """Signed distance of x from the boundary: within its absolute value no perturbation changes the smoothed class."""
        return float(x.ravel().astype(float) @ self.direction.double().numpy() - float(self.offset))

    def top_probability(self, x: np.ndarray, sigma: float) -> float:
        return float(norm.cdf(abs(self.distance(x)) / sigma))


def disparity(f: HalfSpace, g: HalfSpace, x: np.ndarray, sigma: float) -> float:
    """P(f != g) under Gaussian noise at x, by the bivariate normal distribution."""
    a, b = f.distance(x) / sigma, g.distance(x) / sigma
    cosine = float(f.direction.double() @ g.direction.double())
    both = multivariate_normal([0, 0], [[1, cosine], [cosine, 1]]).cdf([a, b])
    return norm.cdf(a) + norm.cdf(b) - 2 * both


def rotated(angle: float, offset: float = 0.0) -> HalfSpace:
    """A half-space in the plane, turned by an angle."""
    return HalfSpace([math.cos(angle), math.sin(angle)], offset)
