"""A run to disturb, and the votes that it must have in the end."""

from pathlib import Path
from typing import Any

import recert
from recert import Cache, Gaussian
from recert.noise import Stream
from tests.engines.networks import digits_inputs, digits_network

SAMPLES, SELECTION = 2_000, 100
OPTIONS: dict[str, Any] = {"noise": Gaussian(0.6), "seed": 3, "batch_size": 48}
COUNTS: dict[str, Any] = {"samples": SAMPLES, "selection_samples": SELECTION}


def votes(cache: Cache) -> dict[str, bytes]:
    """All votes by input: those that choose, then those that bound."""
    streams = (Stream.SELECTION, Stream.ESTIMATION)
    return {digest: b"".join(cache.votes(digest, stream).tobytes() for stream in streams) for digest in cache.digests}


def stored_votes(store: Path) -> dict[str, bytes]:
    cache = Cache.open(store)
    assert cache.verify() == []
    return votes(cache)


def undisturbed_votes(inputs: Any = None) -> dict[str, bytes]:
    """What one process draws when nothing happens."""
    given = digits_inputs() if inputs is None else inputs
    return votes(recert.certify(digits_network(), given, **OPTIONS, **COUNTS))
