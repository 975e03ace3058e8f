"""The noise stream on a CPU, compiled by numba. About one nanosecond per normal on one core."""

import math

import numba
import numpy as np
from numba import float32, int32, uint32, uint64

from recert.compiled import compiled
from recert.noise import polynomials as c
from recert.noise.rounded_normal import alias_table

_M0, _M1 = np.uint64(c.MULTIPLIER_0), np.uint64(c.MULTIPLIER_1)
_W0, _W1 = np.uint32(c.WEYL_0), np.uint32(c.WEYL_1)
_L = tuple(np.float32(x) for x in c.LOG)
_S = tuple(np.float32(x) for x in c.SIN)
_C = tuple(np.float32(x) for x in c.COS)
_LN2_HIGH, _LN2_LOW = np.float32(c.LN2_HIGH), np.float32(c.LN2_LOW)
_SQRT_HALF_BITS = np.int32(c.SQRT_HALF_BITS)
_SCALE, _RADIANS = np.float32(c.TWO_TO_MINUS_32), np.float32(c.RADIANS_PER_STEP)
_TWO_TO_MINUS_31, _TWO_TO_MINUS_22 = np.float32(c.TWO_TO_MINUS_31), np.float32(c.TWO_TO_MINUS_22)
_TWO_TO_MINUS_23, _TWO_TO_23 = np.float32(c.TWO_TO_MINUS_23), np.float32(c.TWO_TO_23)
_ROUNDER = np.float32(c.ROUNDER)
_HALF, _ONE, _MINUS_TWO = np.float32(0.5), np.float32(1.0), np.float32(-2.0)

# Strict floating point: no fastmath, so LLVM neither reorders nor fuses, and the bits match the other devices.
_inline = numba.njit(inline="always", nogil=True)


@_inline
def _philox(c0, c1, c2, c3, k0, k1):
    for _ in range(c.ROUNDS):
        p0, p1 = uint64(c0) * _M0, uint64(c2) * _M1
        c0, c1, c2, c3 = (
            uint32(uint32(p1 >> uint64(32)) ^ c1 ^ k0),
            uint32(p1),
            uint32(uint32(p0 >> uint64(32)) ^ c3 ^ k1),
            uint32(p0),
        )
        k0, k1 = uint32(k0 + _W0), uint32(k1 + _W1)
    return c0, c1, c2, c3


@_inline
def _log(u):
    """The natural logarithm of a float32 number in (0, 1]."""
    bits = int32(np.float32(u).view(np.int32) - _SQRT_HALF_BITS)
    exponent = float32(bits >> int32(23))
    f = np.int32((bits & int32(0x7FFFFF)) + _SQRT_HALF_BITS).view(np.float32) - _ONE
    y = _L[0]
    for i in range(1, 9):
        y = y * f + _L[i]
    square = f * f
    y = y * f * square
    y = y + exponent * _LN2_LOW
    y = y - _HALF * square
    y = y + f
    return y + exponent * _LN2_HIGH


@_inline
def _radius(word):
    """sqrt(-2 log u) with u = (word + 1/2) / 2^32."""
    return float32(math.sqrt(_MINUS_TWO * _log((float32(word) + _HALF) * _SCALE)))


@_inline
def _cosine_and_sine(word):
    """cos and sin of 2 pi word / 2^32: the quarter turn exactly from the top bits, the rest by polynomials."""
    quarter = uint32(uint32(word + uint32(0x20000000)) >> uint32(30))
    a = float32(int32(uint32(word - uint32(quarter << uint32(30))))) * _RADIANS
    square = a * a
    s = ((_S[0] * square + _S[1]) * square + _S[2]) * square * a + a
    d = ((_C[0] * square + _C[1]) * square + _C[2]) * square * square - _HALF * square + _ONE
    swap = (quarter & uint32(1)) != uint32(0)
    cosine, sine = (s, d) if swap else (d, s)
    cosine = -cosine if ((quarter + uint32(1)) & uint32(2)) != uint32(0) else cosine
    sine = -sine if (quarter & uint32(2)) != uint32(0) else sine
    return cosine, sine


@_inline
def _four_normals(block, sample, stream, k0, k1):
    w0, w1, w2, w3 = _philox(block, sample, uint32(0), stream, k0, k1)
    r0, r1 = _radius(w0), _radius(w2)
    c0, s0 = _cosine_and_sine(w1)
    c1, s1 = _cosine_and_sine(w3)
    return r0 * c0, r0 * s0, r1 * c1, r1 * s1


@_inline
def _laplace(word):
    """A sign, the last bit, times -log u with u = (the other bits + 1/2) / 2^31, which is exponential."""
    size = -_log((float32(uint32(word >> uint32(1))) + _HALF) * _TWO_TO_MINUS_31)
    return -size if (word & uint32(1)) != uint32(0) else size


@_inline
def _uniform(word):
    """From -1 to 1, exactly: 23 bits and a half fit into a float32."""
    return (float32(uint32(word >> uint32(9))) + _HALF) * _TWO_TO_MINUS_22 - _ONE


@_inline
def _four_laplace(block, sample, stream, k0, k1):
    w0, w1, w2, w3 = _philox(block, sample, uint32(0), stream, k0, k1)
    return _laplace(w0), _laplace(w1), _laplace(w2), _laplace(w3)


@_inline
def _four_uniform(block, sample, stream, k0, k1):
    w0, w1, w2, w3 = _philox(block, sample, uint32(0), stream, k0, k1)
    return _uniform(w0), _uniform(w1), _uniform(w2), _uniform(w3)


@compiled
def philox4x32(counter, key):
    """One Philox4x32-10 block, for the known-answer tests."""
    words = _philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])
    return np.array([words[0], words[1], words[2], words[3]], dtype=np.uint32)


@compiled
def perturb(inputs, rows, keys, samples, streams, sigma, out):
    """out[b] = inputs[rows[b]] + sigma * z(keys[rows[b]], samples[b], streams[b])."""
    size = inputs.shape[1]
    for b in range(out.shape[0]):
        x, y = inputs[rows[b]], out[b]
        key = keys[rows[b]]
        k0, k1 = uint32(key & uint64(0xFFFFFFFF)), uint32(key >> uint64(32))
        sample, stream = uint32(samples[b]), uint32(streams[b])
        for block in range(size // 4):
            z0, z1, z2, z3 = _four_normals(uint32(block), sample, stream, k0, k1)
            e = 4 * block
            y[e] = x[e] + sigma * z0
            y[e + 1] = x[e + 1] + sigma * z1
            y[e + 2] = x[e + 2] + sigma * z2
            y[e + 3] = x[e + 3] + sigma * z3
        if size % 4:
            z = _four_normals(uint32(size // 4), sample, stream, k0, k1)
            for j in range(size % 4):
                e = size // 4 * 4 + j
                y[e] = x[e] + sigma * z[j]


@compiled
def perturb_laplace(inputs, rows, keys, samples, streams, scale, out):
    """out[b] = inputs[rows[b]] + scale * z, z of density exp(-|z|) / 2, from (keys[rows[b]], samples[b], streams[b])."""
    size = inputs.shape[1]
    for b in range(out.shape[0]):
        x, y = inputs[rows[b]], out[b]
        key = keys[rows[b]]
        k0, k1 = uint32(key & uint64(0xFFFFFFFF)), uint32(key >> uint64(32))
        sample, stream = uint32(samples[b]), uint32(streams[b])
        for block in range(size // 4):
            z0, z1, z2, z3 = _four_laplace(uint32(block), sample, stream, k0, k1)
            e = 4 * block
            y[e] = x[e] + scale * z0
            y[e + 1] = x[e + 1] + scale * z1
            y[e + 2] = x[e + 2] + scale * z2
            y[e + 3] = x[e + 3] + scale * z3
        if size % 4:
            z = _four_laplace(uint32(size // 4), sample, stream, k0, k1)
            for j in range(size % 4):
                e = size // 4 * 4 + j
                y[e] = x[e] + scale * z[j]


@compiled
def perturb_uniform(inputs, rows, keys, samples, streams, scale, out):
    """out[b] = inputs[rows[b]] + scale * z, z uniform on [-1, 1], from (keys[rows[b]], samples[b], streams[b])."""
    size = inputs.shape[1]
    for b in range(out.shape[0]):
        x, y = inputs[rows[b]], out[b]
        key = keys[rows[b]]
        k0, k1 = uint32(key & uint64(0xFFFFFFFF)), uint32(key >> uint64(32))
        sample, stream = uint32(samples[b]), uint32(streams[b])
        for block in range(size // 4):
            z0, z1, z2, z3 = _four_uniform(uint32(block), sample, stream, k0, k1)
            e = 4 * block
            y[e] = x[e] + scale * z0
            y[e + 1] = x[e + 1] + scale * z1
            y[e + 2] = x[e + 2] + scale * z2
            y[e + 3] = x[e + 3] + scale * z3
        if size % 4:
            z = _four_uniform(uint32(size // 4), sample, stream, k0, k1)
            for j in range(size % 4):
                e = size // 4 * 4 + j
                y[e] = x[e] + scale * z[j]


@_inline
def _middle(x, word, width):
    """The middle of the cell that x lies in; cells begin at `begin`, 23 bits of the word, in units of 2^-23 cells."""
    begin = int32(word >> uint32(9))
    cell = (int32(np.floor(x / width * _TWO_TO_23)) - begin) >> int32(23)
    return (float32(cell) + (float32(begin) * _TWO_TO_MINUS_23 + _HALF)) * width


@compiled
def perturb_splitting(inputs, rows, keys, samples, streams, scale, out):
    """out[b] = the middles of the cells, 2 scale wide and placed by (keys[rows[b]], samples[b], streams[b]), of inputs[rows[b]]."""
    size, width = inputs.shape[1], scale + scale
    for b in range(out.shape[0]):
        x, y = inputs[rows[b]], out[b]
        key = keys[rows[b]]
        k0, k1 = uint32(key & uint64(0xFFFFFFFF)), uint32(key >> uint64(32))
        sample, stream = uint32(samples[b]), uint32(streams[b])
        for block in range(size // 4):
            w0, w1, w2, w3 = _philox(uint32(block), sample, uint32(0), stream, k0, k1)
            e = 4 * block
            y[e] = _middle(x[e], w0, width)
            y[e + 1] = _middle(x[e + 1], w1, width)
            y[e + 2] = _middle(x[e + 2], w2, width)
            y[e + 3] = _middle(x[e + 3], w3, width)
        if size % 4:
            w = _philox(uint32(size // 4), sample, uint32(0), stream, k0, k1)
            for j in range(size % 4):
                e = size // 4 * 4 + j
                y[e] = _middle(x[e], w[j], width)


@_inline
def _on_grid(x, number, steps):
    """The grid point `number` steps from x, itself a grid point: whole numbers, and one rounding at the end."""
    nearest = (x * steps + _ROUNDER) - _ROUNDER
    return (nearest + float32(number)) / steps


@_inline
def _drawn(high, low, entries, bits, largest):
    """A whole number by the alias table, of 64 bits: the first choose the column, the others are compared with its threshold."""
    column = high >> uint32(32 - bits)
    rest = (uint64(high & uint32((1 << (32 - bits)) - 1)) << uint64(32)) | uint64(low)
    entry = entries[column]
    own = rest < entry >> uint64(bits)
    return (int32(column) if own else int32(entry & uint64((1 << bits) - 1))) - largest


@compiled
def _perturb_on_grid(inputs, rows, keys, samples, streams, steps, entries, bits, largest, out):
    size = inputs.shape[1]
    blocks = (size + 1) // 2
    words = np.empty(4 * blocks, np.uint32)
    numbers = np.empty(size, np.int32)
    for b in range(out.shape[0]):
        x, y = inputs[rows[b]], out[b]
        key = keys[rows[b]]
        k0, k1 = uint32(key & uint64(0xFFFFFFFF)), uint32(key >> uint64(32))
        sample, stream = uint32(samples[b]), uint32(streams[b])
        # Three loops: the first and the last are computed for several elements at once, the table is read one by one.
        for block in range(blocks):
            w0, w1, w2, w3 = _philox(uint32(block), sample, uint32(0), stream, k0, k1)
            words[4 * block], words[4 * block + 1], words[4 * block + 2], words[4 * block + 3] = w0, w1, w2, w3
        for e in range(size):
            numbers[e] = _drawn(words[2 * e], words[2 * e + 1], entries, bits, largest)
        for e in range(size):
            y[e] = _on_grid(x[e], numbers[e], steps)


def perturb_on_grid(inputs, rows, keys, samples, streams, sigma, steps, out):
    """out[b] = float32((steps * inputs[rows[b]] + n) / steps), n the rounded normal numbers of (keys[rows[b]], samples[b], streams[b])."""
    table = alias_table(float(sigma), steps)
    _perturb_on_grid(
        inputs, rows, keys, samples, streams, np.float32(steps), table.entries, table.bits, table.largest, out
    )  # fmt: skip
