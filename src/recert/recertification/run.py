"""Re-certification, step by step: select, pilot, plan, draw, count, bound, certify."""

import hashlib
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recert.bounds import smallest_samples_to_certify
from recert.certificates import Certificates, Outcome
from recert.certification import CERTIFICATES
from recert.noise import Stream
from recert.planning import Beliefs, Choice, Objective, RadiusPredictor, Reached, best_option, equal_passes, plan_budget
from recert.recertification.ahead import Ahead, Cost, Likely
from recert.recertification.certifying import Done, certificates
from recert.recertification.drawing import Assignment, Block, bounded, bounds_pool, carry_out, counted
from recert.recertification.everyone import SMALLEST_SHARE, leave_none_out
from recert.recertification.method import Option
from recert.recertification.replays import ReplayMethod
from recert.recertification.task import Task
from recert.sampling import check_unchanged, most_samples

Ints = NDArray[np.int64]

PILOT_SHARE = 8
"""One input in so many is done first; flips on these tell what to expect on the others."""
PILOT_FLIPS = 0.01
"""What to expect on these: so few that nothing is lost if there are none, but bounds that fall with every flip are not chosen."""
PILOT_FLIPS_AT_RADIUS = 0.03
"""The same where inputs count that reach a radius: there one flip too many loses an input, and room for one costs little."""
SCARCE = 0.02
"""Of the cached votes: up to so many passes per input none are spent where the cached votes do not show the plan's radius."""
MOST_OF_MEAN = 32
"""No plan gives an input more than a few times the mean; smaller tables are sooner made."""
SMALLEST_GAIN = 1.15
"""Of forward passes, over certifying anew. With less of it, planning and bounds may cost the time that passes save."""

CHOICES_KEPT = 16
_FIRST_CHOICES: dict[str, Choice] = {}
"""The last of these, by all that they depend on."""


def run(task: Task) -> Certificates:
    """Certificates of the modified model."""
    with bounds_pool() as pool:
        done = replay(task, pool)
        # All votes are drawn. The last bounds are computed meanwhile: they and the digest of weights seldom need the interpreter.
        check_unchanged(task.source)
        return certificates(task, done)


def replay(task: Task, pool: Executor | None) -> Done:
    """Draw every vote that the certificates need, and have bounds computed; without a pool nothing is bounded.

    Which votes are asked for depends on selection votes and on flips of pilot inputs, never on a bound.
    """
    check_passes(task, task.samples)
    classes, rows, cost_of_choice = choose_classes(task)
    budget = task.samples * len(task.positions)
    outcome = np.full(len(task.positions), Outcome.NOT_CERTIFIED_BEFORE.value, dtype=object)
    short = rows[~may_reach(task, rows)]
    outcome[short], rows = Outcome.LEFT_OUT_BY_PLAN.value, np.setdiff1d(rows, short)
    pilot = choose_pilot(task, rows) if has_plan(task) else rows
    # The budget is planned for all rows, so that the pilot takes no more than its share of it.
    flips = pilot_flips(task)
    choice, first = first_choice(task, rows, flips, budget), set(pilot.tolist())
    given, later = list[Assignment](), list[Assignment]()
    for each in assignments(rows, classes, task.options, choice):
        (given if each.row in first else later).append(each)
    ahead = Ahead(task, expected_anyway(task, later))
    blocks = carry_out(task, given, flips, None, ahead)
    others = np.setdiff1d(rows, pilot)
    if len(others):
        flips = flips_seen(task, pilot, blocks)
        spent = [each.cost for each, _ in counted(blocks)] + [cost_of_choice[row] for row in pilot if cost_of_choice]
        choice = choose(task, others, flips, budget - sum(cost.passes for cost in spent))
        planned = assignments(others, classes, task.options, choice)
        bounds_of_pilot, gains = list[Block](), list[Future[float | None]]()

        def beside_drawing() -> None:
            bounds_of_pilot.extend(bounded(block, pool) for block in blocks)
            if pool is not None:
                gains.append(pool.submit(gain_over_anew, task, others, choice))

        # Bounds of the pilot, and what may be warned of, wait until the device is at work: both need the interpreter now and then.
        drawn = carry_out(task, planned, flips, pool, ahead, beside_drawing)
        blocks = bounds_of_pilot + drawn
        warn_if_hardly_better_than_anew(task, gains[0].result() if gains else gain_over_anew(task, others, choice))
        given += planned
    else:
        blocks = [bounded(block, pool) for block in blocks]
    outcome[[each.row for each in given if not each.passes]] = Outcome.LEFT_OUT_BY_PLAN.value
    return Done(classes, outcome, blocks, cost_of_choice, ahead.costs())


def expected_anyway(task: Task, given: Sequence[Assignment]) -> list[Likely]:
    """Inputs that will be given about as many passes whatever flips, the surest first; none where it would bring nothing.

    Where inputs count that reach a radius, more of them are left out when flips are known.
    """
    if not getattr(task.source, "passes_ahead", 0) or task.objective is None or counts_inputs(task):
        return []
    votes = task.selection.counts
    likely = [
        Likely(each.row, each.top, each.passes)
        for each in given
        if each.passes and isinstance(each.option.method, ReplayMethod)
    ]
    return sorted(likely, key=lambda each: -int(votes[each.row, each.top]))


def check_passes(task: Task, passes: int) -> None:
    """ValueError if every input is to be given more passes than the method may replay, and it draws no fresh votes instead."""
    cached = task.terms.samples
    largest = max(option.method.most_passes(cached) for option in task.options)
    if task.objective is None and passes > largest:
        raise ValueError(
            f"expected at most {largest} samples for method {task.method.name!r} and a cache of {cached} votes per input, "
            f"got {passes}; ask for fewer, or extend the cache by certifying with more"
        )


def gain_over_anew(task: Task, rows: Ints, choice: Choice) -> float | None:
    """How many times the forward passes fresh votes for all inputs are expected to take for as much; None without this choice."""
    anew = next((option for option in task.options if option.method.baseline), None)
    if task.objective is None or anew is None or len(task.options) == 1:
        return None
    most = most_passes(task, anew)
    predict, given, objective = predictor(task, anew, 0.0, most), float(choice.passes.sum()), predicted(task.objective)
    return equal_passes(task.beliefs.of(rows), predict, objective, choice.worth, most) * len(rows) / max(given, 1.0)


def warn_if_hardly_better_than_anew(task: Task, gain: float | None) -> None:
    """A warning where a choice of methods is expected to save hardly any forward passes over fresh votes for all inputs."""
    if gain is not None and gain < SMALLEST_GAIN:
        anew = next(option for option in task.options if option.method.baseline)
        warnings.warn(
            f"fresh votes alone are expected to give as much for {gain:.2f} times the forward passes: with {task.samples:,} per "
            f"input and {task.terms.samples:,} cached votes there is little to save, and certifying anew (method={anew.method.name!r}) "
            "may be as fast; a smaller budget, or a cache with more votes, saves more",
            stacklevel=5,
        )


def choose_classes(task: Task) -> tuple[Ints, Ints, list[Cost]]:
    """The class of every row, the rows that may be certified, and what choosing cost.

    The class is the cached one, and costs nothing; for Cohen's baseline the modified model itself votes.
    """
    rows, votes = np.arange(len(task.positions)), task.method.votes_to_choose()
    if not votes:
        return task.selection.classes, rows[task.certified_before()], []
    drawn = list(task.draw(rows.tolist(), [(Stream.SELECTION, range(votes))] * len(rows)))
    classes = np.array([each.counts.argmax() for each in drawn], dtype=np.int64)
    return classes, rows, [Cost.of(each) for each in drawn]


def may_reach(task: Task, rows: Ints) -> NDArray[np.bool_]:
    """Which rows may have the radius that the plan counts: all but those on which not even the original was certified at it.

    A radius from replays is above that of the cached votes only where a modification gives far more votes than it takes. Like any
    skip this looks at the votes that claim, and makes no claim. A larger budget is enough for such inputs as well, and beyond half
    of the cache fresh votes may say more than the cache does: then nothing is skipped, and the chances alone decide.
    """
    target = None if task.objective is None else task.objective.radius
    if target is None or task.everyone or task.method.votes_to_choose() or task.samples > SCARCE * task.terms.samples:
        return np.ones(len(rows), dtype=bool)
    of_class, of_both = (
        task.cache.certify(alpha=task.alpha, certificate=certificate).radius[rows]
        for certificate in ("one-sided", task.certificate)
    )
    return np.asarray(np.maximum(of_class, of_both) >= target)


def counts_inputs(task: Task) -> bool:
    """Whether the plan counts inputs at a radius."""
    return task.objective is not None and task.objective.radius is not None


def pilot_flips(task: Task) -> float:
    """What to expect on pilot inputs."""
    return PILOT_FLIPS_AT_RADIUS if counts_inputs(task) else PILOT_FLIPS


def has_plan(task: Task) -> bool:
    """Whether anything depends on the flips to expect."""
    return len(task.options) > 1 or task.objective is not None


def choose_pilot(task: Task, rows: Ints) -> Ints:
    """Some rows, spread evenly by their digests, which know nothing of votes."""
    order = sorted(rows.tolist(), key=lambda row: task.cache.digests[row])
    return np.array(sorted(order[::PILOT_SHARE]), dtype=np.int64)


def flips_seen(task: Task, rows: Ints, blocks: Sequence[Block]) -> float:
    """Losses per replay, relative to the share of votes that the class does not have: see `Circumstances`."""
    kept, lost = np.zeros((2, len(task.positions)), dtype=np.int64)
    for each, counts in counted(blocks):
        kept[each.row], lost[each.row] = counts.kept, counts.lost
    votes = task.selection.counts[rows]
    top_share = (votes[np.arange(len(rows)), task.selection.classes[rows]] + 0.5) / (votes.sum(axis=1) + 1.0)
    at_risk = float(((kept[rows] + lost[rows]) * (1 - top_share)).sum())
    losses = int(lost[rows].sum())
    if counts_inputs(task):
        # Where every flip more may cost a radius, no flip on a small pilot must not mean that there is none anywhere: as if one
        # had been seen before, at the rate that the pilot was planned for.
        losses, at_risk = losses + 1, at_risk + 1 / pilot_flips(task)
    # One digit is enough to plan with, and lets tables be used again.
    return float(f"{losses / at_risk:.1g}") if at_risk else 0.0


def first_choice(task: Task, rows: Ints, flips: float, budget: int) -> Choice:
    """What is chosen before a vote of the modified model is known: the same for every model, and so remembered."""
    if not has_plan(task):
        return choose(task, rows, flips, budget)
    most = tuple(most_passes(task, option) for option in task.options)
    digests = hashlib.sha256("".join(task.cache.digests[row] for row in rows).encode()).digest()
    votes = hashlib.sha256(np.ascontiguousarray(task.selection.counts[rows]).tobytes()).digest()
    asked = (task.asked.values(), task.terms, task.samples, task.everyone, task.options, flips, budget, most)
    key = repr((tuple(asked[0]), *asked[1:], digests, votes))
    known = _FIRST_CHOICES.get(key)
    if known is None:
        if len(_FIRST_CHOICES) >= CHOICES_KEPT:
            _FIRST_CHOICES.clear()
        known = _FIRST_CHOICES[key] = choose(task, rows, flips, budget)
    return known


def choose(task: Task, rows: Ints, flips: float, budget: int) -> Choice:
    """An option and passes for each row. Skipped inputs leave their share of the budget to others."""
    if not has_plan(task):
        return Choice(np.zeros(len(rows), dtype=np.int64), np.full(len(rows), task.samples))
    # In the order of their digests: where one of equal inputs gets more, it is the same whatever order they come in.
    order = np.array(sorted(range(len(rows)), key=lambda i: task.cache.digests[rows[i]]), dtype=np.int64)
    beliefs, most = task.beliefs.of(rows[order]), [most_passes(task, option) for option in task.options]
    predictors = [predictor(task, option, flips, each) for option, each in zip(task.options, most, strict=True)]
    if task.objective is None:
        possible = [each >= task.samples for each in most]
        if not any(possible):  # as `check_passes` found, a method allows it; the source says what it lacks
            possible = [option.method.most_passes(task.terms.samples) >= task.samples for option in task.options]
        option = best_option(beliefs, predictors, Objective(), task.samples, possible)
        choice = Choice(option, np.full(len(rows), task.samples))
    else:
        choice = plan_budget(beliefs, predictors, predicted(task.objective), budget, most)
        if task.everyone:
            choice = _for_everyone(task, beliefs, predictors, most, budget)
    back = np.argsort(order)
    return replace(choice, option=choice.option[back], passes=choice.passes[back])


def _for_everyone(
    task: Task, beliefs: Beliefs, predictors: Sequence[RadiusPredictor], most: Sequence[int], budget: float
) -> Choice:
    """The plan with something for each input: at least as many passes as can certify at all."""
    objective = predicted(task.objective or Objective())
    can_certify = smallest_samples_to_certify(task.alpha, sides=CERTIFICATES[task.certificate])
    least = min(max(can_certify, task.samples // SMALLEST_SHARE), max(most))
    possible = [each >= least for each in most]
    return leave_none_out(
        lambda left: plan_budget(beliefs, predictors, objective, left, most), budget, least,
        lambda passes: best_option(beliefs, predictors, Objective(), passes, possible),
    )  # fmt: skip


def most_passes(task: Task, option: Option) -> int:
    """How many passes an input is given at most with an option: of fresh votes any number that the plan may want."""
    existing = min(most_samples(task.source, stream) for stream in option.method.streams)
    wanted = task.samples if task.objective is None else MOST_OF_MEAN * task.samples
    return min(option.method.most_passes(task.terms.samples), existing, wanted)


def predictor(task: Task, option: Option, flips: float, most: int) -> RadiusPredictor:
    """The radius to expect of an option, or the chance that it reaches the plan's. Similar budgets share its tables."""
    larger = MOST_OF_MEAN * 2 ** int(task.samples - 1).bit_length()
    largest = max(most, min(option.method.most_passes(task.terms.samples), larger))
    terms = replace(task.terms, sides=option.sides, flips=flips)
    if task.objective is None or task.objective.radius is None:
        return option.method.expected_radius(terms, largest)
    return option.method.chance(terms, largest, task.objective.radius)


def predicted(objective: Objective) -> Objective:
    """What is made of predictions: radii are worth what they are, and so are chances to reach one."""
    return objective if objective.radius is None else Reached(objective.radius)


def assignments(rows: Ints, classes: Ints, options: Sequence[Option], choice: Choice) -> list[Assignment]:
    """What was chosen for each row. The last options have the bounds that take longest, and come first: their bounds are
    computed while the votes of others are drawn."""
    return [
        Assignment(int(rows[i]), int(classes[rows[i]]), options[choice.option[i]], int(choice.passes[i]))
        for i in np.argsort(-choice.option, kind="stable")
    ]
