"""Sets of sample indices: a range where they follow each other, else an increasing array. Ranges stay ranges."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Samples = range | NDArray[np.int64]
"""Ranges have the step 1."""


def as_array(samples: Samples) -> NDArray[np.int64]:
    """All indices. numpy itself would go through a range in Python, one by one."""
    if isinstance(samples, range):
        return np.arange(samples.start, samples.stop, dtype=np.int64)
    return np.asarray(samples, dtype=np.int64)


def simplified(samples: NDArray[np.int64]) -> Samples:
    """A range if the samples follow each other.

    >>> simplified(np.array([4, 5, 6])), simplified(np.array([4, 6])).tolist()
    (range(4, 7), [4, 6])
    """
    if not len(samples):
        return range(0)
    first, last = int(samples[0]), int(samples[-1])
    return range(first, last + 1) if last - first + 1 == len(samples) else samples


def common(one: Samples, other: Samples) -> Samples:
    """Samples in both.

    >>> common(range(0, 5), range(3, 9)), common(np.array([1, 4, 8]), range(3, 9)).tolist()
    (range(3, 5), [4, 8])
    """
    if isinstance(one, range):
        return _between(other, one.start, one.stop)
    if isinstance(other, range):
        return _between(one, other.start, other.stop)
    return np.intersect1d(one, other, assume_unique=True)


def gaps(known: Sequence[Samples], stop: int) -> list[range]:
    """Ranges below `stop` that are in none of the known samples, which have no sample in common.

    >>> gaps([range(2, 4), range(8, 12)], 10), gaps([np.array([0, 1, 7]), range(2, 5)], 10)
    ([range(0, 2), range(4, 8)], [range(5, 7), range(8, 10)])
    """
    # Complete stores hold ranges only, and this is called for every input: their ends are enough, whatever their length.
    ranges = [samples for samples in known if isinstance(samples, range)]
    if len(ranges) == len(known):
        edges = [
            edge for samples in sorted(ranges, key=lambda each: each.start) for edge in (samples.start, samples.stop)
        ]
        pairs = zip([0, *edges[1::2]], [*edges[::2], stop], strict=True)
    else:
        # Not a table of all samples below `stop`, which a manifest may set to anything: memory grows with the known samples.
        below = np.sort(np.concatenate([[-1], *(as_array(common(samples, range(stop))) for samples in known), [stop]]))
        before = np.flatnonzero(np.diff(below) > 1)
        pairs = zip((below[before] + 1).tolist(), below[before + 1].tolist(), strict=True)
    return [range(start, min(end, stop)) for start, end in pairs if start < min(end, stop)]


def places(samples: Samples, within: Samples) -> slice | NDArray[np.int64]:
    """Where samples are among others that include them.

    >>> places(range(5, 7), range(3, 9)), places(np.array([4, 8]), np.array([1, 4, 8])).tolist()
    (slice(2, 4, None), [1, 2])
    """
    if not isinstance(within, range):
        return np.searchsorted(within, as_array(samples))
    if isinstance(samples, range):
        return slice(samples.start - within.start, samples.stop - within.start)
    return samples - within.start


def _between(samples: Samples, start: int, stop: int) -> Samples:
    if isinstance(samples, range):
        first = max(start, samples.start)
        return range(first, max(first, min(stop, samples.stop)))
    return samples[np.searchsorted(samples, start) : np.searchsorted(samples, stop)]
