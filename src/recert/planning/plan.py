"""Which option, and how many forward passes, for each input: predicted from its selection votes alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from recert.planning.allocation import allocate
from recert.planning.objective import Objective
from recert.planning.selection import Selection
from recert.planning.tables import RadiusPredictor, passes_grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Plans only choose, so that few draws are enough: the mean over twelve of them follows the shape of the posterior.
_DRAWS = 12
_INPUTS_AT_A_TIME = 1_024
_PRIOR = 0.5
"""Jeffreys' prior."""


@dataclass(frozen=True)
class Beliefs:
    """Plausible probabilities of an input's class and runner-up, given its selection votes: inputs x draws."""

    top: Floats
    runner_up: Floats

    @classmethod
    def from_votes(cls, selection: Selection) -> Self:
        """Draws from the posterior of (class, runner-up, rest) under Jeffreys' prior, the same for the same counts."""
        counts, classes = selection.counts, selection.classes
        rows = np.arange(len(counts))
        rivals = counts.copy()
        rivals[rows, classes] = -1
        top, second = counts[rows, classes], rivals.max(axis=1)
        rest = counts.sum(axis=1) - top - second
        shapes = np.stack([top, second, rest], axis=1)[:, None, :] + _PRIOR
        # The same uniform numbers for every input, through the inverse of the gamma distribution: an input's beliefs do not depend on
        # which other inputs there are, or on their order. A Dirichlet vector is a vector of gammas over their sum.
        gammas = gammaincinv(shapes, np.random.default_rng(0).random((1, _DRAWS, 3)))
        shares = gammas / gammas.sum(axis=2, keepdims=True)
        return cls(shares[..., 0], np.minimum(shares[..., 1], 1 - shares[..., 0]))

    def of(self, rows: Ints) -> "Beliefs":
        """About some of the inputs."""
        return Beliefs(self.top[rows], self.runner_up[rows])


@dataclass(frozen=True)
class Choice:
    """For every input an option (its place in the list of predictors) and a number of forward passes."""

    option: Ints
    passes: Ints


def plan_budget(
    beliefs: Beliefs,
    predictors: Sequence[RadiusPredictor],
    objective: Objective,
    budget: float,
    largest: int,
) -> Choice:
    """Spend the budget where the objective grows most. No input gets more than `largest` passes.

    What the objective has no use for is shared out in proportion: predictions are of the mean, and a flip more than
    expected must not cost an input what it was planned to reach.
    """
    passes = passes_grid(largest)
    # Column 0: the input is left out. It costs nothing, and is worth nothing.
    table = np.zeros((len(beliefs.top), 1 + len(passes) * len(predictors)))
    # Some inputs at a time: predictions of every draw, for all inputs together, take hundreds of megabytes.
    for start in range(0, len(table), _INPUTS_AT_A_TIME):
        here = slice(start, start + _INPUTS_AT_A_TIME)
        top, rival = beliefs.top[here, :, None], beliefs.runner_up[here, :, None]
        # The mean over draws is taken after the objective: a radius that is reached in half of the draws counts half.
        values = [objective.value(predict(top, rival, passes[None, None, :])).mean(axis=1) for predict in predictors]
        table[here, 1:] = np.concatenate(values, axis=1)
    costs = np.concatenate([[0.0], *(passes for _ in predictors)])
    chosen = allocate(table, costs, budget)
    option = np.where(chosen == 0, 0, (chosen - 1) // len(passes))
    given = costs[chosen]
    spare = max(1.0, budget / max(given.sum(), 1.0))
    return Choice(option, np.minimum(np.floor(given * spare), np.maximum(given, largest)).astype(np.int64))


def best_option(beliefs: Beliefs, predictors: Sequence[RadiusPredictor], objective: Objective, passes: Ints) -> Ints:
    """The option that promises most for each input at the passes it is given."""
    at = passes.astype(float)[:, None]
    values = [objective.value(predict(beliefs.top, beliefs.runner_up, at)).mean(axis=1) for predict in predictors]
    return np.asarray(np.argmax(np.stack(values, axis=1), axis=1))
