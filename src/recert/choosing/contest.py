"""The contest: a first lap for all, then the finals in order of cost, until one candidate reaches the target."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.cache import Cache
from recert.caching import CachingSource
from recert.certificates import Certificates
from recert.choosing.final import certified
from recert.choosing.prospects import Prospects, Yardstick
from recert.choosing.race import HOPELESS, ROUNDING, Runner
from recert.choosing.result import Entry, Status
from recert.noise import Stream
from recert.planning import Objective
from recert.recertification.looks import Question
from recert.recertification.task import Task
from recert.sampling import ProgressCallback


def most_finalists(alpha: float) -> int:
    """How often alpha can be halved before half of it, which two-sided bounds spend, is smaller than they are proved for."""
    return math.floor(math.log2(alpha / (2 * bounds.SMALLEST_ALPHA)))


@dataclass(frozen=True)
class Contest:
    """Who wins, at which error. The cache is viewed for distinct inputs, which stand at `positions` in the sources."""

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
        runners = self._first_lap(sources)
        # The order is fixed by costs and, between equal costs, by the first lap: it knows nothing of estimation noise.
        runners.sort(key=lambda runner: (costs[runner.name], -runner.chance))
        entries: list[Entry] = []
        winner: tuple[str, Certificates] | None = None
        finalists = 0
        for runner in runners:
            status, result = Status.NOT_NEEDED, None
            if winner is None:
                runner.run()
                status = Status.DROPPED
                if runner.chance > HOPELESS and finalists == most_finalists(self.alpha / self.claims):
                    status = Status.NO_ERROR_LEFT
                elif runner.chance > HOPELESS:
                    finalists += 1
                    result = self._certified(runner, finalists)
                    status = Status.NOT_CERTIFIED
                    if self._score(result) >= self.base - self.tolerance - ROUNDING:
                        status, winner = Status.WINNER, (runner.name, result)
            entries.append(self._entry(runner, costs[runner.name], status, result))
        return tuple(entries), winner

    def _first_lap(self, sources: Mapping[str, CachingSource]) -> list[Runner]:
        manifest = self.cache.manifest
        two_sided = manifest.certificate == "two-sided"
        yardstick = Yardstick(self.objective, manifest.samples, self._alpha(1), manifest.gaussian.scale, two_sided)
        votes, repeats = self.cache.counts(Stream.SELECTION), np.bincount(self.rows)
        prospects = Prospects(votes, self.labels[self._first], yardstick, repeats)
        runners = [
            Runner(name, source, self.cache, self.positions, prospects, self.tolerance, self.progress)
            for name, source in sources.items()
        ]
        for runner in runners:
            runner.lap()
        return runners

    def _alpha(self, finalist: int) -> float:
        """Half of what is left goes to each finalist: the sum over all that there may be is at most alpha."""
        return self.alpha / self.claims / 2.0**finalist

    def _certified(self, runner: Runner, finalist: int) -> Certificates:
        task = Task(
            source=runner.source, positions=self.positions, cache=self.cache, samples=self.samples, alpha=self._alpha(finalist),
            certificate=self.cache.manifest.certificate, objective=self.objective, family=self.claims, progress=self.progress,
        )  # fmt: skip
        # What is reported was chosen among finalists: its error is that of all of them together.
        error = self.alpha / self.claims
        asked = {
            "method": "select", "metric": repr(self.objective), "tolerance": self.tolerance, "alpha": task.alpha, "of": error,
            "certificate": task.certificate, "labels": hashlib.sha256(self.labels.tobytes()).hexdigest(),
        }  # fmt: skip
        question = Question(self.cache, runner.source.identity, self.samples, asked, family=self.claims)
        found = question.answered(certified(task, runner, self._alpha(1)), error=error).take(self.rows)
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

    def _entry(self, runner: Runner, cost: float, status: Status, result: Certificates | None) -> Entry:
        low, high = np.quantile(runner.shortfall, [0.05, 0.95])
        return Entry(
            name=runner.name, cost=cost, status=status, predicted=self.base - float(runner.shortfall.mean()),
            predicted_low=self.base - float(high), predicted_high=self.base - float(low), chance=runner.chance,
            certified=None if result is None else self._score(result), alpha=None if result is None else result.settings.alpha,
            race_passes=runner.passes, final_passes=0 if result is None else int(result.forward_passes.sum()),
        )  # fmt: skip
