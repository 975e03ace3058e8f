"""Incremental randomized smoothing, the paper's method (Algorithms 2 and 3)."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.certificates import Outcome
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import Circumstances, irs_table
from recert.recertification.draws import Draws
from recert.recertification.ledger import Ledger
from recert.recertification.scratch import scratch_draws
from recert.recertification.task import Task
from recert.sampling import Drawn

Ints = NDArray[np.int64]


def irs_draws(task: Task, ledger: Ledger, rows: Ints, passes: Ints) -> list[Draws[Any]]:
    """The cached bound minus a bound on the disparity; fresh votes where the cached bound is near 1.

    Whatever the modified model says most often, the claim is about the class that the original was certified for: the
    cached votes bound no other.
    """
    cache_alpha, zeta_alpha = split_alpha(task)
    cached_lower = task.base(cache_alpha).top_lower
    near_one = cached_lower[rows] >= task.reuse_threshold
    fresh_alpha = task.alpha if task.irs_form == "paper" else cache_alpha
    return [
        _transfer(task, ledger, rows[~near_one], passes[~near_one], cached_lower, zeta_alpha),
        *scratch_draws(replace(task, alpha=fresh_alpha), ledger, rows[near_one], passes[near_one]),
    ]


def _transfer(
    task: Task, ledger: Ledger, rows: Ints, passes: Ints, cached_lower: NDArray[np.float64], zeta_alpha: float
) -> Draws[int]:
    """Theorem 4: top_lower - disparity_upper, by the union bound. A vote for nobody always disagrees (EstimateZeta)."""
    ledger.replayed[rows], ledger.samples[rows] = passes, task.cached_samples
    ledger.top_votes[rows] = task.estimation[rows, task.classes[rows]]

    def enter(i: int, drawn: Drawn) -> int:
        row = int(rows[i])
        ledger.spend(row, drawn)
        cached = task.cached_votes(row)[: len(drawn.votes)]
        ledger.lost[row] = np.count_nonzero((drawn.votes != cached) | (drawn.votes >= task.source.classes))
        ledger.kept[row] = passes[i] - ledger.lost[row]
        return row

    def bound(block: list[int]) -> None:
        disparity_upper = bounds.clopper_pearson_upper(ledger.lost[block], ledger.replayed[block], zeta_alpha)
        top_lower = np.maximum(np.nextafter(cached_lower[block] - disparity_upper, -1.0), 0.0)
        ledger.claim(np.array(block), top_lower, None, Outcome.TRANSFER_TOO_WEAK)

    return Draws(rows, Stream.ESTIMATION, [range(m) for m in passes], enter, bound)


def split_alpha(task: Task) -> tuple[float, float]:
    """alpha for the cached bound, and alpha_zeta for the disparity: what is left of the total."""
    cache_alpha = task.cache.manifest.alpha
    if task.alpha <= cache_alpha:
        raise ValueError(
            f"expected alpha above {cache_alpha:g}, which the cached bound spends already, got {task.alpha:g} for each claim "
            f"(after a family or planned looks have divided it); a usual value is {2 * cache_alpha:g}"
        )
    return cache_alpha, task.alpha - cache_alpha


def proved_error(task: Task) -> float:
    """The paper's fresh branch runs at the whole alpha although the choice of branch looked at the cached votes."""
    unproved = split_alpha(task)[1] if task.irs_form == "paper" and task.reuse_threshold < 1 else 0.0
    return task.alpha + unproved


def irs_radius(task: Task, flips: float, largest: int) -> RadiusPredictor:
    """The radius that irs is expected to reach."""
    given = Circumstances(task.cached_samples, task.alpha, flips)
    return irs_table(given, largest, split_alpha(task)[0], task.reuse_threshold).radius(task.sigma)
