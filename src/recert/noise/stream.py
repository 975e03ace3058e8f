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

from recert.noise import on_cpu, on_torch
from recert.noise.families import Gaussian


@dataclass(frozen=True)
class NoisyRows:
    """Which noisy copies make up a batch: row b is input `rows[b]` under noise `samples[b]` of `streams[b]`."""

    rows: NDArray[np.int64]
    samples: NDArray[np.int64]
    streams: NDArray[np.int64]


def perturb(inputs: Tensor, keys: NDArray[np.uint64], wanted: NoisyRows, noise: Gaussian) -> Tensor:
    """Noisy copies of flat float32 inputs (count x size), on the inputs' device: (batch x size)."""
    if inputs.device.type == "cpu":
        out = torch.empty((len(wanted.rows), inputs.shape[1]), dtype=torch.float32)
        sigma = np.float32(noise.sigma)
        on_cpu.perturb(inputs.numpy(), wanted.rows, keys, wanted.samples, wanted.streams, sigma, out.numpy())
        return out
    device = inputs.device
    arrays = (wanted.rows, keys.view(np.int64), wanted.samples, wanted.streams)
    rows, key, samples, streams = (torch.from_numpy(array).to(device, non_blocking=True) for array in arrays)
    if device.type == "cuda" and importlib.util.find_spec("triton"):
        from recert.noise import on_cuda

        return on_cuda.perturb(inputs, rows, key, samples, streams, noise.sigma)
    return on_torch.perturb(inputs, rows, key, samples, streams, noise.sigma)
