"""The normal law rounded to whole numbers, drawn exactly from 64 random bits: integer weights, and Walker's alias table of them.

Everything is computed with integers, so that the tables are the same on every machine. A weight is within 1 of 2^64 times its exact
probability, and weights of opposite numbers are equal.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

WHOLE = 2**64
LARGEST_SPREAD = 4096
"""Standard deviations in steps; tables of larger ones would take seconds to make."""
_BITS = 192
# 2^192 / sqrt(2 pi), rounded down
_DENSITY_AT_ZERO = 0x662114CF50D942343F2CF1402EAE38BFD3829F30512706D8


@dataclass(frozen=True, eq=False)
class AliasTable:
    """Column i, one of 2^bits, holds i - largest, and from its threshold on its alias - largest.

    Of 64 bits the first `bits` choose the column and the others are compared with the threshold. An entry is threshold * 2^bits + alias,
    64 bits: one place in memory is read for a number, wherever the noise is made. A column that holds nothing but its own has threshold 0
    and itself as alias.
    """

    bits: int
    largest: int
    """The largest number that may be drawn, and minus the smallest."""
    entries: NDArray[np.uint64]


@lru_cache(maxsize=8)
def alias_table(sigma: float, steps: int) -> AliasTable:
    """For the normal law of standard deviation `sigma` in units of which one has `steps` steps."""
    weights = rounded_normal(sigma, steps)
    largest = (len(weights) - 1) // 2
    bits = max(2, (len(weights) - 1).bit_length())
    columns = 1 << bits
    full = WHOLE // columns
    left = weights + [0] * (columns - len(weights))
    thresholds, aliases = left.copy(), list(range(columns))
    small = [i for i in range(columns) if left[i] < full]
    large = [i for i in range(columns) if left[i] > full]
    # Each small column is filled up by one large weight; what is left of that weight may be small then. All are integers: exact.
    while small:
        column, giver = small.pop(), large[-1]
        thresholds[column], aliases[column] = left[column], giver
        left[giver] -= full - left[column]
        if left[giver] <= full:
            large.pop()
            thresholds[giver] = left[giver]
            if left[giver] < full:
                small.append(giver)
    entries = [(threshold % full) << bits | alias for threshold, alias in zip(thresholds, aliases, strict=True)]
    return AliasTable(bits, largest, np.array(entries, dtype=np.uint64))


def total_variation(sigma: float, steps: int, elements: int) -> Fraction:
    """At most so far is the law of the noise of so many elements, as it is drawn, from the exact one."""
    # Each weight is within 1 (and 2^-35) of the exact one, and the tails that have none sum to at most 1: half of all that, of 2^64.
    return Fraction(elements * (len(rounded_normal(sigma, steps)) + 2), 2 * WHOLE)


@lru_cache(maxsize=8)
def rounded_normal(sigma: float, steps: int) -> list[int]:
    """2^64 P(round(steps sigma Z) = j) for j = -J, ..., J as integers that sum to 2^64; outside of them it rounds to 0."""
    spread = Fraction(sigma) * steps
    # tails[j] is 2^64 P(steps sigma Z > j + 1/2): differences of rounded tails sum to 2^64 by themselves
    tails = [_tail(1 / (2 * spread))]
    while tails[-1] > 0:
        tails.append(_tail((2 * len(tails) + 1) / (2 * spread)))
    above = [before - after for before, after in pairwise(tails)]
    return [*reversed(above), WHOLE - 2 * tails[0], *above]


def _tail(z: Fraction) -> int:
    """2^64 P(Z > z) for z > 0, rounded to the nearest integer."""
    if z > 10:
        return 0  # it is below 2^-75
    # Phi(z) = 1/2 + density(0) * the sum of (-1)^n z^(2n+1) / (2^n n! (2n+1)). Each of some hundred terms, which are below 2^75, is
    # rounded down a few times at 2^-192, and its relative error grows with n: the sum is within 2^-100.
    fixed = (z.numerator << _BITS) // z.denominator
    square = (fixed * fixed) >> (_BITS + 1)  # z^2 / 2
    power, total, n = fixed, fixed, 0
    while power:
        n += 1
        power = (power * square >> _BITS) // n
        total += power // (2 * n + 1) * (-1 if n % 2 else 1)
    beyond = (1 << (_BITS - 1)) - ((total * _DENSITY_AT_ZERO) >> _BITS)
    return (beyond + (1 << (_BITS - 65))) >> (_BITS - 64)
