"""Plans that leave no input out: "acr,all" and "accuracy:R,all"."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recert.planning import Choice

ALL = ",all"
SMALLEST_SHARE = 2
"""An input that the plan would leave out is given the mean number of passes divided by this."""
_ROUNDS = 5


def without_all(plan: str) -> tuple[str, bool]:
    """A plan in words, and whether it is to leave no input out.

    >>> without_all("acr,all"), without_all("acr")
    (('acr', True), ('acr', False))
    """
    name = plan.removesuffix(ALL)
    if name != plan and name == "uniform":
        raise ValueError(
            "expected acr,all or accuracy:RADIUS,all, got 'uniform,all'; uniform leaves no input out anyway"
        )
    return name, name != plan


def leave_none_out(
    plan: Callable[[float], Choice], budget: float, least: int, option: Callable[[int], NDArray[np.int64]]
) -> Choice:
    """The choice of a plan for a budget, with at least `least` passes for inputs that it would leave out, from the same budget.

    `option` says which option is the best for each input with so many passes.
    """
    choice = plan(budget)
    left_out = np.count_nonzero(choice.passes == 0)
    # What the others are left with is planned anew, which may leave out a few more: a few rounds settle it.
    for _ in range(_ROUNDS):
        if not left_out:
            return choice
        choice = plan(max(0.0, budget - least * left_out))
        before, left_out = left_out, np.count_nonzero(choice.passes == 0)
        if left_out <= before:
            break
    nothing = choice.passes == 0
    return replace(
        choice, option=np.where(nothing, option(least), choice.option), passes=np.where(nothing, least, choice.passes)
    )
