"""Re-certify a network after fine-tuning it, from the votes of the original: python examples/fine_tuned.py"""

import copy

import torch

import recert
from recert.data import load_data
from recert.models import load_model

torch.manual_seed(0)
model, data = load_model("digits").model, load_data("digits", count=30)
noise = recert.Gaussian(sigma=0.5)
cache = recert.certify(model, data.inputs, noise=noise, samples=4_000, selection_samples=200)

# A few steps on training data, under noise. Never on the cached noise, or on anything chosen by looking at it.
training = load_data("digits", split="train")
images, labels = torch.from_numpy(training.inputs), torch.from_numpy(training.labels)
tuned = copy.deepcopy(model).train()
optimiser = torch.optim.SGD(tuned.parameters(), lr=0.005)
for step in range(20):
    rows = torch.arange(64 * step, 64 * (step + 1)) % len(images)
    noisy = images[rows] + noise.sigma * torch.randn(images[rows].shape)
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(tuned(noisy), labels[rows]).backward()
    optimiser.step()

result = recert.recertify(tuned.eval(), data.inputs, cache, samples=400)
print(f"original:   ACR {cache.certificates.average_certified_radius(data.labels):.3f}, 4,200 forward passes per image")
print(f"fine-tuned: ACR {result.average_certified_radius(data.labels):.3f}, {result.mean_forward_passes:.0f} per image")
flipped = result.lost.sum() / max(1, result.replayed.sum())
print(f"{flipped:.2%} of the replayed votes left the class that they were for")
print(result.guarantee)
