"""The final: a candidate is certified on estimation noise, which the race has not seen."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Certificates, Outcome
from recert.certification import CERTIFICATES
from recert.choosing.race import RacingCandidate
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

# None of these numbers enters a claim: they share out passes before any estimation vote is drawn. Too few passes let a good
# candidate fail its final, which cannot be repeated at the same error; too many only cost time.
_LOW_QUANTILE = 0.02
"""An input gets passes enough for the radius even if its share of votes is as low as in one draw out of fifty."""
_RESERVE = 3
"""And so many times these passes: a flip more than expected must not cost the radius."""
_LARGEST_CUT = 5
"""And no less than the mean over this: with a handful of passes a single flip would cost the radius."""
_DRAWS_STEP = 10
"""For the average radius a plan is made with every tenth draw: it is smooth in them, and ten times as soon made."""


@dataclass(frozen=True)
class _Inputs:
    """How the inputs of a final are certified, as places in `Prospects.rows`. Others cannot count, and are left out."""

    replayed: Ints
    """Re-certified from the cache."""
    abstained: Ints
    """To be re-certified, but the original abstains at the final's error: there is nothing to transfer."""
    by_own_votes: Ints
    """Certified by the candidate's own votes for the label, which is known beforehand."""


def certified(task: Task, candidate: RacingCandidate, alpha_to_plan_with: float) -> Certificates:
    """Certificates of a finalist. Which inputs, options and passes follow from the race and the selection votes alone.

    What counts for the original is re-certified. Where the candidate is another classifier its own votes bound the share of the
    label. Plans of all finalists are made with one alpha, whose tables are computed once; the claims have the task's.
    """
    inputs = _divided(task, candidate)
    rows = candidate.prospects.rows
    # One digit is enough to plan with, and lets tables be used again.
    flips = float(f"{candidate.prospects.flips(candidate.tally):.1g}")
    options = [option for option in task.method.options(task.certificate) if not option.method.baseline]
    options.append(Option(OwnVotes(), CERTIFICATES[task.certificate]))
    choice = _planned(replace(task, alpha=alpha_to_plan_with), candidate, inputs, options, flips)
    outcome = np.full(len(task.positions), Outcome.LEFT_OUT_BY_PLAN.value, dtype=object)
    outcome[rows[inputs.abstained]] = Outcome.NOT_CERTIFIED_BEFORE.value
    classes = task.selection.classes.copy()
    classes[rows[inputs.by_own_votes]] = candidate.prospects.classes[inputs.by_own_votes]
    given = assignments(rows[np.append(inputs.replayed, inputs.by_own_votes)], classes, options, choice)
    with bounds_pool() as pool:
        return certificates(task, Done(classes, outcome, carry_out(task, given, flips, pool)))


def _divided(task: Task, candidate: RacingCandidate) -> _Inputs:
    prospects = candidate.prospects
    by_own_votes = prospects.by_own_votes(candidate.tally)
    counted = np.setdiff1d(prospects.right, by_own_votes)
    certified_before = task.certified_before()[prospects.rows[counted]]
    # Inputs on which the original abstains are not certified by own votes instead: that would be a choice by estimation votes.
    return _Inputs(counted[certified_before], counted[~certified_before], by_own_votes)


def _planned(task: Task, candidate: RacingCandidate, inputs: _Inputs, options: list[Option], flips: float) -> Choice:
    """An option and passes for the replayed inputs, then for those with own votes, whose option is the last."""
    *replays, own_votes = options
    alone = inputs.by_own_votes
    top, runner_up = candidate.prospects.shares_of_candidate(candidate.tally)
    budget = task.samples * len(task.positions)
    possible = len(alone) + len(inputs.replayed) + len(inputs.abstained)
    own_share = len(alone) / max(possible, 1)
    own = _votes_needed(task, own_votes, Beliefs(top[alone], runner_up[alone]), int(budget * own_share))
    # What own votes do not need of their share, and what inputs leave on which the original abstains, goes to replays.
    beliefs = Beliefs(top[inputs.replayed], runner_up[inputs.replayed])
    choice = _choose(task, replays, beliefs, flips, budget - int(own.sum()))
    return Choice(np.append(choice.option, np.full(len(alone), len(replays))), np.append(choice.passes, own))


def _votes_needed(task: Task, option: Option, beliefs: Beliefs, budget: int) -> Ints:
    """How many of its own votes a candidate needs on each input, within the budget."""
    assert task.objective is not None
    inputs = max(len(beliefs.top), 1)
    each = min(budget // inputs, task.terms.samples)
    if task.objective.radius is None:
        return np.full(len(beliefs.top), min(task.samples, each))
    largest = max(task.terms.samples // 2, each)
    return _with_reserve(task, beliefs, _predictors(task, [option], 0.0, largest), budget, largest, each).passes


def _choose(task: Task, options: list[Option], beliefs: Beliefs, flips: float, budget: int) -> Choice:
    """An option and passes for each input."""
    assert task.objective is not None
    largest = task.terms.samples // 2
    predictors = _predictors(task, options, flips, largest)
    if task.objective.radius is None:
        some = Beliefs(beliefs.top[:, ::_DRAWS_STEP], beliefs.runner_up[:, ::_DRAWS_STEP])
        return plan_budget(some, predictors, task.objective, budget, largest)
    return _with_reserve(task, beliefs, predictors, budget, largest, task.samples)


def _predictors(task: Task, options: list[Option], flips: float, largest: int) -> list[RadiusPredictor]:
    return [
        option.method.expected_radius(replace(task.terms, sides=option.sides, flips=flips), largest) for option in options
    ]  # fmt: skip


def _with_reserve(
    task: Task, beliefs: Beliefs, predictors: list[RadiusPredictor], budget: int, largest: int, smallest: int
) -> Choice:
    """Passes for the radius with a reserve. What exceeds the budget is cut, from `largest` down to `smallest` for an input."""
    assert task.objective is not None
    assert task.objective.radius is not None
    while True:
        choice = _fewest_passes(beliefs, predictors, task.objective.radius, passes_grid(largest))
        passes = np.clip(_RESERVE * choice.passes, min(task.samples // _LARGEST_CUT, largest), largest)
        if passes.sum() <= budget or largest <= smallest:
            return Choice(choice.option, passes)
        # A fifth less each time: inputs that need most are cut first, and no cut is much deeper than the budget asks for.
        largest = max(int(0.8 * largest), smallest)


def _fewest_passes(beliefs: Beliefs, predictors: list[RadiusPredictor], radius: float, passes: Floats) -> Choice:
    """The fewest passes that are expected to reach the radius even if votes are as low as `_LOW_QUANTILE`; the most where none are."""
    low = np.quantile(beliefs.top, _LOW_QUANTILE, axis=1)[:, None]
    high = np.quantile(beliefs.runner_up, 1 - _LOW_QUANTILE, axis=1)[:, None]
    radii = np.stack([predict(low, np.minimum(high, 1 - low), passes[None, :]) for predict in predictors])
    reached = radii.max(axis=0) >= radius
    rows, sure = np.arange(len(low)), reached.any(axis=1)
    at = np.where(sure, reached.argmax(axis=1), len(passes) - 1)
    # Where no number of passes is sure to do, the option that promises most at the median draw.
    middle = np.median(beliefs.top, axis=1), np.median(beliefs.runner_up, axis=1)
    most = np.stack([predict(*middle, passes[-1:]) for predict in predictors])
    option = np.where(sure, radii.argmax(axis=0)[rows, at], most.argmax(axis=0))
    return Choice(option, passes[at].astype(np.int64))
