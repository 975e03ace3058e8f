"""Calibration noise: its own stream, the same for any split, recorded by digest."""

import hashlib
from typing import Any

import numpy as np
import pytest
import torch

import recert
from recert.approximations import Calibration, approximate
from recert.noise import Stream, input_digest, noise_key
from recert.noise.stream import NoisyRows, perturb

from .conftest import NOISE, calibration, images, made, trained


def expected(inputs: np.ndarray, sample: int, stream: Stream) -> np.ndarray:
    keys = np.array([noise_key(7, input_digest(x)) for x in inputs], dtype=np.uint64)
    rows = NoisyRows(np.arange(3), np.full(3, sample), np.full(3, int(stream)))
    flat = torch.from_numpy(inputs.reshape(3, -1))
    return perturb(flat, keys, rows, NOISE).numpy().reshape(inputs.shape)


def test_noise_is_the_calibration_stream() -> None:
    inputs = images(3, seed=8)[0]
    noisy = Calibration(inputs, NOISE, seed=7, noisy_copies=2).noisy()
    for copy in range(2):
        rows = noisy[3 * copy : 3 * copy + 3]
        np.testing.assert_array_equal(rows, expected(inputs, copy, Stream.CALIBRATION))
        for voting in (Stream.SELECTION, Stream.ESTIMATION, Stream.FRESH):
            assert not np.any(rows == expected(inputs, copy, voting))


def test_any_split_gives_the_same_noise() -> None:
    whole = Calibration(images(5, seed=8)[0], NOISE, noisy_copies=3)
    pieces = [whole.noisy(start, start + 4) for start in range(0, len(whole), 4)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole.noisy())
    assert len(whole) == len(whole.noisy()) == 15


def test_digests_are_recorded() -> None:
    facts, digests = made("int8").facts, [input_digest(x) for x in calibration().inputs]
    assert facts["calibration"] == "2 x 128 inputs, gaussian:0.5, seed 0"
    assert facts["calibration_digest"] == hashlib.sha256("".join(digests).encode()).hexdigest()
    assert all(full.startswith(short) for full, short in zip(digests, facts["calibration_inputs"].split(), strict=True))


@pytest.mark.parametrize("spec", ["int8", "int8-twin"])
def test_int8_needs_calibration(spec: str) -> None:
    with pytest.raises(ValueError, match=f"expected calibration inputs for {spec}, got none: .* pass calibration="):
        approximate(trained(), spec, example_input=images(4, seed=3)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": np.zeros((2, 3), dtype=np.uint8)}, "expected float32 inputs, got uint8"),
        ({"noise": 0.5}, "expected a noise such as"),
        ({"noisy_copies": 0}, "at least 1 noisy copy"),
        ({"seed": -1}, "expected a whole number as seed"),
    ],
)
def test_bad_calibrations(change: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"inputs": np.zeros((2, 3), dtype=np.float32), "noise": recert.Gaussian(0.5), **change}
    with pytest.raises(ValueError, match=message):
        Calibration(**settings).noisy()
