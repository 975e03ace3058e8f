"""One budget over many inputs: a Lagrange multiplier, found by bisection."""

import numpy as np
from numpy.typing import NDArray


def allocate(values: NDArray[np.float64], costs: NDArray[np.float64], budget: float) -> NDArray[np.int64]:
    """The option of every input that maximises the sum of values with the sum of costs at most the budget.

    `values` is inputs x options; `costs` options, or inputs x options. Every input takes the option with the largest
    value - price * cost; the price is the smallest at which the budget holds. Then what is left is spent on the best
    steps that still fit. Deterministic. Option 0 should cost nothing.

    >>> allocate(np.array([[0, 1.0, 1.5], [0, 3.0, 3.1]]), np.array([0.0, 10.0, 20.0]), 30).tolist()
    [2, 1]
    """
    costs = np.broadcast_to(costs, values.shape)
    rows = np.arange(len(values))

    def chosen(price: float) -> NDArray[np.int64]:
        return np.asarray(np.argmax(values - price * costs, axis=1))

    if costs[rows, chosen(0.0)].sum() <= budget:
        return chosen(0.0)
    # At the price `high` every input takes option 0, since no other option is worth its cost: the budget holds.
    low, high = 0.0, float(values.max() / max(costs[costs > 0].min(), 1e-12)) + 1.0
    # 60 halvings bring the price to the last digits of a double. At `high` the budget always holds, so that it is the price that is used.
    for _ in range(60):
        price = (low + high) / 2
        low, high = (low, price) if costs[rows, chosen(price)].sum() <= budget else (price, high)
    return _spend_the_rest(values, costs, budget, chosen(high))


def _spend_the_rest(
    values: NDArray[np.float64], costs: NDArray[np.float64], budget: float, choice: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Move single inputs to better options, best gain per cost first, as long as they fit."""
    rows = np.arange(len(values))
    left = budget - costs[rows, choice].sum()
    extra = costs - costs[rows, choice][:, None]
    gain = values - values[rows, choice][:, None]
    # The multiplier leaves something over where one price moves many inputs at once, as with equal inputs.
    rate = np.where((gain > 0) & (extra > 0) & (extra <= left), gain / np.maximum(extra, 1e-12), 0.0)
    best = rate.argmax(axis=1)
    choice = choice.copy()
    for row in np.argsort(-rate[rows, best], kind="stable"):
        if rate[row, best[row]] > 0 and extra[row, best[row]] <= left:
            left -= extra[row, best[row]]
            choice[row] = best[row]
    return choice
