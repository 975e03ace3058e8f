"""The Adversarial Robustness Toolbox, an independent implementation, certifies the same network on the same inputs."""

import numpy as np
import pytest
import torch

import recert
from recert.data import load_data
from recert.models import load_model

smoothing = pytest.importorskip("art.estimators.certification.randomized_smoothing", reason="ART is not installed")


def test_radii_agree_with_art_within_the_sampling_error() -> None:
    """Both estimate each class probability from n votes: the gap of the two radii is that of two binomial samples."""
    n, sigma, alpha = 2_000, 0.5, 0.001
    model, data = load_model("digits").model, load_data("digits", count=25)
    ours = recert.certify(
        model, data.inputs, noise=recert.Gaussian(sigma), samples=n, alpha=alpha, certificate="one-sided"
    ).certificates
    art = smoothing.PyTorchRandomizedSmoothing(
        model=model, loss=torch.nn.CrossEntropyLoss(), input_shape=(1, 8, 8), nb_classes=10, scale=sigma, alpha=alpha,
        sample_size=100, device_type="cpu",
    )  # fmt: skip
    np.random.seed(0)  # noqa: NPY002 ART draws from numpy's global generator
    predictions, radii = art.certify(data.inputs, n=n, batch_size=500)
    both = ours.certified & (predictions >= 0)
    assert both.sum() >= 15
    assert (predictions[both] == ours.prediction[both]).all()
    # four standard errors of the difference, on either side of our bound, through the same map to radii
    slack = 4 * np.sqrt(2 * ours.top_lower * (1 - ours.top_lower) / n)
    low, high = (recert.Gaussian(sigma).radius(np.clip(ours.top_lower + s, 0.5, 1 - 1e-4)) for s in (-slack, slack))
    assert ((radii[both] >= low[both] - 1e-9) & (radii[both] <= high[both] + 1e-9)).all()
    assert abs(radii[both].mean() - ours.radius[both].mean()) < 0.02
    disagreeing = ours.certified ^ (predictions >= 0)
    assert (ours.top_lower[disagreeing] < 0.5 + slack[disagreeing]).all()
