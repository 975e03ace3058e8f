"""The final: a candidate is certified on estimation noise, which the race has not seen."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Certificates
from recert.choosing.race import Runner
from recert.planning import Beliefs, Choice, RadiusPredictor, plan_budget
from recert.planning.prediction import passes_grid
from recert.recertification.ledger import Ledger
from recert.recertification.methods import OPTIONS, Option, carry_out
from recert.recertification.task import Task

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

METHOD = "auto"
_PESSIMIST = 0.02
"""An input gets passes enough for the radius even if its vote is as low as in this share of the draws."""
_RESERVE = 2
_LEAST = 5
"""And so many times these passes, and no less than this part of the mean: a flip more than expected must not cost the radius."""
_EVERY = 10
"""For the average radius a plan is made with every so many draws: it is smooth in them."""


def certified(task: Task, runner: Runner, alpha_to_plan_with: float) -> Certificates:
    """Certificates of a finalist. Options and passes follow from the race and the selection votes alone.

    Inputs on which the original abstained, or that have no chance to count, are left out: no claim is made there.
    """
    options = [
        option
        for option in OPTIONS[METHOD][task.certificate]
        if option.name
        != "scratch-cached"  # fresh votes need more passes than replays wherever these can reach the radius
    ]
    ledger = Ledger.empty(task.classes.copy(), METHOD)
    kept = np.flatnonzero(task.base(task.alpha).certified[runner.prospects.rows])
    rows = runner.prospects.rows[kept]
    # One digit is enough to plan with, and lets tables be used again.
    flips = float(f"{runner.prospects.flips(runner.tally):.1g}")
    beliefs = Beliefs(*(draws[kept] for draws in runner.prospects.under(runner.tally)))
    choice = _choose(replace(task, alpha=alpha_to_plan_with), options, beliefs, flips)
    left_out = np.setdiff1d(np.flatnonzero(task.base(task.alpha).certified), rows)
    nothing = np.zeros(len(left_out), dtype=np.int64)
    try:
        carry_out(task, ledger, options, left_out, Choice(nothing, nothing), flips)
        carry_out(task, ledger, options, rows, choice, flips)
        task.background.finish()
    finally:
        task.background.stop()
    return ledger.certificates(task, METHOD)


def _choose(task: Task, options: list[Option], beliefs: Beliefs, flips: float) -> Choice:
    """An option and passes for each input, at most `task.samples` in the mean over all inputs."""
    assert task.objective is not None
    budget, largest = task.samples * len(task.positions), task.cached_samples // 2
    predictors = [option.expect(task, flips, largest) for option in options]
    if task.objective.radius is None:
        some = Beliefs(beliefs.top[:, ::_EVERY], beliefs.runner_up[:, ::_EVERY])
        return plan_budget(some, predictors, task.objective, budget, largest)
    while True:
        choice = _enough(beliefs, predictors, task.objective.radius, passes_grid(largest))
        passes = np.clip(_RESERVE * choice.passes, min(task.samples // _LEAST, largest), largest)
        if passes.sum() <= budget or largest <= task.samples:
            return Choice(choice.option, passes)
        largest = int(0.8 * largest)


def _enough(beliefs: Beliefs, predictors: list[RadiusPredictor], radius: float, passes: Floats) -> Choice:
    """The fewest passes that are expected to reach the radius even for a pessimist; the most where none are."""
    quantiles = np.quantile(beliefs.top, _PESSIMIST, axis=1), np.quantile(beliefs.runner_up, 1 - _PESSIMIST, axis=1)
    low, high = (q[:, None] for q in quantiles)
    radii = np.stack([predict(low, np.minimum(high, 1 - low), passes[None, :]) for predict in predictors])
    reached = radii.max(axis=0) >= radius
    rows, sure = np.arange(len(low)), reached.any(axis=1)
    at = np.where(sure, reached.argmax(axis=1), len(passes) - 1)
    middle = np.median(beliefs.top, axis=1), np.median(beliefs.runner_up, axis=1)
    most = np.stack([predict(*middle, passes[-1:]) for predict in predictors])
    option = np.where(sure, radii.argmax(axis=0)[rows, at], most.argmax(axis=0))
    return Choice(option, passes[at].astype(np.int64))
