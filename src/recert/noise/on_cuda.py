"""The noise stream as a Triton kernel. Fusing multiply and add is off, so the bits match the CPU's."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recert.noise import polynomials as c

_M0, _M1 = tl.constexpr(c.MULTIPLIER_0), tl.constexpr(c.MULTIPLIER_1)
_W0, _W1 = tl.constexpr(c.WEYL_0), tl.constexpr(c.WEYL_1)
_ROUNDS = tl.constexpr(c.ROUNDS)
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = (tl.constexpr(x) for x in c.LOG)
_S0, _S1, _S2 = (tl.constexpr(x) for x in c.SIN)
_C0, _C1, _C2 = (tl.constexpr(x) for x in c.COS)
_LN2_HIGH, _LN2_LOW = tl.constexpr(c.LN2_HIGH), tl.constexpr(c.LN2_LOW)
_SQRT_HALF_BITS = tl.constexpr(c.SQRT_HALF_BITS)
_SCALE, _RADIANS = tl.constexpr(c.TWO_TO_MINUS_32), tl.constexpr(c.RADIANS_PER_STEP)
_BLOCKS_PER_PROGRAM = 256


@triton.jit
def _radius(word):
    u = (word.to(tl.float32) + 0.5) * _SCALE
    bits = u.to(tl.int32, bitcast=True) - _SQRT_HALF_BITS
    exponent = (bits >> 23).to(tl.float32)
    f = ((bits & 0x7FFFFF) + _SQRT_HALF_BITS).to(tl.float32, bitcast=True) - 1.0
    y = (((f * _L0 + _L1) * f + _L2) * f + _L3) * f + _L4
    y = (((y * f + _L5) * f + _L6) * f + _L7) * f + _L8
    square = f * f
    y = y * f * square
    y = y + exponent * _LN2_LOW
    y = y - 0.5 * square
    y = y + f
    y = y + exponent * _LN2_HIGH
    return tl.sqrt_rn(-2.0 * y)


@triton.jit
def _cosine_and_sine(word):
    quarter = (word + 0x20000000) >> 30
    a = (word - (quarter << 30)).to(tl.int32, bitcast=True).to(tl.float32) * _RADIANS
    square = a * a
    s = ((square * _S0 + _S1) * square + _S2) * square * a + a
    d = ((square * _C0 + _C1) * square + _C2) * square * square - 0.5 * square + 1.0
    swap = (quarter & 1) != 0
    cosine, sine = tl.where(swap, s, d), tl.where(swap, d, s)
    cosine = tl.where(((quarter + 1) & 2) != 0, -cosine, cosine)
    return cosine, tl.where((quarter & 2) != 0, -sine, sine)


@triton.jit
def _perturb(
    inputs, rows, keys, samples, streams, sigma, out, size, plane, channels,
    CHANNELS_LAST: tl.constexpr, PER_PROGRAM: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + b)
    key = tl.load(keys + row)
    block = (tl.program_id(1) * PER_PROGRAM + tl.arange(0, PER_PROGRAM)).to(tl.uint32)
    zero = tl.zeros([PER_PROGRAM], tl.uint32)
    c0, c1 = block, zero + tl.load(samples + b).to(tl.uint32)
    c2, c3 = zero, zero + tl.load(streams + b).to(tl.uint32)
    k0, k1 = zero + (key & 0xFFFFFFFF).to(tl.uint32), zero + ((key >> 32) & 0xFFFFFFFF).to(tl.uint32)
    for _ in tl.static_range(_ROUNDS):
        h0, l0 = tl.umulhi(c0, zero + _M0), c0 * (zero + _M0)
        h1, l1 = tl.umulhi(c2, zero + _M1), c2 * (zero + _M1)
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0, k1 = k0 + (zero + _W0), k1 + (zero + _W1)
    r0, r1 = _radius(c0), _radius(c2)
    cos0, sin0 = _cosine_and_sine(c1)
    cos1, sin1 = _cosine_and_sine(c3)
    even = tl.interleave(r0 * cos0, r1 * cos1)
    odd = tl.interleave(r0 * sin0, r1 * sin1)
    element = tl.program_id(1) * PER_PROGRAM * 4 + tl.arange(0, 4 * PER_PROGRAM)
    inside = element < size
    x = tl.load(inputs + row * size + element, mask=inside)
    noisy = x + tl.interleave(even, odd) * sigma
    place = element
    if CHANNELS_LAST:
        place = element % plane * channels + element // plane
    tl.store(out + b * size + place, noisy.to(out.dtype.element_ty), mask=inside)


def perturb_into(
    out: Tensor, inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, sigma: float
) -> None:
    """out[b] = inputs[rows[b]] + sigma * z(keys[rows[b]], samples[b], streams[b]), in the type and memory format of `out`.

    The sum is taken in float32 and then rounded. `out` is dense: one row after the other, or channels-last images.
    """
    size = inputs.shape[1]
    channels_last = out.ndim == 4 and not out.is_contiguous()
    if channels_last and not out.is_contiguous(memory_format=torch.channels_last):
        raise ValueError(f"expected a dense or a channels-last batch, got strides {out.stride()}")
    channels = out.shape[1] if channels_last else 1
    grid = (len(rows), triton.cdiv(size, 4 * _BLOCKS_PER_PROGRAM))
    _perturb[grid](
        inputs, rows, keys, samples, streams, sigma, out, size, size // channels, channels,
        CHANNELS_LAST=channels_last, PER_PROGRAM=_BLOCKS_PER_PROGRAM, enable_fp_fusion=False,
    )  # fmt: skip
