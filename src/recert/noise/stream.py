"""Noise by counter: the same bits for any batch, order or device.

A sample's noise is a function of (key of its input, sample index, stream, element) and of nothing else. Uniforms have
32 bits, so normals reach 6.76 standard deviations; the mass beyond is 1.4e-11.
"""

import importlib.util
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recert.noise.family import Noise
from recert.registration import function_named


@dataclass(frozen=True)
class NoisyRows:
    """Which noisy copies make up a batch: row b is input `rows[b]` under noise `samples[b]` of `streams[b]`."""

    rows: NDArray[np.int64]
    samples: NDArray[np.int64]
    streams: NDArray[np.int64]

    def part(self, start: int, length: int) -> "NoisyRows":
        """Rows [start, start + length), as far as there are any."""
        here = slice(start, start + length)
        return NoisyRows(self.rows[here], self.samples[here], self.streams[here])

    def where(self, chosen: NDArray[np.bool_]) -> "NoisyRows":
        """Those of the rows that are chosen."""
        return NoisyRows(self.rows[chosen], self.samples[chosen], self.streams[chosen])

    def padded(self, length: int) -> "NoisyRows":
        """The same rows, the last one repeated until there are `length`."""
        more = length - len(self.rows)
        if more <= 0:
            return self.part(0, length)
        return NoisyRows(
            *(np.concatenate([each, np.repeat(each[-1:], more)]) for each in (self.rows, self.samples, self.streams))
        )

    def followed_by(self, other: "NoisyRows") -> "NoisyRows":
        """These rows and then the others."""
        return NoisyRows(
            *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("rows", "samples", "streams"))
        )


def perturb(inputs: Tensor, keys: NDArray[np.uint64], wanted: NoisyRows, noise: Noise) -> Tensor:
    """Noisy copies of flat float32 inputs (count x size), on the inputs' device: (batch x size)."""
    out = torch.empty((len(wanted.rows), inputs.shape[1]), dtype=torch.float32, device=inputs.device)
    if inputs.device.type == "cpu":
        add_noise, scale = function_named(noise.kernels.cpu), np.float32(noise.scale)
        add_noise(
            inputs.numpy(),
            wanted.rows,
            keys,
            wanted.samples,
            wanted.streams,
            scale,
            *noise.kernels.numbers,
            out.numpy(),
        )
        return out
    arrays = (wanted.rows, keys.view(np.int64), wanted.samples, wanted.streams)
    rows, key, samples, streams = (torch.from_numpy(array).to(inputs.device) for array in arrays)
    perturb_into(out, inputs, rows, key, samples, streams, noise)
    return out


def perturb_into(
    out: Tensor, inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, noise: Noise
) -> None:
    """The same straight into a batch on a device, in its type and memory format; nothing is waited for."""
    kernels = noise.kernels
    about = (inputs, rows, keys, samples, streams, noise.scale, *kernels.numbers)
    if out.device.type == "cuda" and importlib.util.find_spec("triton"):
        function_named(kernels.cuda)(out, *about)
    else:
        noisy = function_named(kernels.torch)(*about)
        out.copy_(noisy.reshape(out.shape))
