"""A noise of your own: triangular, with certificates in the l1 norm. python examples/extending/noise.py

Each element of the noise is h (u + v) with u and v uniform on [-1/2, 1/2], so that its density is a triangle from -h to h. That density
is symmetric and log-concave; so, if an event has the probability p, it has at least F(Q(p) - ||d||_1 / h) after the input has moved by d,
with F the distribution function at h = 1 and Q its inverse (docs/theory.md has the proof). The class keeps its lead while
Q(top_lower) - ||d||_1 / h > Q(runner_up_upper) + ||d||_1 / h: the radius is h/2 (Q(top_lower) - Q(runner_up_upper)).
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
class Triangular:
    """Independent noise of triangular density from -half_width to half_width. Certificates are in the l1 norm."""

    half_width: float

    norm = "l1"
    # Named and not imported, so that a cache is read without torch. Workers in other processes must be able to import the module.
    kernels = Kernels(f"{__name__}:add_on_cpu", f"{__name__}:add_on_torch", f"{__name__}:add_on_cuda")

    def __post_init__(self) -> None:
        if not (math.isfinite(self.half_width) and self.half_width > 0):
            raise ValueError(f"expected a finite half width > 0, got {self.half_width!r}; a usual value is 1.0")

    @classmethod
    def parse(cls, text: str) -> "Triangular":
        return cls(float(text))

    @property
    def spec(self) -> str:
        return f"triangular:{self.half_width!r}"

    @property
    def scale(self) -> float:
        return float(np.float32(self.half_width))

    def radius(self, top_lower: ArrayLike, runner_up_upper: ArrayLike | None = None) -> Any:
        p = np.asarray(top_lower, dtype=float)
        q = 1 - p if runner_up_upper is None else np.asarray(runner_up_upper, dtype=float)
        # Quantiles are at most 1, and a few roundings of at most 2^-53 each: a radius must never be rounded up.
        lead = self.plan_scale(p) - self.plan_scale(q) - 2**-49
        return np.where(p > q, self.scale / 2 * np.maximum(lead, 0.0) * (1 - 2**-50), 0.0)[()]

    def plan_scale(self, probability: Floats) -> Floats:
        p = np.asarray(probability, dtype=float)
        side = 1 - np.sqrt(2 * np.minimum(p, 1 - p))  # exact below the root: 1 - p of a p above 1/2 is
        return np.where(p > 0.5, side, -side)

    def planned_radius(self, top: Floats, not_runner_up: Floats) -> Floats:
        return self.scale / 2 * np.maximum(top + not_runner_up, 0.0)


recert.register_noise("triangular", Triangular.parse)

# The noise of an element is a function of (key of the input, sample, stream, element). Philox gives four words of 32 bits for each
# counter (block of four elements, sample, 0, stream). u and v are the two halves of a word: then every step but the last two is
# exact, and the last two round alike everywhere, so that all implementations give the same bits.
STEP = 2.0**-16


@numba.njit(nogil=True)  # without fastmath, which would change bits
def add_on_cpu(inputs, rows, keys, samples, streams, scale, out):
    """out[b] = inputs[rows[b]] + scale * z(keys[rows[b]], samples[b], streams[b])."""
    counter, key = np.zeros(4, np.uint32), np.zeros(2, np.uint32)
    for b in range(len(out)):
        x, y, k = inputs[rows[b]], out[b], keys[rows[b]]
        key[0], key[1] = k & np.uint64(0xFFFFFFFF), k >> np.uint64(32)
        counter[1], counter[3] = samples[b], streams[b]
        for first in range(0, len(x), 4):
            counter[0] = first // 4
            words = words_on_cpu(counter, key)
            for e in range(first, min(first + 4, len(x))):
                halves = (words[e - first] >> np.uint32(16)) + (words[e - first] & np.uint32(0xFFFF))
                z = np.float32(halves + 1) * np.float32(STEP) - np.float32(1.0)
                y[e] = x[e] + scale * z


def add_on_torch(
    inputs: torch.Tensor, rows: torch.Tensor, keys: torch.Tensor, samples: torch.Tensor, streams: torch.Tensor, scale: float
) -> torch.Tensor:  # fmt: skip
    """The same in torch, on any device, as a new tensor."""
    blocks = torch.arange((inputs.shape[1] + 3) // 4, device=inputs.device)[None, :]
    key, zero = keys[rows][:, None], torch.zeros_like(blocks)
    counter = [blocks, samples[:, None] + zero, zero, streams[:, None] + zero]
    words = words_on_torch(counter, [key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF])
    word = torch.stack(words, dim=-1).flatten(1)[:, : inputs.shape[1]]
    z = ((word >> 16) + (word & 0xFFFF) + 1).to(torch.float32) * STEP - 1.0
    return inputs[rows] + z * scale


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
    cache = recert.certify(model, data.inputs, noise=recert.parse_noise("triangular:1.0"), samples=2_000)
    result = recert.recertify(recert.approximate(model, "prune:0.2").model, data.inputs, cache, samples=300)
    print(result.guarantee)
    print(f"average certified radius of the pruned network, l1: {result.average_certified_radius(data.labels):.3f}")


if __name__ == "__main__":
    main()
