"""The noise stream in plain torch: any device, no compiler, slow. 32-bit words live in int64 tensors."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from recert.noise import polynomials as c
from recert.noise.rounded_normal import alias_table

_MASK = 0xFFFFFFFF


def philox4x32(counter: list[Tensor], key: list[Tensor]) -> list[Tensor]:
    """Philox4x32-10 blocks; all arguments broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(c.ROUNDS):
        # The signed product wraps, but its 64 bits are those of the unsigned one.
        p0, p1 = c0 * c.MULTIPLIER_0, c2 * c.MULTIPLIER_1
        c0, c1, c2, c3 = (p1 >> 32 & _MASK) ^ c1 ^ k0, p1 & _MASK, (p0 >> 32 & _MASK) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = k0 + c.WEYL_0 & _MASK, k1 + c.WEYL_1 & _MASK
    return [c0, c1, c2, c3]


def perturb(inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, sigma: float) -> Tensor:
    """inputs[rows[b]] + sigma * z(keys[rows[b]], samples[b], streams[b]) for every b, in float32."""
    w0, w1, w2, w3 = _words(inputs, rows, keys, samples, streams, per_block=4)
    r0, r1 = _radius(w0), _radius(w2)
    c0, s0 = _cosine_and_sine(w1)
    c1, s1 = _cosine_and_sine(w3)
    return _added(inputs[rows], torch.stack([r0 * c0, r0 * s0, r1 * c1, r1 * s1], dim=-1), sigma)


def perturb_laplace(
    inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, scale: float
) -> Tensor:
    """The same with z of density exp(-|z|) / 2."""
    word = torch.stack(_words(inputs, rows, keys, samples, streams, per_block=4), dim=-1)
    size = -_log(((word >> 1).to(torch.float32) + 0.5) * c.TWO_TO_MINUS_31)
    return _added(inputs[rows], torch.where((word & 1) != 0, -size, size), scale)


def perturb_uniform(
    inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, scale: float
) -> Tensor:
    """The same with z uniform on [-1, 1]."""
    word = torch.stack(_words(inputs, rows, keys, samples, streams, per_block=4), dim=-1)
    return _added(inputs[rows], ((word >> 9).to(torch.float32) + 0.5) * c.TWO_TO_MINUS_22 - 1.0, scale)


def perturb_splitting(
    inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, scale: float
) -> Tensor:
    """The middles of the cells, 2 scale wide and placed by (keys[rows[b]], samples[b], streams[b]), of inputs[rows[b]]."""
    word = torch.stack(_words(inputs, rows, keys, samples, streams, per_block=4), dim=-1).flatten(1)
    begin = (word >> 9)[:, : inputs.shape[1]]
    # By a tensor: a number would be turned into a product with its inverse on a GPU, which rounds in another way.
    width = torch.full((), 2 * scale, dtype=torch.float32, device=inputs.device)
    cell = (torch.floor(inputs / width * c.TWO_TO_23).long()[rows] - begin) >> 23
    return (cell.to(torch.float32) + (begin.to(torch.float32) * c.TWO_TO_MINUS_23 + 0.5)) * width


def perturb_on_grid(
    inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, sigma: float, steps: int
) -> Tensor:
    """float32((steps * inputs[rows[b]] + n) / steps), n the rounded normal numbers of (keys[rows[b]], samples[b], streams[b])."""
    bits, largest, entries = table_on(inputs.device, sigma, steps)
    w0, w1, w2, w3 = _words(inputs, rows, keys, samples, streams, per_block=2)
    high, low = torch.stack([w0, w2], dim=-1), torch.stack([w1, w3], dim=-1)
    column = high >> 32 - bits
    rest = (high & (1 << 32 - bits) - 1) << 32 | low
    entry = entries[column]
    threshold = entry >> bits & (1 << 64 - bits) - 1  # the bits of an unsigned number
    drawn = (torch.where(rest < threshold, column, entry & (1 << bits) - 1) - largest).flatten(1)
    by = torch.full((), steps, dtype=torch.float32, device=inputs.device)
    nearest = (inputs * by + c.ROUNDER) - c.ROUNDER
    return (nearest[rows] + drawn[:, : inputs.shape[1]].to(torch.float32)) / by


@cache
def table_on(device: torch.device, sigma: float, steps: int) -> tuple[int, int, Tensor]:
    """An alias table on a device: bits, the largest number, and entries, as signed numbers of the same bits.

    It stays as long as the process lives: a batch that was recorded as a CUDA graph reads it where it was, and if its memory were
    given to something else, later noise would be made of that. A table takes at most 1.5 MiB.
    """
    table = alias_table(sigma, steps)
    return table.bits, table.largest, torch.from_numpy(table.entries.view(np.int64)).to(device)


def _words(
    inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, *, per_block: int
) -> list[Tensor]:
    """Four words for each block of `per_block` elements: each batch x blocks."""
    blocks = torch.arange((inputs.shape[1] + per_block - 1) // per_block, device=inputs.device)
    key = keys[rows][:, None]
    zero = torch.zeros_like(key)
    counter = [blocks[None, :] + zero, samples[:, None] + zero, zero, streams[:, None] + zero]
    return philox4x32(counter, [key & _MASK, key >> 32 & _MASK])


def _added(chosen: Tensor, noise: Tensor, scale: float) -> Tensor:
    """Rows plus scale times the noise of their elements, which stands block by block."""
    # Filled on the device and not sent there: a copy cannot be part of a CUDA graph.
    factor = torch.full((), scale, dtype=torch.float32, device=chosen.device)
    return chosen + noise.flatten(1)[:, : chosen.shape[1]] * factor


def _radius(word: Tensor) -> Tensor:
    y = _log((word.to(torch.float32) + 0.5) * c.TWO_TO_MINUS_32)
    # torch's float32 square root is not correctly rounded on every CPU; the one through float64 is.
    return torch.sqrt((-2.0 * y).double()).float()


def _log(u: Tensor) -> Tensor:
    bits = u.view(torch.int32) - c.SQRT_HALF_BITS
    exponent = (bits >> 23).to(torch.float32)
    f = ((bits & 0x7FFFFF) + c.SQRT_HALF_BITS).view(torch.float32) - 1.0
    y = torch.full_like(f, c.LOG[0])
    for coefficient in c.LOG[1:]:
        y = y * f + coefficient
    square = f * f
    y = y * f * square
    y = y + exponent * c.LN2_LOW
    y = y - 0.5 * square
    y = y + f
    return y + exponent * c.LN2_HIGH


def _cosine_and_sine(word: Tensor) -> tuple[Tensor, Tensor]:
    quarter = (word + 0x20000000 & _MASK) >> 30
    rest = word - (quarter << 30) & _MASK
    rest = torch.where(rest >= 1 << 31, rest - (1 << 32), rest)
    a = rest.to(torch.float32) * c.RADIANS_PER_STEP
    square = a * a
    s = ((c.SIN[0] * square + c.SIN[1]) * square + c.SIN[2]) * square * a + a
    d = ((c.COS[0] * square + c.COS[1]) * square + c.COS[2]) * square * square - 0.5 * square + 1.0
    swap = (quarter & 1) != 0
    cosine, sine = torch.where(swap, s, d), torch.where(swap, d, s)
    cosine = torch.where((quarter + 1 & 2) != 0, -cosine, cosine)
    return cosine, torch.where((quarter & 2) != 0, -sine, sine)
