"""Votes in memory, by input and stream, for sources whose scattered samples are asked for again and again."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from recert.cache.samples import Samples, simplified
from recert.cache.votes import Slot
from recert.votes import Votes, vote_dtype

PAGE = 2**8
"""Samples of a page: few, since a replay has a hundred votes of an input. Memory is taken for pages with a known vote only: a store from somebody else may hold any sample index."""

Index = slice | NDArray[np.int64]


class VoteArrays:
    """For every input and stream pages of votes, and which of them are known."""

    def __init__(self, classes: int) -> None:
        self._dtype = vote_dtype(classes)
        self._pages: dict[tuple[Slot, int], tuple[Votes, NDArray[np.bool_]]] = {}

    def put(self, slot: Slot, samples: Samples, votes: Votes) -> None:
        for page, within, place in _pieces(samples):
            if (slot, page) not in self._pages:
                self._pages[slot, page] = np.zeros(PAGE, self._dtype), np.zeros(PAGE, dtype=bool)
            known_votes, known = self._pages[slot, page]
            known_votes[within], known[within] = votes[place], True

    def votes(self, slot: Slot, samples: Samples) -> Votes:
        """Votes of samples that are all known, as a copy."""
        found = np.empty(len(samples), self._dtype)
        for page, within, place in _pieces(samples):
            found[place] = self._pages[slot, page][0][within]
        return found

    def unknown(self, slot: Slot, samples: Samples) -> Samples:
        """Those of the samples whose votes are not known; a range stays a range if nothing in it is known."""
        known = np.zeros(len(samples), dtype=bool)
        for page, within, place in _pieces(samples):
            if (slot, page) in self._pages:
                known[place] = self._pages[slot, page][1][within]
        if not known.any():
            return samples
        missing = np.flatnonzero(~known)
        return simplified(samples.start + missing if isinstance(samples, range) else samples[missing])


def _pieces(samples: Samples) -> Iterator[tuple[int, Index, slice]]:
    """Samples page by page: which page, where in the page, and where among the samples. Samples increase."""
    if not len(samples):
        return
    if isinstance(samples, range):  # as slices, for which numpy makes no index arrays
        for page in range(samples.start // PAGE, (samples.stop - 1) // PAGE + 1):
            first, end = max(samples.start, page * PAGE), min(samples.stop, (page + 1) * PAGE)
            within = slice(first - page * PAGE, end - page * PAGE)
            yield page, within, slice(first - samples.start, end - samples.start)
        return
    pages = samples // PAGE
    cuts = [0, *(np.flatnonzero(np.diff(pages)) + 1).tolist(), len(samples)]
    for first, end in pairwise(cuts):
        yield int(pages[first]), samples[first:end] % PAGE, slice(first, end)
