"""Splitting noise: cells by hand in fractions, what is shared by two inputs."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
import torch
from scipy import stats

import recert
from recert import Splitting
from recert.noise import on_cpu
from recert.noise.stream import NoisyRows, perturb

KEY = 77


def seen(x: np.ndarray, noise: Splitting, samples: int) -> np.ndarray:
    """Several inputs under the same noises of one key: inputs x samples x elements."""
    rows, numbers = np.repeat(np.arange(len(x)), samples), np.tile(np.arange(samples), len(x))
    keys = np.full(len(x), KEY, np.uint64)
    noisy = perturb(torch.from_numpy(x), keys, NoisyRows(rows, numbers, numbers * 0 + 1), noise)
    return noisy.numpy().reshape(len(x), samples, -1)


@pytest.mark.parametrize("half_width", [0.5, 0.3, 4.0])
def test_each_element_becomes_the_middle_of_its_cell(half_width: float) -> None:
    x = np.array([[0.0, 1.0, -2.7, 0.3, 5.0, -0.001]], dtype=np.float32)
    noise = Splitting(half_width)
    width = 2 * Fraction(noise.scale)
    got = seen(x, noise, 50)[0]
    for sample in range(50):
        blocks = (
            on_cpu.philox4x32(np.array([b, sample, 0, 1], np.uint32), np.array([KEY, 0], np.uint32)) for b in (0, 1)
        )
        for element, word in enumerate(np.concatenate(list(blocks))[:6].tolist()):
            begin = Fraction(word >> 9, 2**23) * width
            number = floor((Fraction(float(x[0, element])) - begin) / width)
            middle = begin + (number + Fraction(1, 2)) * width
            assert float(got[sample, element]) == pytest.approx(float(middle), rel=1e-6, abs=1e-6)
            assert abs(float(middle) - float(x[0, element])) <= half_width * (1 + 1e-6)


def test_two_inputs_look_different_as_often_as_a_border_falls_between_them() -> None:
    """The l1 distance over the width of a cell, and not more where several elements differ."""
    noise, count = Splitting(0.5), 20_000
    x = np.full((4, 8), 0.4, dtype=np.float32)
    x[1, 0] += 0.25
    x[2, :2] += 0.125
    x[3, :] += 0.25 / 8
    views = seen(x, noise, count)
    different = [int((views[0] != other).any(axis=1).sum()) for other in views[1:]]
    assert stats.binomtest(different[0], count, 0.25).pvalue > 1e-3
    for many in different[1:]:
        assert stats.binomtest(many, count, 0.25, alternative="greater").pvalue > 1e-3
    untouched = (views[0][:, 2:] == views[2][:, 2:]).all()
    assert untouched, "an element says nothing of the others"


def test_in_floating_point_inputs_a_hair_apart_look_the_same_but_for_their_share_of_places() -> None:
    """No low bits are left: what is seen is a function of the cell. Added noise would show the difference nearly always."""
    x = np.array([[0.1, 0.7], [np.nextafter(np.float32(0.1), 1), 0.7], [0.1 + 1e-4, 0.7]], dtype=np.float32)
    views = seen(x, Splitting(0.5), 20_000)
    assert np.array_equal(views[0], views[1])
    assert 0 <= (views[0] != views[2]).any(axis=1).sum() < 12
    added = perturb(torch.from_numpy(x), np.full(3, KEY, np.uint64), NoisyRows(np.arange(3), np.zeros(3, int), np.ones(3, int)), recert.Gaussian(0.01))  # fmt: skip
    assert added[0, 0] != added[1, 0]


def test_inputs_too_far_away_are_refused() -> None:
    noise = Splitting(0.5)
    noise.check_inputs(np.full((1, 3), -200, np.float32))
    with pytest.raises(ValueError, match="within 200 cells of 0"):
        recert.certify(lambda batch: batch, np.full((1, 3), 201, np.float32), noise=noise, samples=100)
    far = seen(np.array([[-200.0, 200.0, 199.9, -199.9]], np.float32), noise, 200)[0]
    assert np.abs(far - [-200, 200, 199.9, -199.9]).max() <= 0.5 + 1e-4
