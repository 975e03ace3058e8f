"""The methods by name, and how each input's share of the budget is found and spent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Certificates, Outcome
from recert.noise import Stream
from recert.planning import Beliefs, Choice, Objective, RadiusPredictor, best_option, parse_plan, plan_budget
from recert.recertification.draws import Draws
from recert.recertification.irs import irs_draws, irs_radius, proved_error, split_alpha
from recert.recertification.joint import joint_draws, joint_radius, joint_two_sided_draws, joint_two_sided_radius
from recert.recertification.ledger import Ledger
from recert.recertification.paired import paired_draws, paired_radius, paired_two_sided_draws, paired_two_sided_radius
from recert.recertification.scratch import scratch_draws, scratch_radius, select_anew
from recert.recertification.series import (
    FEW_FLIPS,
    series_draws,
    series_radius,
    series_two_sided_draws,
    series_two_sided_radius,
)
from recert.recertification.task import Task

Ints = NDArray[np.int64]

_MOST_OF_MEAN = 32
ROWS_AT_ONCE = 512
"""Inputs whose replays are drawn and in memory together: many enough for full batches, few enough for any number of inputs."""
PILOT_SHARE = 8
"""One input in so many is done first; flips on these tell what to expect on the others."""
PILOT_FLIPS = 0.01
"""What to expect on these: so few that nothing is lost if there are none, but bounds that fall with every flip are not chosen."""


@dataclass(frozen=True)
class Option:
    """One way to bound inputs. `draws` says which votes it wants; `expect` predicts the radius, given the rate of flips."""

    name: str
    draws: Callable[[Task, Ledger, Ints, Ints, float], list[Draws[Any]]]
    expect: Callable[[Task, float, int], RadiusPredictor]


def _without_flips(
    draws: Callable[[Task, Ledger, Ints, Ints], list[Draws[Any]]],
) -> Callable[[Task, Ledger, Ints, Ints, float], list[Draws[Any]]]:
    return lambda task, ledger, rows, passes, _: draws(task, ledger, rows, passes)


_SERIES = Option("series", _without_flips(series_draws), series_radius)
_SERIES_TWO = Option("series", _without_flips(series_two_sided_draws), series_two_sided_radius)
_FEW_FLIPS = Option(
    "few-flips",
    _without_flips(partial(series_draws, bound_name=FEW_FLIPS)),
    partial(series_radius, bound_name=FEW_FLIPS),
)
_FEW_FLIPS_TWO = Option(
    "few-flips",
    _without_flips(partial(series_two_sided_draws, bound_name=FEW_FLIPS)),
    partial(series_two_sided_radius, bound_name=FEW_FLIPS),
)
_PAIRED = Option("paired", paired_draws, paired_radius)
_PAIRED_TWO = Option("paired", paired_two_sided_draws, paired_two_sided_radius)
_JOINT = Option("joint", joint_draws, joint_radius)
_JOINT_TWO = Option("joint", joint_two_sided_draws, joint_two_sided_radius)
_IRS = Option("irs", _without_flips(irs_draws), irs_radius)
_SCRATCH = Option("scratch-cached", _without_flips(scratch_draws), scratch_radius)

# With the runner-up, an input may still be bounded by its class alone if that promises more: both are Theorem 1.
OPTIONS: dict[str, dict[str, Sequence[Option]]] = {
    "auto": {
        "one-sided": (_SERIES, _FEW_FLIPS, _JOINT, _SCRATCH),
        "two-sided": (_SERIES, _SERIES_TWO, _FEW_FLIPS, _FEW_FLIPS_TWO, _JOINT, _JOINT_TWO, _SCRATCH),
    },
    "series": {"one-sided": (_SERIES,), "two-sided": (_SERIES, _SERIES_TWO)},
    "paired": {"one-sided": (_PAIRED,), "two-sided": (_PAIRED, _PAIRED_TWO)},
    "joint": {"one-sided": (_JOINT,), "two-sided": (_JOINT, _JOINT_TWO)},
    "irs": {"one-sided": (_IRS,)},
    "scratch": {"one-sided": (_SCRATCH,), "two-sided": (_SCRATCH,)},
    "scratch-cached": {"one-sided": (_SCRATCH,), "two-sided": (_SCRATCH,)},
}
METHODS = tuple(OPTIONS)
_LARGEST_SHARE = {"irs": 1.0, "scratch": np.inf, "scratch-cached": np.inf}
"""Of the cached votes, how many an input may be given at most; half of them where not said."""


def most_passes(method: str, cached_samples: int) -> int:
    """How many forward passes an input is given at most."""
    return int(min(_LARGEST_SHARE.get(method, 0.5) * cached_samples, 2**31))


def check_passes(method: str, passes: int, cached_samples: int) -> None:
    """ValueError if every input is to be given more passes than the method may replay."""
    largest = most_passes(method, cached_samples)
    if passes > largest:
        raise ValueError(
            f"expected at most {largest} samples for method {method!r} and a cache of {cached_samples} votes per input, "
            f"got {passes}; ask for fewer, or extend the cache by certifying with more"
        )


def usual_objective(method: str) -> Objective | None:
    """What a budget is shared out for unless told: our methods plan, the paper's and the baselines give every input the same."""
    return parse_plan("acr" if method in ("auto", "series", "paired", "joint") else "uniform")


def run(task: Task, method: str) -> Certificates:
    """Choose from the selection votes, spend, bound."""
    try:
        return _run(task, method)
    finally:
        task.background.stop()


def _run(task: Task, method: str) -> Certificates:
    if task.certificate not in OPTIONS[method]:
        raise ValueError(
            f"expected certificate='one-sided' with method={method!r}, as in the paper, got {task.certificate!r}"
        )
    ledger = Ledger.empty(task.classes.copy(), method)
    rows = np.arange(len(task.positions))
    if method == "scratch":
        select_anew(task, ledger, rows)
    else:
        rows = rows[task.base(split_alpha(task)[0] if method == "irs" else task.alpha).certified]
    options = OPTIONS[method][task.certificate]
    if Stream.FRESH not in task.source.streams and len(options) > 1:
        options = [option for option in options if option is not _SCRATCH]
    budget = task.samples * len(task.positions)
    pilot = _pilot(task, rows) if len(options) > 1 or task.objective is not None else rows
    choice = _plan(task, method, options, rows, PILOT_FLIPS, budget)
    carry_out(task, ledger, options, pilot, _only(choice, np.isin(rows, pilot)), PILOT_FLIPS)
    others = np.setdiff1d(rows, pilot)
    if len(others):
        flips = _flips(task, ledger, pilot)
        choice = _plan(task, method, options, others, flips, budget - int(ledger.forward_passes[pilot].sum()))
        carry_out(task, ledger, options, others, choice, flips)
    task.background.finish()
    return ledger.certificates(task, method, error=proved_error(task) if method == "irs" else None)


def _only(choice: Choice, chosen: NDArray[np.bool_] | Ints) -> Choice:
    return Choice(choice.option[chosen], choice.passes[chosen])


def carry_out(task: Task, ledger: Ledger, options: Sequence[Option], rows: Ints, choice: Choice, flips: float) -> None:
    """Carry out what was chosen for some rows."""
    # Also where the cache turns out to have too few noises of a kind for what was chosen.
    ledger.otherwise[rows] = np.where(
        choice.passes > 0, Outcome.TRANSFER_TOO_WEAK.value, Outcome.LEFT_OUT_BY_PLAN.value
    )
    # The last are the first here: their bounds take longest, and are computed while the others are drawn.
    order = np.argsort(-choice.option, kind="stable")
    order = order[choice.passes[order] > 0]
    for start in range(0, len(order), ROWS_AT_ONCE):
        now = order[start : start + ROWS_AT_ONCE]
        _draw_and_bound(task, _wanted(task, ledger, options, rows[now], _only(choice, now), flips))


def _wanted(
    task: Task, ledger: Ledger, options: Sequence[Option], rows: Ints, choice: Choice, flips: float
) -> list[Draws[Any]]:
    """What the options want to be drawn for the rows that each was chosen for, the last option first."""
    wanted: list[Draws[Any]] = []
    for number in np.unique(choice.option)[::-1]:
        mine = choice.option == number
        if len(options) > 1:
            ledger.method[rows[mine]] = options[number].name
        wanted += options[number].draws(task, ledger, rows[mine], choice.passes[mine], flips)
    return wanted


def _draw_and_bound(task: Task, wanted: Sequence[Draws[Any]]) -> None:
    """One draw for all: each on its own would pad its last batch, and leave a device idle before the next."""
    drawn = task.draw([work for each in wanted for work in task.works(each.rows, each.stream, each.noises)])
    for each in wanted:
        task.background.bound(starmap(each.enter, enumerate(islice(drawn, len(each.rows)))), each.bound)
    left = list(drawn)  # nothing, but only a source that is asked for more comes to its end
    assert not left


def _plan(task: Task, method: str, options: Sequence[Option], rows: Ints, flips: float, budget: int) -> Choice:
    """An option and passes for each row. Skipped inputs leave their share of the budget to others."""
    largest = most_passes(method, task.cached_samples)
    if task.objective is None:
        check_passes(method, task.samples, task.cached_samples)
    passes = np.full(len(rows), task.samples)
    if task.objective is None and len(options) == 1:
        return Choice(np.zeros(len(rows), dtype=np.int64), passes)
    # No plan gives an input more than a few times the mean; smaller tables are sooner made.
    largest = min(largest, task.cached_samples, _MOST_OF_MEAN * task.samples)
    beliefs = Beliefs(task.beliefs.top[rows], task.beliefs.runner_up[rows])
    expected = [option.expect(task, flips, largest) for option in options]
    if task.objective is None:
        return Choice(best_option(beliefs, expected, Objective(), passes), passes)
    return plan_budget(beliefs, expected, task.objective, budget, largest)


def _pilot(task: Task, rows: Ints) -> Ints:
    """Some rows, spread evenly by their digests, which know nothing of votes."""
    order = sorted(rows.tolist(), key=lambda row: task.cache.digests[row])
    return np.array(sorted(order[::PILOT_SHARE]), dtype=np.int64)


def _flips(task: Task, ledger: Ledger, rows: Ints) -> float:
    """Losses per replay, relative to the share of votes that the class does not have: see `Circumstances`."""
    split = 1 - (task.selection[rows, task.classes[rows]] + 0.5) / (task.selection[rows].sum(axis=1) + 1.0)
    replayed_top = ledger.kept[rows] + ledger.lost[rows]
    at_risk = float((replayed_top * split).sum())
    # One digit is enough to plan with, and lets tables be used again.
    return float(f"{ledger.lost[rows].sum() / at_risk:.1g}") if at_risk else 0.0
