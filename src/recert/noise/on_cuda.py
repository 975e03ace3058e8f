"""The noise stream as a Triton kernel. Fusing multiply and add is off, so the bits match the CPU's."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recert.noise import polynomials as c
from recert.noise.on_torch import table_on

_M0, _M1 = tl.constexpr(c.MULTIPLIER_0), tl.constexpr(c.MULTIPLIER_1)
_W0, _W1 = tl.constexpr(c.WEYL_0), tl.constexpr(c.WEYL_1)
_ROUNDS = tl.constexpr(c.ROUNDS)
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = (tl.constexpr(x) for x in c.LOG)
_S0, _S1, _S2 = (tl.constexpr(x) for x in c.SIN)
_C0, _C1, _C2 = (tl.constexpr(x) for x in c.COS)
_LN2_HIGH, _LN2_LOW = tl.constexpr(c.LN2_HIGH), tl.constexpr(c.LN2_LOW)
_SQRT_HALF_BITS = tl.constexpr(c.SQRT_HALF_BITS)
_SCALE, _RADIANS = tl.constexpr(c.TWO_TO_MINUS_32), tl.constexpr(c.RADIANS_PER_STEP)
_TWO_TO_MINUS_31, _TWO_TO_MINUS_22 = tl.constexpr(c.TWO_TO_MINUS_31), tl.constexpr(c.TWO_TO_MINUS_22)
_TWO_TO_MINUS_23, _TWO_TO_23 = tl.constexpr(c.TWO_TO_MINUS_23), tl.constexpr(c.TWO_TO_23)
_ROUNDER = tl.constexpr(c.ROUNDER)
_BLOCKS_PER_PROGRAM = 256


@triton.jit
def _log(u):
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
    return y + exponent * _LN2_HIGH


@triton.jit
def _radius(word):
    return tl.sqrt_rn(-2.0 * _log((word.to(tl.float32) + 0.5) * _SCALE))


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
def _laplace(word):
    size = -_log(((word >> 1).to(tl.float32) + 0.5) * _TWO_TO_MINUS_31)
    return tl.where((word & 1) != 0, -size, size)


@triton.jit
def _uniform(word):
    return ((word >> 9).to(tl.float32) + 0.5) * _TWO_TO_MINUS_22 - 1.0


@triton.jit
def _words(key, sample, stream, PER_PROGRAM: tl.constexpr):
    """Four words for each of the blocks of this program."""
    zero = tl.zeros([PER_PROGRAM], tl.uint32)
    c0 = (tl.program_id(1) * PER_PROGRAM + tl.arange(0, PER_PROGRAM)).to(tl.uint32)
    c1, c2, c3 = zero + sample.to(tl.uint32), zero, zero + stream.to(tl.uint32)
    k0, k1 = zero + (key & 0xFFFFFFFF).to(tl.uint32), zero + ((key >> 32) & 0xFFFFFFFF).to(tl.uint32)
    for _ in tl.static_range(_ROUNDS):
        h0, l0 = tl.umulhi(c0, zero + _M0), c0 * (zero + _M0)
        h1, l1 = tl.umulhi(c2, zero + _M1), c2 * (zero + _M1)
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0, k1 = k0 + (zero + _W0), k1 + (zero + _W1)
    return c0, c1, c2, c3


@triton.jit
def _perturb(
    inputs, rows, keys, samples, streams, scale, out, size, plane, channels,
    FAMILY: tl.constexpr, CHANNELS_LAST: tl.constexpr, PER_PROGRAM: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + b)
    w0, w1, w2, w3 = _words(tl.load(keys + row), tl.load(samples + b), tl.load(streams + b), PER_PROGRAM)
    if FAMILY == "gaussian":
        r0, r1 = _radius(w0), _radius(w2)
        cos0, sin0 = _cosine_and_sine(w1)
        cos1, sin1 = _cosine_and_sine(w3)
        z0, z1, z2, z3 = r0 * cos0, r0 * sin0, r1 * cos1, r1 * sin1
    elif FAMILY == "laplace":
        z0, z1, z2, z3 = _laplace(w0), _laplace(w1), _laplace(w2), _laplace(w3)
    else:
        z0, z1, z2, z3 = _uniform(w0), _uniform(w1), _uniform(w2), _uniform(w3)
    element = tl.program_id(1) * PER_PROGRAM * 4 + tl.arange(0, 4 * PER_PROGRAM)
    inside = element < size
    x = tl.load(inputs + row * size + element, mask=inside)
    noisy = x + tl.interleave(tl.interleave(z0, z2), tl.interleave(z1, z3)) * scale
    place = element
    if CHANNELS_LAST:
        place = element % plane * channels + element // plane
    tl.store(out + b * size + place, noisy.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _perturb_splitting(
    inputs, rows, keys, samples, streams, width, out, size, plane, channels,
    CHANNELS_LAST: tl.constexpr, PER_PROGRAM: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + b)
    w0, w1, w2, w3 = _words(tl.load(keys + row), tl.load(samples + b), tl.load(streams + b), PER_PROGRAM)
    word = tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3))
    element = tl.program_id(1) * PER_PROGRAM * 4 + tl.arange(0, 4 * PER_PROGRAM)
    inside = element < size
    x = tl.load(inputs + row * size + element, mask=inside, other=0.0)
    begin = (word >> 9).to(tl.int32)
    cell = (tl.floor(tl.div_rn(x, width) * _TWO_TO_23).to(tl.int32) - begin) >> 23
    noisy = (cell.to(tl.float32) + (begin.to(tl.float32) * _TWO_TO_MINUS_23 + 0.5)) * width
    place = element
    if CHANNELS_LAST:
        place = element % plane * channels + element // plane
    tl.store(out + b * size + place, noisy.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _drawn(high, low, entries, largest, BITS: tl.constexpr):
    column = (high >> (32 - BITS)).to(tl.int32)
    rest = ((high & ((1 << (32 - BITS)) - 1)).to(tl.uint64) << 32) | low.to(tl.uint64)
    entry = tl.load(entries + column).to(tl.uint64, bitcast=True)
    return tl.where(rest < (entry >> BITS), column, (entry & ((1 << BITS) - 1)).to(tl.int32)) - largest


@triton.jit
def _perturb_on_grid(
    inputs, rows, keys, samples, streams, steps, entries, largest, out, size, plane, channels,
    BITS: tl.constexpr, CHANNELS_LAST: tl.constexpr, PER_PROGRAM: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + b)
    w0, w1, w2, w3 = _words(tl.load(keys + row), tl.load(samples + b), tl.load(streams + b), PER_PROGRAM)
    first = _drawn(w0, w1, entries, largest, BITS)
    second = _drawn(w2, w3, entries, largest, BITS)
    element = tl.program_id(1) * PER_PROGRAM * 2 + tl.arange(0, 2 * PER_PROGRAM)
    inside = element < size
    x = tl.load(inputs + row * size + element, mask=inside, other=0.0)
    nearest = (x * steps + _ROUNDER) - _ROUNDER
    noisy = tl.div_rn(nearest + tl.interleave(first, second).to(tl.float32), steps)
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
    _launch("gaussian", out, inputs, rows, keys, samples, streams, sigma)


def perturb_laplace_into(
    out: Tensor, inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, scale: float
) -> None:
    """The same with z of density exp(-|z|) / 2."""
    _launch("laplace", out, inputs, rows, keys, samples, streams, scale)


def perturb_uniform_into(
    out: Tensor, inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, scale: float
) -> None:
    """The same with z uniform on [-1, 1]."""
    _launch("uniform", out, inputs, rows, keys, samples, streams, scale)


def perturb_splitting_into(
    out: Tensor, inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, scale: float
) -> None:
    """The middles of cells of width 2 scale: see `recert.noise.on_torch.perturb_splitting`."""
    size, channels = inputs.shape[1], _channels_apart(out)
    grid = (len(rows), triton.cdiv(size, 4 * _BLOCKS_PER_PROGRAM))
    _perturb_splitting[grid](
        inputs, rows, keys, samples, streams, 2 * scale, out, size, size // channels, channels,
        CHANNELS_LAST=channels > 1, PER_PROGRAM=_BLOCKS_PER_PROGRAM, enable_fp_fusion=False,
    )  # fmt: skip


def perturb_on_grid_into(
    out: Tensor,
    inputs: Tensor,
    rows: Tensor,
    keys: Tensor,
    samples: Tensor,
    streams: Tensor,
    sigma: float,
    steps: int,
) -> None:
    """The rounded sum of whole numbers and rounded normal ones: see `recert.noise.on_torch.perturb_on_grid`."""
    bits, largest, entries = table_on(inputs.device, sigma, steps)
    size, channels = inputs.shape[1], _channels_apart(out)
    grid = (len(rows), triton.cdiv(size, 2 * _BLOCKS_PER_PROGRAM))
    _perturb_on_grid[grid](
        inputs, rows, keys, samples, streams, float(steps), entries, largest, out, size, size // channels, channels,
        BITS=bits, CHANNELS_LAST=channels > 1, PER_PROGRAM=_BLOCKS_PER_PROGRAM, enable_fp_fusion=False,
    )  # fmt: skip


def _launch(
    family: str, out: Tensor, inputs: Tensor, rows: Tensor, keys: Tensor, samples: Tensor, streams: Tensor, scale: float
) -> None:
    size, channels = inputs.shape[1], _channels_apart(out)
    grid = (len(rows), triton.cdiv(size, 4 * _BLOCKS_PER_PROGRAM))
    _perturb[grid](
        inputs, rows, keys, samples, streams, scale, out, size, size // channels, channels, FAMILY=family,
        CHANNELS_LAST=channels > 1, PER_PROGRAM=_BLOCKS_PER_PROGRAM, enable_fp_fusion=False,
    )  # fmt: skip


def _channels_apart(out: Tensor) -> int:
    """The number of channels of a channels-last batch, and 1 where elements lie one after the other as in the inputs."""
    if out.ndim != 4 or out.is_contiguous():
        return 1
    if not out.is_contiguous(memory_format=torch.channels_last):
        raise ValueError(f"expected a dense or a channels-last batch, got strides {out.stride()}")
    return out.shape[1]
