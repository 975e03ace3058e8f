"""The final: a candidate is certified on estimation noise, which the race has not seen."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Certificates, Outcome
from recert.certification import CERTIFICATES
from recert.choosing.race import Runner
from recert.planning import Beliefs, Choice, RadiusPredictor, plan_budget
from recert.planning.tables import passes_grid
from recert.recertification.certifying import Done, certificates
from recert.recertification.drawing import bounds_pool, carry_out
from recert.recertification.method import Option
from recert.recertification.run import assignments
from recert.recertification.scratch import OwnVotes
from recert.recertification.task import Task

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_PESSIMIST = 0.02
"""An input gets passes enough for the radius even if its vote is as low as in this share of the draws."""
_RESERVE = 3
_LEAST = 5
"""And so many times these passes, and no less than this part of the mean: a flip more than expected must not cost the radius."""
_EVERY = 10
"""For the average radius a plan is made with every so many draws: it is smooth in them."""


def certified(task: Task, runner: Runner, alpha_to_plan_with: float) -> Certificates:
    """Certificates of a finalist. Which inputs, options and passes follow from the race and the selection votes alone.

    What counts for the original is re-certified. Where the candidate is another classifier its own votes bound the share of the label,
    which is known beforehand. Other inputs cannot count, and are left out.
    """
    plan = replace(task, alpha=alpha_to_plan_with)
    prospects, tally = runner.prospects, runner.tally
    top, runner_up = prospects.under(tally)
    alone = prospects.alone(tally)
    carried_over = np.setdiff1d(prospects.right, alone)
    budget = task.samples * len(task.positions)
    own_share = len(alone) / max(len(alone) + len(carried_over), 1)
    own_option = Option(OwnVotes(), CERTIFICATES[task.certificate])
    own_votes = _votes_needed(plan, own_option, Beliefs(top[alone], runner_up[alone]), int(budget * own_share))
    certified_before = task.certified_before()[prospects.rows[carried_over]]
    outcome = np.full(len(task.positions), Outcome.LEFT_OUT_BY_PLAN.value, dtype=object)
    outcome[prospects.rows[carried_over[~certified_before]]] = Outcome.NOT_CERTIFIED_BEFORE.value
    classes = task.selection.classes.copy()
    classes[prospects.rows[alone]] = prospects.classes[alone]
    replayed = carried_over[certified_before]
    # One digit is enough to plan with, and lets tables be used again.
    flips = float(f"{prospects.flips(tally):.1g}")
    options = [option for option in task.method.options(task.certificate) if not option.method.baseline]
    beliefs = Beliefs(top[replayed], runner_up[replayed])
    choice = _choose(plan, options, beliefs, flips, budget - int(own_votes.sum()))
    choice = Choice(np.append(choice.option, np.full(len(alone), len(options))), np.append(choice.passes, own_votes))
    given = assignments(prospects.rows[np.append(replayed, alone)], classes, [*options, own_option], choice)
    with bounds_pool() as pool:
        return certificates(task, Done(classes, outcome, carry_out(task, given, flips, pool)))


def _votes_needed(task: Task, option: Option, beliefs: Beliefs, budget: int) -> Ints:
    """How many of its own votes a candidate needs on each input, within the budget."""
    assert task.objective is not None
    inputs = max(len(beliefs.top), 1)
    each = min(budget // inputs, task.terms.samples)
    if task.objective.radius is None:
        return np.full(len(beliefs.top), min(task.samples, each))
    largest = max(task.terms.samples // 2, each)
    return _surely_enough(task, beliefs, _predictors(task, [option], 0.0, largest), budget, largest, each).passes


def _choose(task: Task, options: list[Option], beliefs: Beliefs, flips: float, budget: int) -> Choice:
    """An option and passes for each input."""
    assert task.objective is not None
    largest = task.terms.samples // 2
    predictors = _predictors(task, options, flips, largest)
    if task.objective.radius is None:
        some = Beliefs(beliefs.top[:, ::_EVERY], beliefs.runner_up[:, ::_EVERY])
        return plan_budget(some, predictors, task.objective, budget, largest)
    return _surely_enough(task, beliefs, predictors, budget, largest, task.samples)


def _predictors(task: Task, options: list[Option], flips: float, largest: int) -> list[RadiusPredictor]:
    return [
        option.method.expected_radius(replace(task.terms, sides=option.sides, flips=flips), largest) for option in options
    ]  # fmt: skip


def _surely_enough(
    task: Task, beliefs: Beliefs, predictors: list[RadiusPredictor], budget: int, largest: int, smallest: int
) -> Choice:
    """Passes for the radius with a reserve. What exceeds the budget is cut, from `largest` down to `smallest` for an input."""
    assert task.objective is not None
    assert task.objective.radius is not None
    while True:
        choice = _enough(beliefs, predictors, task.objective.radius, passes_grid(largest))
        passes = np.clip(_RESERVE * choice.passes, min(task.samples // _LEAST, largest), largest)
        if passes.sum() <= budget or largest <= smallest:
            return Choice(choice.option, passes)
        largest = max(int(0.8 * largest), smallest)


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
