"""The loss and the estimates against scipy."""

import numpy as np
import pytest
import torch
from scipy import special, stats

import recert
from recert.training.augmentation import augmented
from recert.training.losses import Loss, consistency_term
from recert.training.measuring import VOTES, acr_of_votes
from recert.training.recipes import Recipe


def test_consistency_is_what_jeong_and_shin_minimise():
    """lambda E[KL(mean || copy)] + 1/2 H(mean), with the mean of the copies' probabilities."""
    logits = np.random.default_rng(0).normal(0, 3, (2, 5, 4))
    p = special.softmax(logits, 2)
    mean = p.mean(0)
    divergence = special.rel_entr(mean[None], p).sum(2).mean(0)
    expected = (7.0 * divergence + 0.5 * special.entr(mean).sum(1)).mean()
    found = consistency_term(torch.from_numpy(logits.reshape(10, 4)), copies=2, strength=7.0)
    assert found.item() == pytest.approx(expected)
    labels = np.array([0, 1, 2, 3, 0])
    natural = -np.log(p[:, np.arange(5), labels]).mean()
    whole = Loss(consistency=7.0)(torch.from_numpy(logits.reshape(10, 4)).float(), torch.from_numpy(labels))
    assert whole.item() == pytest.approx(natural + expected, rel=1e-5)


def test_copies_differ_in_noise_alone():
    images = torch.rand(40, 3, 32, 32)
    seen = augmented(images, Recipe(1, 1, 1.0, crop=4, flip=True), recert.Gaussian(1e-5), torch.Generator(), copies=2)
    assert seen.shape == (80, 3, 32, 32)
    torch.testing.assert_close(seen[:40], seen[40:], atol=1e-3, rtol=0)
    assert not torch.equal(seen[:40], seen[40:])
    assert (seen[:40] - images).abs().max() > 0.1


def test_the_estimate_of_the_average_radius():
    votes = np.array([100, 99, 80, 50, 3])
    lower = np.where(votes > 0, stats.beta.ppf(0.001, votes, VOTES - votes + 1), 0)
    radii = np.where(lower > 0.5, 0.25 * stats.norm.ppf(lower), 0)
    assert acr_of_votes(torch.from_numpy(votes), recert.Gaussian(0.25)) == pytest.approx(radii.mean(), rel=1e-6)
