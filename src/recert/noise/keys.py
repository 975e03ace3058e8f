"""Where in the noise stream a sample lives: its key from (seed, input), its counter from (sample, stream)."""

import hashlib
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

LARGEST_SEED = 2**64 - 1
LARGEST_SAMPLE = 2**32 - 1  # one 32-bit counter word numbers the samples


class Stream(IntEnum):
    """Independent noise streams of one input. Votes that choose and votes that claim never share noise."""

    SELECTION = 0
    ESTIMATION = 1
    FRESH = 2
    CALIBRATION = 3


def input_digest(values: NDArray[np.float32]) -> str:
    """SHA-256 (hex) of one input's shape and bytes: what the cache and the noise know it by."""
    if values.dtype != np.float32:
        raise ValueError(f"expected a float32 input, got {values.dtype}")
    shape = ",".join(str(length) for length in values.shape)
    little_endian = np.ascontiguousarray(values).astype("<f4", copy=False)
    return hashlib.sha256(f"float32[{shape}]".encode() + little_endian.tobytes()).hexdigest()


def checked_seed(seed: int) -> int:
    """A seed as a whole number of Python, whatever kind of whole number it was given as."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"expected a whole number as seed between 0 and 2**64 - 1, got {seed!r}")
    return int(seed)


def noise_key(seed: int, digest: str) -> int:
    """64-bit Philox key: the first 8 bytes of SHA-256(seed as 8 bytes, input digest), little-endian."""
    mixed = hashlib.sha256(checked_seed(seed).to_bytes(8, "little") + bytes.fromhex(digest)).digest()
    return int.from_bytes(mixed[:8], "little")
