"""A noise of your own: uniform on a cube, with certificates in the l1 norm. python examples/extending/noise.py

If every element of the noise is uniform on [-h, h], moving the input by d changes the chance of any vote by at most
||d||_1 / 2h: that is how much of two shifted cubes does not overlap. The class keeps its lead while it loses less than it is ahead,
so the radius is h (top_lower - runner_up_upper).
"""

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

import recert
from recert.noise import Kernels
from recert.noise.on_cpu import philox4x32 as words_on_cpu
from recert.noise.on_torch import philox4x32 as words_on_torch

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Uniform:
    """Independent noise, uniform from -half_width to half_width. Certificates are in the l1 norm."""

    half_width: float

    norm = "l1"
    # Named and not imported, so that a cache is read without torch. Workers in other processes must be able to import the module.
    kernels = Kernels(f"{__name__}:add_on_cpu", f"{__name__}:add_on_torch", f"{__name__}:add_on_cuda")

    def __post_init__(self) -> None:
        if not (math.isfinite(self.half_width) and self.half_width > 0):
            raise ValueError(f"expected a finite half width > 0, got {self.half_width!r}; a usual value is 0.5")

    @classmethod
    def parse(cls, text: str) -> "Uniform":
        return cls(float(text))

    @property
    def spec(self) -> str:
        return f"uniform:{self.half_width!r}"

    @property
    def scale(self) -> float:
        return float(np.float32(self.half_width))

    def radius(self, top_lower: ArrayLike, runner_up_upper: ArrayLike | None = None) -> Any:
        p = np.asarray(top_lower, dtype=float)
        q = 1 - p if runner_up_upper is None else np.asarray(runner_up_upper, dtype=float)
        # Three roundings to nearest, each of at most 2^-53: a radius must never be rounded up.
        return np.where(p > q, self.scale * np.maximum(p - q - 2**-52, 0.0) * (1 - 2**-50), 0.0)[()]

    def plan_scale(self, probability: Floats) -> Floats:
        return probability - 0.5

    def planned_radius(self, top: Floats, not_runner_up: Floats) -> Floats:
        return self.scale * np.maximum(top + not_runner_up, 0.0)


recert.register_noise("uniform", Uniform.parse)

# The noise of an element is a function of (key of the input, sample, stream, element). Philox gives four words of 32 bits for each
# counter (block of four elements, sample, 0, stream). Of each word 23 bits are used: then every step but the last two is
# exact, and the last two round alike everywhere, so that all implementations give the same bits.
STEP = 2.0**-22


@numba.njit(nogil=True)  # without fastmath, which would change bits
def add_on_cpu(inputs, rows, keys, samples, streams, scale, out):
    """out[b] = inputs[rows[b]] + scale * u(keys[rows[b]], samples[b], streams[b])."""
    counter, key = np.zeros(4, np.uint32), np.zeros(2, np.uint32)
    for b in range(len(out)):
        x, y, k = inputs[rows[b]], out[b], keys[rows[b]]
        key[0], key[1] = k & np.uint64(0xFFFFFFFF), k >> np.uint64(32)
        counter[1], counter[3] = samples[b], streams[b]
        for first in range(0, len(x), 4):
            counter[0] = first // 4
            words = words_on_cpu(counter, key)
            for e in range(first, min(first + 4, len(x))):
                u = (np.float32(words[e - first] >> np.uint32(9)) + np.float32(0.5)) * np.float32(STEP) - np.float32(
                    1.0
                )
                y[e] = x[e] + scale * u


def add_on_torch(
    inputs: torch.Tensor, rows: torch.Tensor, keys: torch.Tensor, samples: torch.Tensor, streams: torch.Tensor, scale: float
) -> torch.Tensor:  # fmt: skip
    """The same in torch, on any device, as a new tensor."""
    blocks = torch.arange((inputs.shape[1] + 3) // 4, device=inputs.device)[None, :]
    key, zero = keys[rows][:, None], torch.zeros_like(blocks)
    counter = [blocks, samples[:, None] + zero, zero, streams[:, None] + zero]
    words = words_on_torch(counter, [key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF])
    word = torch.stack(words, dim=-1).flatten(1)[:, : inputs.shape[1]]
    u = ((word >> 9).to(torch.float32) + 0.5) * STEP - 1.0
    return inputs[rows] + u * scale


def add_on_cuda(
    out: torch.Tensor, inputs: torch.Tensor, rows: torch.Tensor, keys: torch.Tensor, samples: torch.Tensor, streams: torch.Tensor,
    scale: float,
) -> None:  # fmt: skip
    """The same into a batch on a GPU, by way of torch. A Triton kernel as in `recert.noise.on_cuda` is several times as fast."""
    out.copy_(add_on_torch(inputs, rows, keys, samples, streams, scale).reshape(out.shape))


def main() -> None:
    from recert.data import load_data
    from recert.models import load_model

    model, data = load_model("digits").model, load_data("digits", count=20)
    cache = recert.certify(model, data.inputs, noise=recert.parse_noise("uniform:0.5"), samples=2_000)
    result = recert.recertify(recert.approximate(model, "prune:0.2").model, data.inputs, cache, samples=300)
    print(result.guarantee)
    print(f"average certified radius of the pruned network, l1: {result.average_certified_radius(data.labels):.3f}")


if __name__ == "__main__":
    main()
