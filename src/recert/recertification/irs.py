"""Incremental randomized smoothing, the paper's method (Algorithms 2 and 3)."""

import numpy as np

from recert import bounds
from recert.certificates import Certificates, Outcome, claim_from_bounds
from recert.noise import Stream
from recert.recertification.task import Task


def irs(task: Task) -> Certificates:
    """The cached bound minus a bound on the disparity; fresh votes where the cached bound is near 1."""
    cache_alpha, zeta_alpha = _split_alpha(task)
    if task.samples > task.cache.manifest.samples:
        raise ValueError(
            f"expected at most {task.cache.manifest.samples} samples, the votes that the cache has per input, got {task.samples}"
        )
    base = task.cache.certify(alpha=cache_alpha, certificate="one-sided")
    near_one = base.top_lower >= task.reuse_threshold
    replayed, fresh = np.flatnonzero(base.certified & ~near_one), np.flatnonzero(base.certified & near_one)
    top_lower = np.zeros(len(base))
    disagreements, top_votes, nobody = (np.zeros(len(base), dtype=np.int64) for _ in range(3))
    seconds = np.zeros(len(base))

    for row, drawn in zip(replayed, task.draw(replayed, Stream.ESTIMATION, task.samples), strict=True):
        # EstimateZeta. A vote for nobody is a disagreement, also with a cached vote for nobody.
        cached = task.cache.votes(task.cache.digests[row])[: task.samples]
        disagreements[row] = np.count_nonzero((drawn.votes != cached) | (drawn.votes >= task.source.classes))
        disparity_upper = bounds.clopper_pearson_upper(disagreements[row], task.samples, zeta_alpha)
        top_lower[row] = np.nextafter(base.top_lower[row] - disparity_upper, -1.0)
        seconds[row], nobody[row] = drawn.seconds, task.samples - drawn.counts.sum()
    fresh_alpha = task.alpha if task.irs_form == "paper" else cache_alpha
    for row, drawn in zip(fresh, task.draw(fresh, Stream.FRESH, task.samples), strict=True):
        top_votes[row] = drawn.counts[base.prediction[row]]
        top_lower[row] = bounds.clopper_pearson_lower(top_votes[row], task.samples, fresh_alpha)
        seconds[row], nobody[row] = drawn.seconds, task.samples - drawn.counts.sum()

    # Whatever f^p says, the certificate is about the class that f was certified for: K bounds no other.
    top_lower = np.maximum(top_lower, 0.0)
    why = np.where(
        base.certified, np.where(near_one, Outcome.NO_MAJORITY, Outcome.TRANSFER_TOO_WEAK), Outcome.NOT_CERTIFIED_BEFORE
    )
    is_replayed, is_fresh = base.certified & ~near_one, base.certified & near_one
    unproved = zeta_alpha if task.irs_form == "paper" and task.reuse_threshold < 1 else 0.0
    return Certificates.build(
        task.cache.digests,
        claim_from_bounds(base.prediction, top_lower, 1 - top_lower, task.sigma, otherwise=why),
        task.settings("irs", error=task.alpha + unproved),
        top_votes=np.where(is_fresh, top_votes, np.where(is_replayed, base.top_votes, 0)),
        samples=np.where(is_fresh, task.samples, np.where(is_replayed, base.samples, 0)),
        replayed=is_replayed * task.samples,
        kept=is_replayed * (task.samples - disagreements),
        lost=disagreements,
        forward_passes=base.certified * task.samples,
        seconds=seconds,
        nobody=nobody,
    )


def _split_alpha(task: Task) -> tuple[float, float]:
    """alpha for the cached bound, and alpha_zeta for the disparity: what is left of the total."""
    cache_alpha = task.cache.manifest.alpha
    if task.alpha <= cache_alpha:
        raise ValueError(
            f"expected alpha above {cache_alpha:g}, which the cached bound spends already, got {task.alpha:g}; "
            f"a usual value is {2 * cache_alpha:g}"
        )
    if task.certificate != "one-sided":
        raise ValueError(
            f"expected certificate='one-sided' with method='irs', as in the paper, got {task.certificate!r}"
        )
    return cache_alpha, task.alpha - cache_alpha
