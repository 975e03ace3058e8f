"""The numbers of a page: what one result amounts to, with exact intervals for what the test inputs say about others."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from recert.bounds import clopper_pearson_lower, clopper_pearson_upper
from recert.certificates import Outcome
from recert.report.results import Result

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Share:
    """So many of the inputs, and the exact 95% interval (Clopper-Pearson) for the population they are a sample of."""

    radius: float
    count: int
    total: int
    lower: float
    upper: float

    @property
    def value(self) -> float:
        return self.count / self.total


@dataclass(frozen=True)
class Reason:
    """Why some inputs have no certificate, and how many."""

    name: str
    explanation: str
    count: int


@dataclass(frozen=True)
class Summary:
    """One result in numbers. Without labels, right and wrong are unknown: shares are then of certified inputs."""

    labelled: bool
    average_radius: float
    average_interval: tuple[float, float] | None
    shares: tuple[Share, ...]
    smoothed_accuracy: float | None
    abstained: int
    total: int
    passes: float
    seconds: float
    reasons: tuple[Reason, ...]
    replayed: int
    lost: int
    gained: int


def summarise(result: Result, radii: Sequence[float]) -> Summary:
    """The numbers of one result, with certified accuracy at the given radii."""
    c = result.certificates
    known = right_or_certified(result)
    abstentions = Counter(Outcome(o) for o in c.outcome if Outcome(o).abstained)
    return Summary(
        labelled=result.labels is not None,
        average_radius=average_radius(result),
        average_interval=mean_interval(np.where(known, c.radius, 0.0)),
        shares=shares_at(known, c.radius, radii),
        smoothed_accuracy=None if result.labels is None else c.smoothed_accuracy(result.labels),
        abstained=sum(abstentions.values()),
        total=len(c),
        passes=c.mean_forward_passes,
        seconds=float(c.seconds.sum()),
        reasons=tuple(Reason(o.value, o.explanation, count) for o, count in abstentions.most_common()),
        replayed=int(c.replayed.sum()),
        lost=int(c.lost.sum()),
        gained=int(c.gained.sum()),
    )


def average_radius(result: Result) -> float:
    """ACR; without labels the mean radius of all inputs, abstentions as 0."""
    c = result.certificates
    return c.average_certified_radius(c.prediction if result.labels is None else result.labels)


def mean_interval(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """An approximate 95% interval (Student's t) for the mean of the population that the values are a sample of; None for one value."""
    if len(values) < 2:
        return None
    half = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half


def right_or_certified(result: Result) -> NDArray[np.bool_]:
    """Inputs that count: predicted right, or, where labels are unknown, certified at all."""
    c = result.certificates
    return c.certified & (True if result.labels is None else c.prediction == result.labels)


def shares_at(counts: NDArray[np.bool_], radii: NDArray[np.float64], at: Sequence[float]) -> tuple[Share, ...]:
    """How many of the inputs that count have at least each of these radii."""
    # Half of the remaining probability on either side: each bound is one-sided.
    far = np.asarray(at, dtype=float)
    k, n, tail = (counts & (radii >= far[:, None])).sum(axis=1), len(radii), (1 - CONFIDENCE) / 2
    columns = (far, k, np.full(len(far), n), clopper_pearson_lower(k, n, tail), clopper_pearson_upper(k, n, tail))
    return tuple(Share(*row) for row in zip(*(column.tolist() for column in columns), strict=True))
