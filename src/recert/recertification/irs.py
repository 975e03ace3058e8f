"""Incremental randomized smoothing, the paper's method (Algorithms 2 and 3)."""

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.certificates import Certificates, Outcome, claim_from_bounds
from recert.noise import Stream
from recert.recertification.task import Task


def irs(task: Task) -> Certificates:
    """The cached bound minus a bound on the disparity; fresh votes where the cached bound is near 1.

    Whatever the modified model says most often, the claim is about the class that the original was certified for: the
    cached votes bound no other.
    """
    cache_alpha, zeta_alpha = _split_alpha(task)
    base = task.cache.certify(alpha=cache_alpha, certificate="one-sided")
    near_one = base.top_lower >= task.reuse_threshold
    replayed, fresh = base.certified & ~near_one, base.certified & near_one
    paper = task.irs_form == "paper"
    disagreements, replay_seconds, replay_nobody = _disagreements(task, np.flatnonzero(replayed))
    top_votes, fresh_seconds, fresh_nobody = _fresh_votes(task, np.flatnonzero(fresh), base.prediction)
    # Theorem 3: top_lower - disparity_upper, with error cache_alpha + zeta_alpha by the union bound.
    disparity_upper = bounds.clopper_pearson_upper(disagreements, task.samples, zeta_alpha)
    transferred = np.maximum(np.nextafter(base.top_lower - disparity_upper, -1.0), 0.0)
    drawn_anew = bounds.clopper_pearson_lower(top_votes, task.samples, task.alpha if paper else cache_alpha)
    top_lower = np.where(replayed, transferred, np.where(fresh, drawn_anew, 0.0))
    abstained = np.where(replayed, Outcome.TRANSFER_TOO_WEAK, np.where(fresh, Outcome.NO_MAJORITY, Outcome.NOT_CERTIFIED_BEFORE))
    unproved = zeta_alpha if paper and task.reuse_threshold < 1 else 0.0
    return Certificates.build(
        task.cache.digests,
        claim_from_bounds(base.prediction, top_lower, 1 - top_lower, task.sigma, otherwise=abstained),
        task.settings("irs", error=task.alpha + unproved),
        top_votes=np.where(fresh, top_votes, np.where(replayed, base.top_votes, 0)),
        samples=np.where(fresh, task.samples, np.where(replayed, base.samples, 0)),
        replayed=replayed * task.samples,
        kept=replayed * (task.samples - disagreements),
        lost=disagreements,
        forward_passes=base.certified * task.samples,
        seconds=replay_seconds + fresh_seconds,
        nobody=replay_nobody + fresh_nobody,
    )


Columns = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]


def _disagreements(task: Task, rows: NDArray[np.int64]) -> Columns:
    """EstimateZeta's count on the first cached noises. A vote for nobody always disagrees."""
    count, seconds, nobody = _empty(task)
    for row, drawn in zip(rows, task.draw(rows, Stream.ESTIMATION, task.samples), strict=True):
        cached = task.cache.votes(task.cache.digests[row])[: task.samples]
        count[row] = np.count_nonzero((drawn.votes != cached) | (drawn.votes >= task.source.classes))
        seconds[row], nobody[row] = drawn.seconds, task.samples - drawn.counts.sum()
    return count, seconds, nobody


def _fresh_votes(task: Task, rows: NDArray[np.int64], classes: NDArray[np.int64]) -> Columns:
    """Votes for the cached class on noises that the cache has not seen."""
    count, seconds, nobody = _empty(task)
    for row, drawn in zip(rows, task.draw(rows, Stream.FRESH, task.samples), strict=True):
        count[row] = drawn.counts[classes[row]]
        seconds[row], nobody[row] = drawn.seconds, task.samples - drawn.counts.sum()
    return count, seconds, nobody


def _empty(task: Task) -> Columns:
    rows = len(task.positions)
    return np.zeros(rows, dtype=np.int64), np.zeros(rows), np.zeros(rows, dtype=np.int64)


def _split_alpha(task: Task) -> tuple[float, float]:
    """alpha for the cached bound, and alpha_zeta for the disparity: what is left of the total."""
    cache_alpha, cached = task.cache.manifest.alpha, task.cache.manifest.samples
    if task.certificate != "one-sided":
        raise ValueError(f"expected certificate='one-sided' with method='irs', as in the paper, got {task.certificate!r}")
    if task.samples > cached:
        raise ValueError(
            f"expected at most {cached} samples, the votes that the cache has of each input, got {task.samples}; "
            "ask for fewer, or extend the cache by certifying with more"
        )
    if task.alpha <= cache_alpha:
        raise ValueError(
            f"expected alpha above {cache_alpha:g}, which the cached bound spends already, got {task.alpha:g}; "
            f"a usual value is {2 * cache_alpha:g}"
        )
    return cache_alpha, task.alpha - cache_alpha
