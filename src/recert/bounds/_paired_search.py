"""The compiled search behind `paired_lower`: the largest probability to lose the class that Fisher's region allows.

Letters of the mathematics, each a probability that a vote goes against the class: x that f's does, y that f^p's
does where f's did not, z that f^p's does where f's did. To be bounded from above is (1 - x) y + x z over the
region cost(x) + cost(y) + cost(z) <= budget, where each cost is -ln P(Bin(m, .) <= j) with counts of its own.
"""

import math
from typing import NamedTuple

import numpy as np

from recert.bounds._binomial_tails import point_probability, upper_tail
from recert.compiled import compiled

_MOST_CELLS = 1000  # then the search stops with a valid but looser bound
_ROUNDING = 1e-10  # relative margin for rounding: a hundred times what the tests allow against 50-digit sums


class Votes(NamedTuple):
    """j of m votes went against the class; at a probability above `most` their cost alone exceeds the budget."""

    j: int
    m: int
    most: float


class Region(NamedTuple):
    budget: float
    x: Votes
    y: Votes
    z: Votes


@compiled
def cost_and_slopes(votes: Votes, at: float) -> tuple[float, float, float]:
    """-ln P(Bin(m, at) <= j) and its first two derivatives.

    The cost is convex: the tail of a beta density with parameters of at least 1 is log-concave (Prekopa, 1973).
    """
    j, m, _ = votes
    if j >= m:
        return 0.0, 0.0, 0.0
    if at <= 0.0:
        return 0.0, float(m) if j == 0 else 0.0, 0.0
    if j + 1 > m * at:
        more = upper_tail(j + 1, m, at)
        tail, cost = 1.0 - more, -math.log1p(-more)
    else:
        tail = upper_tail(m - j, m, 1.0 - at)
        cost = -math.log(tail)
    slope = (m - j) * point_probability(j, m, at) / ((1.0 - at) * tail)
    return cost, slope, slope * (slope + j / at - (m - j - 1) / (1.0 - at))


@compiled
def _maximizer(votes: Votes, weight: float, price: float, guess: float) -> float:
    """About the t that maximizes weight t - price cost(t) over 0 <= t <= most."""
    if votes.j >= votes.m:
        return votes.most
    if weight <= 0.0:
        return 0.0
    if votes.j == 0:  # cost(t) = -m ln(1 - t)
        return min(max(0.0, 1.0 - price * votes.m / weight), votes.most)
    low, high, t = 0.0, votes.most, min(guess, votes.most)
    for _ in range(60):
        _, slope, curvature = cost_and_slopes(votes, t)
        missing = weight - price * slope
        if abs(missing) <= 1e-8 * weight or (missing > 0 and t == votes.most):
            return t
        low, high = (t, high) if missing > 0 else (low, t)
        # Newton's method on logarithms: the slope is nearly a power of t.
        t = t * (weight / (price * slope)) ** (slope / (curvature * t)) if slope > 0.0 and curvature > 0.0 else 0.0
        if t >= high == votes.most:
            t = votes.most
        elif not low < t < high:
            t = (low + high) / 2
    return low  # neighbouring floats: from the lower one, the tangent has only to reach up to `most`


@compiled
def _conjugate(votes: Votes, weight: float, price: float, guess: float) -> tuple[float, float, float, float]:
    """Upper bound on weight t - price cost(t) over 0 <= t <= most; about the best t; its cost; -d cost / d ln price.

    The value is concave in t, so its tangent at any t is a bound everywhere, however good the maximizer is.
    """
    t = _maximizer(votes, weight, price, guess)
    cost, slope, curvature = cost_and_slopes(votes, t)
    missing = weight - price * slope
    bound = weight * t - price * cost + max(missing * (votes.most - t), -missing * t)
    response = slope * slope / curvature if curvature > 0.0 and 0.0 < t < votes.most else 0.0
    return bound, t, cost, response


@compiled
def _bound_cell(
    region: Region, left: float, right: float, price: float, y: float, z: float
) -> tuple[float, float, float, float, float]:
    """Upper bound on the loss for left <= x <= right, the same for x in the middle, and the (price, y, z) used.

    Weak duality: for every price >= 0 and every (y, z) that the region allows with x, the loss is at most
    price (budget - cost(x)) + max_y [(1 - x) y - price cost(y)] + max_z [x z - price cost(z)].
    The maxima are convex in x and lie below their chords; -cost(x) is concave and lies below its tangent.
    """
    middle = (left + right) / 2
    cost, slope, _ = cost_and_slopes(region.x, middle)
    at_middle, low, high = 1.0, 0.0, math.inf
    for _ in range(40):  # find the price at which the budget is just spent; any other price is valid, but looser
        bound_y, y, cost_y, response_y = _conjugate(region.y, 1.0 - middle, price, y)
        bound_z, z, cost_z, response_z = _conjugate(region.z, middle, price, z)
        at_middle = min(at_middle, price * (region.budget - cost) + bound_y + bound_z)
        overspent = cost + cost_y + cost_z - region.budget
        if abs(overspent) <= 1e-3 or high - low < 1e-9 * high < math.inf:
            break
        low, high = (price, high) if overspent > 0 else (low, price)
        response = max(response_y + response_z, abs(overspent))  # at most one unit of ln price at a time
        price *= math.exp(overspent / response)
        if not low < price < high:
            price = (low + high) / 2
    bound, size = 0.0, 1.0 + price * (region.budget + slope * (right - left))
    for x in (left, right):
        bound_y, _, _, _ = _conjugate(region.y, 1.0 - x, price, y)
        bound_z, _, _, _ = _conjugate(region.z, x, price, z)
        bound = max(bound, price * (region.budget - cost - slope * (x - middle)) + bound_y + bound_z)
    return bound + _ROUNDING * size, at_middle, price, y, z


@compiled
def largest_loss(region: Region, tolerance: float) -> float:
    """Upper bound on the largest (1 - x) y + x z in the region: halve the worst cell until its bound is tight."""
    cells = np.empty((_MOST_CELLS + 1, 6))  # left, right, bound, price, y, z
    cells[0] = (0.0, region.x.most, 1.0, 1.0 / region.y.m, _share(region.y), _share(region.z))
    count, worst, attained = 1, 0, 0.0
    while cells[worst, 2] > attained + tolerance and count < _MOST_CELLS:
        left, right, _, price, y, z = cells[worst]
        if right - left < 1e-13:  # rounding is all that is left to gain
            break
        middle = (left + right) / 2
        for target, u, v in ((worst, left, middle), (count, middle, right)):
            bound, at_middle, price, y, z = _bound_cell(region, u, v, price, y, z)
            cells[target] = (u, v, bound, price, y, z)
            attained = max(attained, at_middle)
        count += 1
        worst = int(np.argmax(cells[:count, 2]))
    return min(1.0, float(cells[worst, 2]))


@compiled
def _share(votes: Votes) -> float:
    return (votes.j + 1.0) / (votes.m + 1.0)
