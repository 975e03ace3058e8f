"""Inputs that were decided one by one, until their radius was shown: whether the stored votes show it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recert.bounds.anytime import reached
from recert.bundles.findings import Findings, left_open, right, wrong
from recert.cache import Cache
from recert.caching import CachingSource
from recert.certificates import Certificates
from recert.errors import MissingVotes, RecertError
from recert.noise import Stream
from recert.recertification.decision import Decision
from recert.sampling import Work, collect
from recert.sequential import FreshVotes
from recert.sequential.replays import FLIPS_BEFORE_GAINS
from recert.sequential.tally import Tally
from recert.votes import SelectionCounts

GROWTH = 0.05
"""Of the votes of an input so many more are added before one looks again; and once more when all of its votes are counted."""
TOLERANCE = 1e-9
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]


def decide_again(claimed: Certificates, cache: Cache, votes: str | None) -> Findings:
    """Every radius that was shown is shown again, by the votes that it was shown by. `votes`: those of a changed model."""
    own = claimed.settings.method == "sequential"
    store = cache.store if own else votes
    if store is None:
        return Findings()
    try:
        with CachingSource.from_store(store) as source:
            if not set(claimed.input) <= set(source.digests):
                return left_open("claims: votes of some inputs were not kept, so that none is decided again")
            rows = _fresh(claimed, cache, source) if own else _replays(claimed, cache, source)
            return _findings(claimed, rows)
    except MissingVotes:
        return left_open(
            "claims: some of the votes that choose the classes were not kept, so that nothing is decided again"
        )
    except (RecertError, ValueError, KeyError, TypeError) as error:
        return wrong(f"claims: the stored votes do not give them: {error}")


@dataclass(frozen=True)
class _Again:
    """What the stored votes say of each row of the claims."""

    shown: Rows
    missing: Rows
    """Some of its votes were not kept."""
    exact: Rows
    """Whether votes were counted as they were then. Else its radius may have been shown between two looks that are taken here."""


def _findings(claimed: Certificates, rows: _Again) -> Findings:
    bad = claimed.certified & ~rows.shown & ~rows.missing & rows.exact
    if bad.any():
        return wrong(f"claims: the radii of {int(bad.sum())} inputs are not shown by the stored votes")
    open_ = claimed.certified & ~rows.shown
    if open_.any():
        return left_open(
            f"claims: radii of {int(open_.sum())} of {int(claimed.certified.sum())} inputs, whose votes were not all kept or "
            "not counted in the same steps"
        )
    return right(f"claims: all of {int(claimed.certified.sum())} radii are shown again by the stored votes")


def _fresh(claimed: Certificates, cache: Cache, source: CachingSource) -> _Again:
    """By votes of the model itself."""
    settings, radii = claimed.settings, np.array(claimed.settings.at)
    place = {digest: i for i, digest in enumerate(source.digests)}
    positions = np.array([place[digest] for digest in claimed.input], dtype=np.int64)
    works = [Work(int(i), Stream.SELECTION, range(settings.selection_samples)) for i in positions]
    counts = np.stack([drawn.counts for drawn in collect(source, works, "choosing", None)])
    tally = FreshVotes(
        SelectionCounts(counts), cache.manifest.noise, radii, runner_up=settings.certificate == "two-sided"
    )
    counting = _Counting(tally, source, positions, radii, settings.alpha)
    same = np.where(claimed.certified, tally.classes == claimed.prediction, True)
    shown, missing = counting.shown(claimed.radius * same, claimed.samples)
    # Votes come one after the other: only when a smaller radius than the last was shown on the way is not known.
    return _Again(shown & same, missing, (claimed.radius >= radii[-1]) | ~same)


def _replays(claimed: Certificates, cache: Cache, source: CachingSource) -> _Again:
    """By votes of the changed model on noises of the cache."""
    settings = claimed.settings
    decision = Decision(np.array(settings.at), settings.samples, settings.alpha, settings.certificate)
    task = decision.task(source, cache)
    tally = decision.tally(task)
    row = {digest: i for i, digest in enumerate(task.cache.digests)}
    places = np.array([row[digest] for digest in claimed.input])
    same = np.where(claimed.certified, tally.classes[places] == claimed.prediction, True)
    radius, most = np.zeros(len(row)), np.zeros(len(row), dtype=np.int64)
    radius[places], most[places] = claimed.radius * same, claimed.replayed
    counting = _Counting(tally, source, task.positions, decision.radii, settings.alpha)
    shown, missing = (each[places] for each in counting.shown(radius, most))
    # From some flips on, which noises are replayed depends on how many are drawn at once.
    exact = (claimed.radius >= settings.at[-1]) & (claimed.lost < FLIPS_BEFORE_GAINS)
    return _Again(shown & same, missing, exact | ~same)


@dataclass(frozen=True)
class _Counting:
    """Counts the stored votes of rows, and looks now and then at what they show. Row i is the input at `positions[i]`."""

    tally: Tally
    source: CachingSource
    positions: Ints
    radii: Floats
    alpha: float

    def shown(self, radius: Floats, most: Ints) -> tuple[Rows, Rows]:
        """Of which rows this radius is shown by at most so many votes, and of which some of these are missing."""
        wanted = np.where(radius > 0, np.searchsorted(self.radii, radius * (1 - TOLERANCE)) + 1, 0)
        shown, passes, missing = np.zeros_like(wanted), np.zeros_like(wanted), np.zeros(len(wanted), dtype=bool)
        rows = np.flatnonzero(wanted)
        self.tally.begin(rows)
        while len(rows):
            enough = reached(self.tally.evidence(rows).log, self.alpha)
            for i in range(len(self.radii)):  # a radius counts only if all smaller ones were shown
                shown[rows[enough[:, i] & (shown[rows] == i)]] += 1
            rows = rows[(shown[rows] < wanted[rows]) & (passes[rows] < most[rows])]
            there = [row for row in rows.tolist() if self._count(row, passes, int(most[row]))]
            missing[np.setdiff1d(rows, there)] = True
            rows = np.array(there, dtype=np.int64)
        return shown >= wanted, missing

    def _count(self, row: int, passes: Ints, most: int) -> bool:
        """Count the next votes of a row; False if they are not there."""
        left = most - int(passes[row])
        samples = self.tally.next_noises(row, min(left, max(1, int(GROWTH * passes[row]))))[:left]
        if not len(samples):
            return False
        try:
            (drawn,) = collect(
                self.source, [Work(int(self.positions[row]), self.tally.stream, samples)], "deciding", None
            )
        except MissingVotes:
            return False
        self.tally.add(row, samples, drawn)
        passes[row] += len(drawn.votes)
        return True
