"""Which option, and how many forward passes, for each input: predicted from its selection votes alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from recert.planning.allocation import allocate
from recert.planning.objective import Objective
from recert.planning.selection import Selection
from recert.planning.tables import TABLE_STEP, RadiusPredictor, between, passes_grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Plans only choose, so that few draws are enough, if they are spread evenly (the additive recurrence with the powers of the
# root of x^4 = x + 1 fills the cube). Radii change smoothly with probabilities; whether one is reached does not.
_ROOT = 1.2207440846057596
_DRAWS = (0.5 + np.arange(1, 13)[:, None] * _ROOT ** -np.arange(1.0, 4.0)) % 1.0
_DRAWS_OF_RADII = 8
_PRIOR = 0.5
"""Jeffreys' prior."""
_KINDS_AT_A_TIME = 256


@dataclass(frozen=True)
class Beliefs:
    """Plausible probabilities of an input's class and runner-up, given its selection votes: kinds of inputs x draws.

    Inputs whose votes say the same of class and runner-up are of one kind. What is believed and expected is worked out for each
    kind once.
    """

    top: Floats
    runner_up: Floats
    kinds: Ints | None = None
    """Of every input, its row; None if row i is about input i."""

    @classmethod
    def from_votes(cls, selection: Selection) -> Self:
        """Draws from the posterior of (class, runner-up, rest) under Jeffreys' prior, the same for the same counts."""
        counts, classes = selection.counts, selection.classes
        rows = np.arange(len(counts))
        rivals = counts.copy()
        rivals[rows, classes] = -1
        top, second = counts[rows, classes], rivals.max(axis=1)
        of_inputs = np.stack([top, second, counts.sum(axis=1) - top - second], axis=1)
        distinct, kinds = _distinct(of_inputs)
        top_shares, second_shares = _believed(distinct.astype(np.int64).tobytes())
        return cls(top_shares, second_shares, kinds)

    @property
    def of_inputs(self) -> Ints:
        """Of every input, its row."""
        return np.arange(len(self.top)) if self.kinds is None else self.kinds

    def of(self, inputs: Ints) -> "Beliefs":
        """About some of the inputs."""
        rows, kinds = np.unique(self.of_inputs[inputs], return_inverse=True)
        return Beliefs(self.top[rows], self.runner_up[rows], kinds)


@lru_cache(maxsize=4)
def _believed(counts: bytes) -> tuple[Floats, Floats]:
    """Draws for distinct counts of class, runner-up and rest. Every use of a cache asks for the same."""
    # The same numbers between 0 and 1 for every input, through the inverse of the gamma distribution: an input's beliefs do not
    # depend on which other inputs there are, or on their order. A Dirichlet vector is a vector of gammas over their sum.
    distinct = np.frombuffer(counts, dtype=np.int64).reshape(-1, 3)
    gammas = np.stack([_gammas(each, draws) for each, draws in zip(distinct.T, _DRAWS.T, strict=True)], axis=2)
    shares = gammas / gammas.sum(axis=2, keepdims=True)
    top, second = shares[..., 0], np.minimum(shares[..., 1], 1 - shares[..., 0])
    for each in (top, second):
        each.flags.writeable = False
    return top, second


def _distinct(counts: Ints) -> tuple[Ints, Ints]:
    """Distinct rows, and which of them each row is."""
    base = int(counts.max(initial=0)) + 1
    _, first, kinds = np.unique(counts @ np.array([base**2, base, 1]), return_index=True, return_inverse=True)
    return counts[first], kinds


def _gammas(counts: Ints, draws: Floats) -> Floats:
    """Gamma variables with the shapes of the posterior: counts x draws. Equal counts are worked out once."""
    distinct, places = np.unique(counts, return_inverse=True)
    return np.asarray(gammaincinv(distinct[:, None] + _PRIOR, draws))[places]


@dataclass(frozen=True)
class Choice:
    """For every input an option (its place in the list of predictors) and a number of forward passes."""

    option: Ints
    passes: Ints
    worth: float = 0.0
    """What the objective is expected to amount to, over all inputs."""


def plan_budget(
    beliefs: Beliefs,
    predictors: Sequence[RadiusPredictor],
    objective: Objective,
    budget: float,
    largest: int | Sequence[int],
) -> Choice:
    """Spend the budget where the objective grows most. No input gets more than `largest` passes, which options may have of their own.

    Inputs of a kind get the same, but for one kind at most that the end of the budget divides: of it the first have the better.
    What the objective has no use for is shared out in proportion: predictions are of the mean, and a flip more than
    expected must not cost an input what it was planned to reach.
    """
    most = np.broadcast_to(largest, len(predictors))
    ends = [end for each in set(most.tolist()) for end in (each, each + 1)]
    passes = _with_ends(passes_grid(int(most.max())), ends)
    # Radii are as smooth as the tables that predict them: straight lines between a few numbers of passes will do.
    nodes = passes if objective.radius is not None else _with_ends(passes_grid(int(most.max()), apart=TABLE_STEP), ends)
    at_nodes, options = _best_values(beliefs, predictors, objective, nodes, most)
    # Column 0: the input is left out. It costs nothing, and is worth nothing.
    values, costs = np.zeros((len(at_nodes), 1 + len(passes))), np.append(0.0, passes)
    values[:, 1:] = between(at_nodes, np.log(nodes), np.log(passes))
    kinds = beliefs.of_inputs
    chosen = allocate(values, costs, budget, kinds)
    given = costs[chosen]
    # Between two of them the option is that of the nearer.
    nearest = np.searchsorted(np.sqrt(nodes[:-1] * nodes[1:]), given)
    option = np.where(chosen == 0, 0, options[kinds, nearest])
    spare = max(1.0, budget / max(given.sum(), 1.0))
    planned = np.minimum(np.floor(given * spare), np.maximum(given, most[option])).astype(np.int64)
    return Choice(option, planned, float(values[kinds, chosen].sum()))


def equal_passes(beliefs: Beliefs, predict: RadiusPredictor, objective: Objective, worth: float, largest: int) -> float:
    """With how many passes for every input one option alone is expected to be worth as much; infinity if it takes more than `largest`."""
    passes = passes_grid(largest)
    values, _ = _best_values(beliefs, [predict], objective, passes, np.array([largest]))
    total = np.maximum.accumulate(np.bincount(beliefs.of_inputs, minlength=len(values)) @ values)
    return float(np.interp(worth, total, passes, left=passes[0], right=np.inf))


def _with_ends(passes: Floats, ends: Sequence[int]) -> Floats:
    """Where an option ends, its last number of passes and the first that it is not for."""
    return np.unique(np.append(passes, [end for end in ends if passes[0] <= end <= passes[-1]]))


def _best_values(
    beliefs: Beliefs, predictors: Sequence[RadiusPredictor], objective: Objective, passes: Floats, most: Ints
) -> tuple[Floats, Ints]:
    """What the best option of each kind of input is worth at each number of passes, and which option that is."""
    best = np.zeros((len(beliefs.top), len(passes)))
    option = np.zeros(best.shape, dtype=np.int64)
    draws = _DRAWS_OF_RADII if objective.radius is None else None
    # Some kinds at a time: predictions of every draw, for all of them together, take hundreds of megabytes.
    for start in range(0, len(best), _KINDS_AT_A_TIME):
        here = slice(start, start + _KINDS_AT_A_TIME)
        top, rival = beliefs.top[here, :draws, None], beliefs.runner_up[here, :draws, None]
        for number, predict in enumerate(predictors):
            columns = max(1, int(np.searchsorted(passes, most[number], side="right")))
            # The mean over draws is taken after the objective: a radius that is reached in half of the draws counts half.
            values = objective.value(predict(top, rival, passes[None, None, :columns])).mean(axis=1)
            better = values > best[here, :columns]
            np.copyto(best[here, :columns], values, where=better)
            np.copyto(option[here, :columns], number, where=better)
    return best, option


def best_option(
    beliefs: Beliefs, predictors: Sequence[RadiusPredictor], objective: Objective, passes: int, possible: Sequence[bool]
) -> Ints:
    """Of the possible options the one that promises most for each input, if every input is given so many passes."""
    at = np.array([float(passes)])
    values = [
        objective.value(predict(beliefs.top, beliefs.runner_up, at)).mean(axis=1)
        if able
        else np.full(len(beliefs.top), -np.inf)
        for predict, able in zip(predictors, possible, strict=True)
    ]
    return np.asarray(np.argmax(np.stack(values, axis=1), axis=1))[beliefs.of_inputs]
