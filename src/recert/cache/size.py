"""How many bytes a store will take, found by writing a part of it in memory."""

from collections.abc import Sequence

import numpy as np

from recert.cache import parts
from recert.cache.parts import Row
from recert.cache.writer import PartWriter
from recert.noise import Stream
from recert.votes import Votes

BYTES_PER_INPUT = 70
"""A digest in the manifest."""


def expected_bytes(tried: Sequence[Votes], classes: int, inputs: int, votes: dict[Stream, int]) -> int:
    """Bytes of a store of so many inputs with so many votes each, if their votes are like those that were tried on some inputs.

    How well votes compress depends on the model, and what a row takes beside them on the classes: so neither is assumed. Where
    votes are spread over hundreds of classes, a few tens of votes do not show all of them, and this is too low.
    """
    # Votes are drawn again from those of an input: a seed of their own, since they decide nothing.
    rng = np.random.default_rng(0)
    sizes: list[int] = []

    def close(rows: list[Row]) -> None:
        sizes.append(len(parts.encode(rows, classes, context="0" * 64)[1]))

    writer, written = PartWriter(classes, close), 0
    while written < inputs and not sizes:
        digest, like = rng.bytes(32).hex(), _for_other_classes(tried[written % len(tried)], classes, rng)
        for stream, count in votes.items():
            writer.add(digest, stream, 0, rng.choice(like, count), float(rng.random()))
        written += 1
    writer.flush()
    return round(sum(sizes) * inputs / written) + BYTES_PER_INPUT * inputs


def _for_other_classes(votes: Votes, classes: int, rng: np.random.Generator) -> Votes:
    """Votes that are as sure as these: many inputs are of more classes than the few that were tried."""
    other = (votes.astype(np.int64) + rng.integers(classes)) % classes
    return np.where(votes < classes, other, votes).astype(votes.dtype)
