"""Bounds to claims: prediction, outcome and radius of every input (method of Cohen et al., Algorithm 1 and Theorem 1)."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recert import bounds
from recert.certificates.outcome import Outcome
from recert.noise import Noise

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Claims:
    """Columns of claims; a prediction of -1 and a radius of 0 where the outcome is an abstention."""

    outcome: NDArray[Any]
    prediction: Ints
    radius: Floats
    top_lower: Floats
    runner_up_upper: Floats


def outcome_column(condition: NDArray[np.bool_], yes: Outcome, no: Any) -> NDArray[Any]:
    """Outcomes as plain strings: `yes` where the condition holds, else `no` (one outcome or a column of them)."""
    return np.where(condition, yes.value, np.asarray(no, dtype=str)).astype(object)


def claim_one_sided(classes: ArrayLike, top_votes: ArrayLike, samples: ArrayLike, alpha: float, noise: Noise) -> Claims:
    """Algorithm 1 as published: certified where the class is shown to have more than half of the votes."""
    top_lower = np.atleast_1d(bounds.clopper_pearson_lower(top_votes, samples, alpha))
    return claim_from_bounds(classes, top_lower, 1 - top_lower, noise, otherwise=Outcome.NO_MAJORITY)


def claim_two_sided(
    classes: ArrayLike, top_votes: ArrayLike, rival_votes: ArrayLike, samples: ArrayLike, alpha: float, noise: Noise
) -> Claims:
    """Theorem 1 in full: certified where the class is shown to be ahead of every rival; alpha is spent half on each.

    The most probable rival is one fixed class whose count is at most the largest rival count, so its bound needs no
    division by the number of classes.
    """
    top_lower = np.atleast_1d(bounds.clopper_pearson_lower(top_votes, samples, alpha / 2))
    rival = np.atleast_1d(bounds.clopper_pearson_upper(rival_votes, samples, alpha / 2))
    # The class and its rival share at most all votes, so that this second bound on the rival needs no further alpha.
    upper = np.minimum(rival, 1 - top_lower)
    return claim_from_bounds(classes, top_lower, upper, noise, otherwise=Outcome.RUNNER_UP_TOO_CLOSE)


def certified(top_votes: Ints, rival_votes: Ints, samples: int, alpha: float, *, certificate: str) -> NDArray[np.bool_]:
    """Which inputs these claims certify, without bounds that decide nothing: where the class has half, its rivals do not matter."""
    two_sided = certificate == "two-sided"
    error = alpha / 2 if two_sided else alpha
    found = np.asarray(top_votes >= _fewest_for_half(samples, error))
    if not two_sided:
        return found
    # Each bound is at most so far from its share (Hoeffding's inequality), and never on its other side.
    lead, far = (top_votes - rival_votes) / samples, math.sqrt(-math.log(error) / (2 * samples)) * (1 + 1e-9)
    found |= lead > 2 * far
    close = ~found & (lead > 0)
    if close.any():
        top_lower = bounds.clopper_pearson_lower(top_votes[close], samples, error)
        found[close] = top_lower > bounds.clopper_pearson_upper(rival_votes[close], samples, error)
    return found


@lru_cache(maxsize=64)
def _fewest_for_half(samples: int, alpha: float) -> int:
    """The fewest votes whose lower bound is above 1/2; one more than all where there are none. The bound rises with the votes."""
    return bisect_left(range(samples + 1), True, key=lambda k: bounds.clopper_pearson_lower(k, samples, alpha) > 0.5)


def claim_from_bounds(
    classes: ArrayLike, top_lower: Floats, runner_up_upper: Floats, noise: Noise, *, otherwise: Any
) -> Claims:
    """Claims from bounds that hold jointly; `otherwise` is the outcome of inputs that abstain."""
    radius = noise.radius(top_lower, runner_up_upper)
    # Strictly more: without a lead, or with one that the noise needs for itself, the smoothed classifier might be tied.
    certified = radius > 0
    return Claims(
        outcome=outcome_column(certified, Outcome.CERTIFIED, otherwise),
        prediction=np.where(certified, np.asarray(classes, dtype=np.int64), -1),
        radius=radius,
        top_lower=top_lower,
        runner_up_upper=runner_up_upper,
    )
