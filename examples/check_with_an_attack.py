"""Check certificates with an attack: inside the radius the smoothed prediction must not change: python examples/check_with_an_attack.py

The attack is gradient ascent on the expectation over noise (expectation over transformation; SmoothAdv of Salman et al., 2019): the gradient of
the loss of the mean probabilities under fresh noise, in steps of equal length, projected back into the ball.
"""

import numpy as np
import torch
from torch import Tensor, nn

import recert
from recert.data import load_data
from recert.models import load_model

SIGMA, STEPS, NOISES = 0.5, 20, 32


def attack(model: nn.Module, images: Tensor, labels: Tensor, radii: Tensor) -> Tensor:
    """Images within these l2 distances on which the smoothed network is as wrong as the attack can make it."""
    generator = torch.Generator().manual_seed(1)
    shift = torch.zeros_like(images, requires_grad=True)
    for _ in range(STEPS):
        noise = SIGMA * torch.randn((NOISES, *images.shape), generator=generator)
        probabilities = (
            model((images + shift + noise).flatten(0, 1)).softmax(1).reshape(NOISES, len(images), -1).mean(0)
        )
        loss = nn.functional.nll_loss(probabilities.clamp_min(1e-9).log(), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, shift)
        with torch.no_grad():
            shift += 2.5 / STEPS * scaled(gradient, radii, always=True)
            shift.copy_(scaled(shift, radii))
    # The nearest images in [0, 1], which are no farther from the originals.
    return (images + shift).detach().clamp(0, 1)


def scaled(vectors: Tensor, lengths: Tensor, *, always: bool = False) -> Tensor:
    """Vectors no longer than these lengths; of just these lengths if `always`."""
    factors = lengths / vectors.flatten(1).norm(dim=1).clamp_min(1e-12)
    return vectors * (factors if always else factors.clamp_max(1.0)).reshape(-1, 1, 1, 1)


model, data = load_model("digits:0.5").model, load_data("digits", count=60)
cache = recert.certify(model, data.inputs, noise=recert.Gaussian(SIGMA), samples=2_000)
certified = np.flatnonzero(cache.certificates.certified)
images = torch.from_numpy(data.inputs[certified])
classes = torch.from_numpy(cache.certificates.prediction[certified])
radii = torch.from_numpy(cache.certificates.radius[certified]).float()

for share in (0.99, 2.0, 4.0):  # below 1, so that rounding does not take an image out of the ball
    attacked = attack(model, images, classes, share * radii)
    # Noise of its own for each attacked image: the votes of PREDICT, which abstains where two classes are too close.
    smoothed = recert.predict(model, attacked, noise=recert.Gaussian(SIGMA), samples=2_000, seed=2).prediction
    changed = (smoothed != -1) & (smoothed != classes.numpy())
    print(f"{share:.2f} x the radius: the prediction changed on {changed.sum()} of {len(certified)} images")
    if share == 4.0:
        assert changed.mean() > 0.5, "an attack that changes nothing anywhere would show nothing"
    if share < 1:
        # Each certificate, and each prediction, is wrong with probability at most .001 over the noise drawn.
        assert not changed.any(), f"images {certified[changed]} are counterexamples"
