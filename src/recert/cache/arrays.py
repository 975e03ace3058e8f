"""Votes in memory, by input and stream, for sources whose scattered samples are asked for again and again."""

import numpy as np
from numpy.typing import NDArray

from recert.cache.samples import Samples, simplified
from recert.cache.votes import Slot
from recert.votes import Votes, vote_dtype


class VoteArrays:
    """For every input and stream an array of votes from sample 0 on, and which of them are known."""

    def __init__(self, classes: int) -> None:
        self._dtype = vote_dtype(classes)
        self._arrays: dict[Slot, tuple[Votes, NDArray[np.bool_]]] = {}

    def put(self, slot: Slot, samples: Samples, votes: Votes) -> None:
        known_votes, known = self._reserved(slot, samples)
        here = _index(samples)
        known_votes[here], known[here] = votes, True

    def votes(self, slot: Slot, samples: Samples) -> Votes:
        """Votes that are known, as a copy: numpy copies what is not a slice."""
        votes = self._reserved(slot, samples)[0][_index(samples)]
        return votes.copy() if isinstance(samples, range) else votes

    def unknown(self, slot: Slot, samples: Samples) -> Samples:
        """Those of the samples whose votes are not known; a range stays a range if nothing in it is known."""
        known = self._reserved(slot, samples)[1][_index(samples)]
        missing = np.flatnonzero(~known)
        if len(missing) == len(known):
            return samples
        return simplified(samples.start + missing if isinstance(samples, range) else samples[missing])

    def _reserved(self, slot: Slot, samples: Samples) -> tuple[Votes, NDArray[np.bool_]]:
        """The arrays, long enough for the samples."""
        votes, known = self._arrays.get(slot, (np.zeros(0, self._dtype), np.zeros(0, dtype=bool)))
        size = int(samples[-1]) + 1 if len(samples) else 0
        # Exactly as long as needed: doubling would take memory for samples that are never drawn.
        if size > len(votes):
            longer, longer_known = np.zeros(size, self._dtype), np.zeros(size, dtype=bool)
            longer[: len(votes)], longer_known[: len(votes)] = votes, known
            votes, known = self._arrays[slot] = longer, longer_known
        return votes, known


def _index(samples: Samples) -> slice | NDArray[np.int64]:
    """Ranges as slices, for which numpy makes no index array."""
    return slice(samples.start, samples.stop) if isinstance(samples, range) else samples
