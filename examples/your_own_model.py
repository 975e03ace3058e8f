"""Certify a network of your own on data in memory: python examples/your_own_model.py

Needs: a torch module in eval mode (or any callable, batch to logits), float32 inputs, the noise it was trained with.
"""

import numpy as np
import torch
from torch import nn

import recert

torch.manual_seed(0)
rng = np.random.default_rng(0)

# Two clouds of points in the plane; yours are images in [0, 1], embeddings, rows of a table ...
labels = np.arange(400) % 2
inputs = (rng.normal(scale=0.4, size=(400, 2)) + np.where(labels, 1.0, -1.0)[:, None]).astype(np.float32)

# Train under the noise that will be certified with: a network that has never seen noise is unsure about everything.
noise = recert.Gaussian(sigma=0.5)
network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(300):
    noisy = torch.from_numpy(inputs) + noise.sigma * torch.randn(inputs.shape)
    loss = nn.functional.cross_entropy(network(noisy), torch.from_numpy(labels))
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

# Votes that choose, votes that bound, a radius for every input; nothing here looks at a label.
cache = recert.certify(network.eval(), inputs[:50], noise=noise, samples=2_000, alpha=0.001)
result = cache.certificates
print(result.guarantee)

# Labels come in only for the score.
for radius in (0.25, 0.5, 1.0):
    print(f"certified accuracy at {radius}: {result.certified_accuracy(labels[:50], radius):.0%}")
print(f"average certified radius: {result.average_certified_radius(labels[:50]):.3f}")
for outcome, explanation in dict(zip(result.outcome, result.explanation, strict=True)).items():
    print(f"{outcome}: {explanation}")
