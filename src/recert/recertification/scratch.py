"""Baselines that draw fresh votes of the modified model."""

import numpy as np

from recert.certificates import Certificates, Outcome, claim_one_sided, claim_two_sided
from recert.noise import Stream
from recert.recertification.task import Task


def scratch(task: Task) -> Certificates:
    """Cohen's CERTIFY on the modified model: its own selection votes, then fresh votes, on all inputs."""
    rows = np.arange(len(task.positions))
    selection = task.draw(rows, Stream.SELECTION, task.selection_samples)
    top = np.array([drawn.counts.argmax() for drawn in selection])
    spent = np.array([drawn.seconds for drawn in selection])
    none = np.array([task.selection_samples - drawn.counts.sum() for drawn in selection])
    return _bound(task, "scratch", rows, top, passes=task.selection_samples, seconds=spent, nobody=none)


def scratch_cached(task: Task) -> Certificates:
    """As scratch, but given the cached class, and skipping inputs on which the original model abstained."""
    base = task.cache.certify(certificate="one-sided")
    zero = np.zeros(len(base), dtype=np.int64)
    return _bound(task, "scratch-cached", np.flatnonzero(base.certified), base.prediction, 0, zero * 0.0, zero)


def _bound(
    task: Task, method: str, rows: np.ndarray, top: np.ndarray, passes: int, seconds: np.ndarray, nobody: np.ndarray
) -> Certificates:
    counts = np.zeros((len(top), task.source.classes), dtype=np.int64)
    seconds, nobody = seconds.copy(), nobody.copy()
    for row, drawn in zip(rows, task.draw(rows, Stream.FRESH, task.samples), strict=True):
        counts[row] = drawn.counts
        seconds[row] += drawn.seconds
        nobody[row] += task.samples - drawn.counts.sum()
    every, drawn_here = np.arange(len(top)), np.isin(np.arange(len(top)), rows)
    top_votes = np.where(drawn_here, counts[every, top], 0)
    if task.certificate == "two-sided":
        counts[every, top] = 0
        claims = claim_two_sided(top, top_votes, counts.max(axis=1), task.samples, task.alpha, task.sigma)
    else:
        claims = claim_one_sided(top, top_votes, task.samples, task.alpha, task.sigma)
    claims.outcome[~drawn_here] = Outcome.NOT_CERTIFIED_BEFORE.value
    return Certificates.build(
        task.cache.digests, claims, task.settings(method), top_votes=top_votes, samples=drawn_here * task.samples,
        forward_passes=drawn_here * (task.samples + passes), seconds=seconds, nobody=nobody,
    )  # fmt: skip
