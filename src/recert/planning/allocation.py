"""One budget over many inputs: a Lagrange multiplier, found by bisection."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def allocate(values: Floats, costs: Floats, budget: float, kinds: Ints | None = None) -> Ints:
    """The option of every input that maximises the sum of values with the sum of costs at most the budget.

    `values` is kinds of inputs x options, `kinds` the row of every input (row i is about input i unless given); `costs` options, or
    kinds x options. Every kind takes the option with the largest value - price * cost; the price is the smallest at
    which the budget holds. Then what is left is spent on the best steps that still fit, input by input: where it does not
    last for all inputs of a kind, the first of them have the step. Deterministic. Option 0 should cost nothing.

    >>> allocate(np.array([[0, 1.0, 1.5], [0, 3.0, 3.1]]), np.array([0.0, 10.0, 20.0]), 30).tolist()
    [2, 1]
    >>> allocate(np.array([[0, 1.0, 1.5]]), np.array([0.0, 10.0, 20.0]), 50, np.array([0, 0, 0])).tolist()
    [2, 2, 1]
    """
    kinds = np.arange(len(values)) if kinds is None else kinds
    inputs = np.bincount(kinds, minlength=len(values))
    costs = np.broadcast_to(costs, values.shape)
    choice = _at_lowest_price(values, costs, budget, inputs)
    better, moved = _spend_the_rest(values, costs, budget, choice, inputs)
    return np.where(_places_within(kinds, inputs) < moved[kinds], better[kinds], choice[kinds])


def _at_lowest_price(values: Floats, costs: Floats, budget: float, inputs: Ints) -> Ints:
    """The option of each kind at the smallest price at which the budget holds."""
    rows = np.arange(len(values))
    # Costs fall as the price rises. So what a kind takes at both ends of the bracket it takes everywhere between.
    at_low, at_high = values.argmax(axis=1), np.zeros(len(values), dtype=np.int64)
    if (costs[rows, at_low] * inputs).sum() <= budget:
        return np.asarray(at_low)
    # At the price `high` every input takes option 0, since no other option is worth its cost.
    high = float((values / np.maximum(costs, 1e-300)).max(where=costs > 0, initial=1e-300)) * (1 + 1e-9)
    low = high * 1e-15
    same_costs = costs.strides[0] == 0
    # 60 halvings of the ratio bring the price to the last digits of a double. At `high` the budget always holds, and it is used.
    for _ in range(60):
        price = float(np.sqrt(low * high))
        undecided = np.flatnonzero(at_low != at_high)
        choice = at_high.copy()
        of_these = costs[:1] if same_costs else costs[undecided]
        choice[undecided] = (values[undecided] - price * of_these).argmax(axis=1)
        if (costs[rows, choice] * inputs).sum() <= budget:
            high, at_high = price, choice
        else:
            low, at_low = price, choice
    return at_high


def _spend_the_rest(values: Floats, costs: Floats, budget: float, choice: Ints, inputs: Ints) -> tuple[Ints, Ints]:
    """Single inputs are moved to better options, best gain per cost first, as long as they fit: where to, and how many of each kind."""
    rows = np.arange(len(values))
    left = budget - (costs[rows, choice] * inputs).sum()
    extra = costs - costs[rows, choice][:, None]
    gain = values - values[rows, choice][:, None]
    # The multiplier leaves something over where one price moves many inputs at once, as with equal inputs.
    rate = np.where((gain > 0) & (extra > 0) & (extra <= left), gain / np.maximum(extra, 1e-12), 0.0)
    better = rate.argmax(axis=1)
    rate, extra = rate[rows, better], extra[rows, better]
    moved = np.zeros(len(values), dtype=np.int64)
    for row in np.argsort(-rate, kind="stable")[: np.count_nonzero(rate)]:
        moved[row] = min(inputs[row], left // extra[row])
        left -= moved[row] * extra[row]
    return better, moved


def _places_within(kinds: Ints, inputs: Ints) -> Ints:
    """Of every input, how many of its kind come before it."""
    order = np.argsort(kinds, kind="stable")
    places = np.empty(len(kinds), dtype=np.int64)
    places[order] = np.arange(len(kinds)) - np.repeat(np.cumsum(inputs) - inputs, inputs)
    return places
