"""What wrong votes that an audit cannot exclude could be worth: the certified radius that survives the worst of them."""

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache
from recert.certificates import claim_one_sided, claim_two_sided
from recert.noise import Stream

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STEPS = 200
"""Numbers of wrong votes that are tried, geometrically spaced; between two of them the larger loss is assumed."""
PRICES = 400
"""Prices of a vote that are tried. The bound holds at each of them; more prices make it tighter by less and less."""


def surviving_radii(cache: Cache, counted: NDArray[np.bool_], *, wrong_selection: int, wrong_estimation: int) -> float:
    """Sum of the radii of the counted inputs, at least, had so many votes been wrong, wherever they would cost most radius.

    A wrong estimation vote may have been taken from the largest rival and given to the class. Half of an input's lead in
    selection votes, if wrong, may have made it choose another class. Both losses are bounded on their own.
    """
    radius = np.where(counted, cache.certificates.radius, 0.0)
    lost_in_choice = _largest_loss(*_choice(cache, radius), wrong_selection)
    lost_in_count = _largest_loss(*_count(cache, counted), wrong_estimation)
    return max(0.0, float(radius.sum() - lost_in_choice - lost_in_count))


def _choice(cache: Cache, radius: Floats) -> tuple[Ints, Floats]:
    """Two options per input: nothing, or enough wrong selection votes to lose all of its radius."""
    ranked = np.sort(cache.counts(Stream.SELECTION), axis=1)
    # A wrong vote moves one vote from the rival to the class: it changes their distance by two.
    cost = np.maximum(1, (ranked[:, -1] - ranked[:, -2] + 1) // 2)
    nothing = np.zeros_like(cost)
    return np.stack([nothing, cost], axis=1), np.stack([radius, np.zeros_like(radius)], axis=1)


def _count(cache: Cache, counted: NDArray[np.bool_]) -> tuple[Ints, Floats]:
    """Options per input: up to so many wrong estimation votes, and the radius that is left."""
    m = cache.manifest
    steps = np.unique(np.concatenate([[0], np.geomspace(1, m.samples, STEPS).astype(np.int64)]))
    estimation = cache.counts(Stream.ESTIMATION)
    rows = np.arange(len(estimation))
    top = cache.counts(Stream.SELECTION).argmax(axis=1)
    votes = np.maximum(0, estimation[rows, top][:, None] - steps)
    rivals = estimation.copy()
    rivals[rows, top] = 0
    rival = np.minimum(m.samples - votes, rivals.max(axis=1)[:, None] + steps)
    classes = np.repeat(top, len(steps))
    if m.certificate == "two-sided":
        claims = claim_two_sided(classes, votes.ravel(), rival.ravel(), m.samples, m.alpha, m.noise)
    else:
        claims = claim_one_sided(classes, votes.ravel(), m.samples, m.alpha, m.noise)
    left = np.where(claims.prediction >= 0, claims.radius, 0.0).reshape(votes.shape)
    # Between two steps the radius of the larger one is assumed, from one vote more than the smaller on: never too much is left.
    cost = np.concatenate([[0], steps[:-1] + 1])
    return np.broadcast_to(cost, votes.shape), np.where(counted[:, None], left, 0.0)


def _largest_loss(cost: Ints, left: Floats, budget: int) -> float:
    """The sum of radii that can be lost for a budget, at most (inputs x options); the first option costs nothing.

    For every price of a vote, Lagrange's bound holds; the best of many prices is returned.
    """
    whole = left[:, 0]
    if budget <= 0 or not whole.any():
        return 0.0
    # Beyond the largest loss per vote no input would lose anything, and the bound would only grow with the price.
    losses, costs = whole[:, None] - left, np.maximum(cost, 1)
    highest = (losses / costs).max()
    prices = np.concatenate([[0.0], np.geomspace(highest * 1e-9, highest, PRICES)])
    return float(min((losses - price * cost).max(axis=1).sum() + price * budget for price in prices))
