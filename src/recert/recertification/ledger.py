"""The columns of a re-certification while its methods fill them in, row by row."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Certificates, Outcome, claim_from_bounds
from recert.recertification.task import Task
from recert.sampling import Drawn

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ledger:
    """One entry per input. What no method touches stays skipped: not certified before, nothing spent."""

    classes: Ints
    top_lower: Floats
    runner_up_upper: Floats
    top_votes: Ints
    samples: Ints
    replayed: Ints
    kept: Ints
    lost: Ints
    gained: Ints
    forward_passes: Ints
    seconds: Floats
    nobody: Ints
    method: NDArray[np.object_]
    otherwise: NDArray[np.object_]

    @classmethod
    def empty(cls, classes: Ints, method: str) -> Self:
        rows = len(classes)
        counts = {name: np.zeros(rows, dtype=np.int64) for name in (
            "top_votes", "samples", "replayed", "kept", "lost", "gained", "forward_passes", "nobody")}  # fmt: skip
        return cls(
            classes=classes, top_lower=np.zeros(rows), runner_up_upper=np.ones(rows), seconds=np.zeros(rows), **counts,
            method=np.full(rows, method, dtype=object),
            otherwise=np.full(rows, Outcome.NOT_CERTIFIED_BEFORE.value, dtype=object),
        )  # fmt: skip

    def spend(self, row: int, drawn: Drawn) -> None:
        """Charge a row for votes that were drawn for it."""
        self.forward_passes[row] += len(drawn.votes)
        self.seconds[row] += drawn.seconds
        self.nobody[row] += len(drawn.votes) - drawn.counts.sum()

    def claim(self, rows: Ints, top_lower: Floats, runner_up_upper: Floats | None, otherwise: Outcome) -> None:
        """Enter bounds that hold jointly. Without a bound on the runner-up, it is what the class leaves."""
        self.top_lower[rows] = top_lower
        rest = 1 - top_lower
        self.runner_up_upper[rows] = rest if runner_up_upper is None else np.minimum(runner_up_upper, rest)
        self.otherwise[rows] = otherwise.value

    def certificates(self, task: Task, method: str, *, error: float | None = None) -> Certificates:
        counts = (
            "top_votes",
            "samples",
            "replayed",
            "kept",
            "lost",
            "gained",
            "forward_passes",
            "seconds",
            "nobody",
            "method",
        )
        return Certificates.build(
            task.cache.digests,
            claim_from_bounds(self.classes, self.top_lower, self.runner_up_upper, task.sigma, otherwise=self.otherwise),
            task.settings(method, error=error),
            **{name: getattr(self, name) for name in counts},
        )
