"""The search: a first round of the race for all candidates, then finals in order of cost, until one reaches the target."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.cache import Cache
from recert.caching import CachingSource
from recert.certificates import Certificates
from recert.certification import CERTIFICATES
from recert.choosing.final import certified
from recert.choosing.prospects import Prospects, Scoring
from recert.choosing.race import HOPELESS, ROUNDING, RacingCandidate
from recert.choosing.result import Entry, Status
from recert.noise import Stream
from recert.planning import Objective
from recert.progress import about, part_of
from recert.recertification.auto import Auto
from recert.recertification.looks import PendingLook
from recert.recertification.task import Task
from recert.sampling import ProgressCallback


def most_finalists(alpha: float) -> int:
    """How often alpha can be halved before half of it, which two-sided bounds spend, is smaller than they are proved for."""
    return math.floor(math.log2(alpha / (2 * bounds.SMALLEST_ALPHA)))


def distinct(digests: Sequence[str]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Equal inputs are certified once: each input once, where it is for the first time, and which of them every input is."""
    # Backwards, so that of equal inputs the first is written last and remains.
    first = {digest: i for i, digest in reversed(list(enumerate(digests)))}
    row = {digest: i for i, digest in enumerate(dict.fromkeys(digests))}
    return list(row), np.array([first[digest] for digest in row]), np.array([row[digest] for digest in digests])


@dataclass(frozen=True)
class Search:
    """Finds the winner, at a stated error. The cache is viewed for distinct inputs, which are at `positions` in the sources."""

    cache: Cache
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    """Which row of the cache each input is: the same for repeated inputs."""
    labels: NDArray[np.int64]
    objective: Objective
    tolerance: float
    alpha: float
    claims: int
    """How many certificates share a finalist's alpha: 1 if each has it on its own."""
    samples: int
    progress: ProgressCallback | None

    def run(
        self, sources: Mapping[str, CachingSource], costs: Mapping[str, float]
    ) -> tuple[tuple[Entry, ...], tuple[str, Certificates] | None]:
        """Entries in order of cost, and the winner with its certificates."""
        candidates = self._first_round(sources)
        # The order is fixed by costs and, between equal costs, by the first round: no estimation vote has been drawn yet.
        candidates.sort(key=lambda candidate: (costs[candidate.name], -candidate.chance))
        entries: list[Entry] = []
        winner: tuple[str, Certificates] | None = None
        finalists = 0
        for candidate in candidates:
            status, result = Status.NOT_NEEDED, None
            if winner is None:
                candidate.race()
                status = Status.DROPPED
                if candidate.chance > HOPELESS and finalists == most_finalists(self.alpha / self.claims):
                    status = Status.NO_ERROR_LEFT
                elif candidate.chance > HOPELESS:
                    finalists += 1
                    result = self._certified(candidate, finalists)
                    status = Status.NOT_CERTIFIED
                    if self._score(result) >= self.base - self.tolerance - ROUNDING:
                        status, winner = Status.WINNER, (candidate.name, result)
            entries.append(self._entry(candidate, costs[candidate.name], status, result))
        return tuple(entries), winner

    def certified_again(self, source: CachingSource, finalist: int) -> Certificates:
        """The final of one candidate once more, in the place that it had: its own race and votes are all that it depends on."""
        (candidate,) = self._first_round({"": source})
        candidate.race()
        return self._certified(candidate, finalist)

    def _first_round(self, sources: Mapping[str, CachingSource]) -> list[RacingCandidate]:
        manifest = self.cache.manifest
        sides = CERTIFICATES[manifest.certificate]
        # The race scores every candidate as if it were the first finalist, whatever its turn: so a candidate's chance does not
        # depend on how many others failed before it.
        scoring = Scoring(self.objective, manifest.samples, self._alpha(1), manifest.noise, sides)
        votes, repeats = self.cache.counts(Stream.SELECTION), np.bincount(self.rows)
        prospects = Prospects(votes, self.labels[self._first], scoring, repeats)
        candidates = []
        for number, (name, source) in enumerate(sources.items(), 1):
            progress = about(part_of(number, len(sources), name), self.progress)
            candidates.append(
                RacingCandidate(name, source, self.cache, self.positions, prospects, self.tolerance, progress)
            )
        for candidate in candidates:
            candidate.race_round()
        return candidates

    def _alpha(self, finalist: int) -> float:
        """Half of what is left goes to each finalist: the sum over all that there may be is at most alpha."""
        return self.alpha / self.claims / 2.0**finalist

    def _certified(self, candidate: RacingCandidate, finalist: int) -> Certificates:
        task = Task(
            source=candidate.source, positions=self.positions, cache=self.cache, method=Auto(), samples=self.samples,
            alpha=self._alpha(finalist), certificate=self.cache.manifest.certificate, objective=self.objective, family=self.claims,
            progress=candidate.progress,
        )  # fmt: skip
        # What is reported was chosen among finalists: its error is that of all of them together.
        error = self.alpha / self.claims
        # Everything that the certificates depend on: the record of earlier looks knows a repeated question by it.
        settings = {
            "method": "select", "metric": repr(self.objective), "tolerance": self.tolerance, "alpha": task.alpha, "of": error,
            "certificate": task.certificate, "labels": hashlib.sha256(self.labels.tobytes()).hexdigest(),
        }  # fmt: skip
        look = PendingLook(self.cache, candidate.source.identity, self.samples, settings, family=self.claims)
        found = look.recorded(certified(task, candidate, self._alpha(1)), error=error).take(self.rows)
        return replace(found, settings=replace(found.settings, error=error))

    @cached_property
    def base(self) -> float:
        """The metric of the original's certificates."""
        return self._score(self.cache.certificates.take(self.rows))

    @property
    def _first(self) -> NDArray[np.int64]:
        return np.unique(self.rows, return_index=True)[1]

    def _score(self, result: Certificates) -> float:
        if self.objective.radius is None:
            return result.average_certified_radius(self.labels)
        return float(result.certified_accuracy(self.labels, self.objective.radius))

    def _entry(self, candidate: RacingCandidate, cost: float, status: Status, result: Certificates | None) -> Entry:
        low, high = np.quantile(candidate.shortfall, [0.05, 0.95])
        # A large shortfall is a low metric, so that the upper quantile of one is the lower end of the other.
        return Entry(
            name=candidate.name, cost=cost, status=status, predicted=self.base - float(candidate.shortfall.mean()),
            predicted_low=self.base - float(high), predicted_high=self.base - float(low), chance=candidate.chance,
            certified=None if result is None else self._score(result), alpha=None if result is None else result.settings.alpha,
            race_passes=candidate.passes, final_passes=0 if result is None else int(result.forward_passes.sum()),
        )  # fmt: skip
