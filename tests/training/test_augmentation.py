"""Augmentation against what it must be: moved, mirrored or noisy copies, and nothing else."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from recert.noise import Gaussian, Laplace, Uniform
from recert.training.augmentation import augmented, noisy, random_crop, random_flip
from recert.training.epochs import generator_for, make_optimizer
from recert.training.recipes import RECIPES, Recipe


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def numbered(count: int, channels: int = 2, side: int = 5) -> torch.Tensor:
    """Images whose pixels all differ and are not zero."""
    return torch.arange(1, 1 + count * channels * side * side, dtype=torch.float32).reshape(count, channels, side, side)


def moved(image: torch.Tensor, down: int, right: int) -> torch.Tensor:
    """By hand: pixel (i, j) comes from (i + down, j + right), and black where there is none."""
    result = torch.zeros_like(image)
    side = image.shape[-1]
    for i in range(side):
        for j in range(side):
            if 0 <= i + down < side and 0 <= j + right < side:
                result[:, i, j] = image[:, i + down, j + right]
    return result


def test_crops_are_moved_images_and_every_move_occurs():
    images = numbered(300)
    seen = set()
    for image, crop in zip(images, random_crop(images, 1, generator()), strict=True):
        moves = [(d, r) for d in (-1, 0, 1) for r in (-1, 0, 1) if torch.equal(moved(image, d, r), crop)]
        assert len(moves) == 1
        seen.update(moves)
    assert len(seen) == 9


def test_half_of_the_images_are_mirrored():
    images = numbered(400)
    flipped = random_flip(images, generator())
    mirrored = (flipped == images.flip(3)).flatten(1).all(1)
    kept = (flipped == images).flatten(1).all(1)
    assert torch.equal(mirrored, ~kept)
    assert abs(mirrored.float().mean().item() - 0.5) < 4 * 0.5 / math.sqrt(400)


def test_noise_has_the_scale_that_was_asked_for():
    images = torch.rand(100, 3, 32, 32)
    noise = noisy(images, Gaussian(0.5), generator()) - images
    assert noise.std().item() == pytest.approx(0.5, rel=0.01)
    assert abs(noise.mean().item()) < 0.005


@pytest.mark.parametrize(
    ("noise", "law"),
    [
        (Laplace(0.3), stats.laplace(scale=0.3)),
        (Uniform(0.3), stats.uniform(-0.3, 0.6)),
        (Gaussian(0.3, grid=1 / 256), stats.norm(scale=0.3)),
    ],
    ids=["laplace", "uniform", "grid"],
)
def test_noise_of_any_family_is_drawn_anew_for_every_image_and_every_batch(noise, law):
    images = torch.rand(60, 1, 16, 16).mul(256).round().div(256)
    draws = generator()
    first, second = (noisy(images, noise, draws) - images for _ in range(2))
    assert stats.kstest(torch.cat([first, second]).flatten().numpy(), law.cdf).pvalue > 1e-3
    whole = torch.cat([first, second]).flatten(1).numpy()
    assert abs(np.corrcoef(whole) - np.eye(120)).max() < 0.4
    assert torch.equal(noisy(images, noise, generator()) - images, first)


def test_recipe_decides_what_is_done():
    images = numbered(50)
    plain = augmented(images, Recipe(1, 1, 1.0), Gaussian(1e-6), generator())
    torch.testing.assert_close(plain, images, atol=1e-4, rtol=0)
    assert not torch.allclose(
        augmented(images, Recipe(1, 1, 1.0, flip=True), Gaussian(1e-6), generator()), images, atol=0.1
    )
    assert not torch.allclose(
        augmented(images, Recipe(1, 1, 1.0, crop=2), Gaussian(1e-6), generator()), images, atol=0.1
    )


def test_draws_depend_on_seed_and_epoch_alone():
    cpu = torch.device("cpu")

    def draw(seed, epoch):
        return torch.rand(3, generator=generator_for(cpu, seed, epoch)).tolist()

    assert draw(0, 1) == draw(0, 1)
    assert len({tuple(draw(seed, epoch)) for seed in range(5) for epoch in range(5)}) == 25


def test_learning_rate_rises_for_a_tenth_and_falls_to_nothing():
    recipe = Recipe(epochs=1, batch_size=1, learning_rate=0.4)
    rates = [recipe.rate_at(share / 100) for share in range(101)]
    assert rates[:11] == pytest.approx([0.04 * i for i in range(11)])
    assert rates[55] == pytest.approx(0.2)  # half-way down the cosine
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[100] == 0


def test_only_weights_decay():
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(3, 4))
    decaying, others = make_optimizer(network, Recipe(1, 1, 0.1, weight_decay=0.3)).param_groups
    assert [parameter.shape for parameter in decaying["params"]] == [(2, 1, 3, 3), (4, 3)]
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.3, 0.0)
    assert len(others["params"]) == 4


def test_every_shipped_network_has_a_recipe():
    from recert.models import available_models

    assert {entry.name for entry in available_models()} == RECIPES.keys()
