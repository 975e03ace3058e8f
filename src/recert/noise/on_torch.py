"""The noise stream in plain torch: any device, no compiler, slow. 32-bit words live in int64 tensors."""

import torch
from torch import Tensor

from recert.noise import polynomials as c

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
    size = inputs.shape[1]
    blocks = torch.arange((size + 3) // 4, device=inputs.device)
    key = keys[rows][:, None]
    zero = torch.zeros_like(key)
    counter = [blocks[None, :] + zero, samples[:, None] + zero, zero, streams[:, None] + zero]
    w0, w1, w2, w3 = philox4x32(counter, [key & _MASK, key >> 32 & _MASK])
    r0, r1 = _radius(w0), _radius(w2)
    c0, s0 = _cosine_and_sine(w1)
    c1, s1 = _cosine_and_sine(w3)
    normals = torch.stack([r0 * c0, r0 * s0, r1 * c1, r1 * s1], dim=-1).flatten(1)[:, :size]
    return inputs[rows] + normals * torch.tensor(sigma, dtype=torch.float32, device=inputs.device)


def _radius(word: Tensor) -> Tensor:
    u = (word.to(torch.float32) + 0.5) * c.TWO_TO_MINUS_32
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
    y = y + exponent * c.LN2_HIGH
    # torch's float32 square root is not correctly rounded on every CPU; the one through float64 is.
    return torch.sqrt((-2.0 * y).double()).float()


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
