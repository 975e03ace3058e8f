"""A plan for certifying anew: how many votes bound each input, by its selection votes alone."""

import numpy as np
from numpy.typing import NDArray

from recert.noise import Noise
from recert.planning.chances import FreshVotesChances
from recert.planning.objective import Objective, Reached
from recert.planning.plan import Beliefs, plan_budget
from recert.planning.selection import Selection
from recert.planning.tables import fresh_votes_table

Ints = NDArray[np.int64]

MOST_OF_MEAN = 32
"""No input gets more than a few times the mean: where all votes agree, a radius grows with the logarithm of their number only."""


def votes_to_bound(
    selection: Selection, objective: Objective, *, mean: int, alpha: float, sides: int, noise: Noise, most: int
) -> Ints:
    """How many estimation votes each input gets: `mean` on average, where the objective grows most, and none above `most`.

    Where the budget ends among inputs of equal counts the first of them have more.
    """
    largest = min(MOST_OF_MEAN * mean, most)
    radius = fresh_votes_table(alpha / sides, noise, largest).radius(sides)
    beliefs, budget = Beliefs.from_votes(selection), float(mean) * len(selection.counts)
    if objective.radius is None:
        return plan_budget(beliefs, [radius], objective, budget, largest).passes
    chance = FreshVotesChances(objective.radius, radius)
    return plan_budget(beliefs, [chance], Reached(objective.radius), budget, largest).passes
