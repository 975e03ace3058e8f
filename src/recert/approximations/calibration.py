"""Noisy training inputs on which static activation scales are measured. Their noise is in no cache."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from recert.noise import Noise, Stream, check_inputs, checked_noise, input_digest, noise_key
from recert.noise.keys import LARGEST_SAMPLE
from recert.noise.stream import NoisyRows, perturb
from recert.sampling.inputs import checked_inputs
from recert.units import warn_of_units


@dataclass(frozen=True, eq=False)
class Calibration:
    """Training inputs (float32, count x ...) and the noise they are seen under, from the calibration stream.

    A model whose scales were measured on the cached noise would not be fixed before that noise was drawn; the
    calibration stream shares no noise with any stream that votes.
    """

    inputs: NDArray[np.float32]
    noise: Noise
    seed: int = 0
    noisy_copies: int = 1
    digests: tuple[str, ...] = field(init=False, repr=False)
    """SHA-256 of each input, as a cache knows it."""

    def __post_init__(self) -> None:
        checked_noise(self.noise)
        if not 1 <= self.noisy_copies <= LARGEST_SAMPLE:
            raise ValueError(f"expected at least 1 noisy copy of each input, got {self.noisy_copies}")
        inputs = checked_inputs(self.inputs)
        check_inputs(self.noise, inputs)
        warn_of_units(inputs, "calibration: ", stacklevel=3)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "digests", tuple(input_digest(x) for x in inputs))

    def __len__(self) -> int:
        return len(self.inputs) * self.noisy_copies

    def noisy(self, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Noisy inputs [start, stop), copy by copy: all inputs once, then all again under other noise."""
        chosen = np.arange(len(self))[start:stop]
        rows, samples = chosen % len(self.inputs), chosen // len(self.inputs)
        keys = np.array([noise_key(self.seed, digest) for digest in self.digests], dtype=np.uint64)
        flat = torch.from_numpy(self.inputs.reshape(len(self.inputs), -1))
        wanted = NoisyRows(rows, samples, np.full(len(chosen), Stream.CALIBRATION, dtype=np.int64))
        noisy: NDArray[np.float32] = perturb(flat, keys, wanted, self.noise).numpy()
        return noisy.reshape(-1, *self.inputs.shape[1:])

    def facts(self) -> dict[str, str]:
        """What to record: how many, which noise, and which inputs (64 bits of each digest, all bits of all of them)."""
        whole = hashlib.sha256("".join(self.digests).encode()).hexdigest()
        return {
            "calibration": f"{self.noisy_copies} x {len(self.inputs)} inputs, {self.noise.spec}, seed {self.seed}",
            "calibration_digest": whole,
            "calibration_inputs": " ".join(digest[:16] for digest in self.digests),
        }
