"""Certificates and labels to numbers one publishes. Pure; the first place that sees labels.

A prediction of -1 is an abstention; its radius counts as 0 and it is never right.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def average_certified_radius(predictions: ArrayLike, radii: ArrayLike, labels: ArrayLike) -> float:
    """Mean radius, counting 0 where the prediction is wrong or abstained. Show certified accuracy beside it.

    >>> average_certified_radius([1, 2, -1], [0.5, 0.7, 0.0], [1, 1, 1])
    0.16666666666666666
    """
    right, r = _right(predictions, radii, labels)
    return float(np.mean(np.where(right, r, 0.0)))


def certified_accuracy(predictions: ArrayLike, radii: ArrayLike, labels: ArrayLike, at: ArrayLike) -> Any:
    """Share of inputs predicted right with a radius of at least `at` (a number or an array of them).

    >>> certified_accuracy([1, 2, 1], [0.5, 0.7, 0.1], [1, 1, 1], at=0.5)
    0.3333333333333333
    """
    right, r = _right(predictions, radii, labels)
    # Inputs in the last dimension, radii in those before it, so that one radius and an array of them are the same code.
    shares = np.mean(right & (r >= np.asarray(at, dtype=float)[..., None]), axis=-1)
    return float(shares) if shares.ndim == 0 else shares


def smoothed_accuracy(predictions: ArrayLike, labels: ArrayLike) -> float:
    """Share of inputs predicted right; an abstention is not right."""
    return float(np.mean(_right(predictions, np.zeros(np.size(predictions)), labels)[0]))


def abstention_rate(predictions: ArrayLike) -> float:
    """Share of inputs without a prediction."""
    return float(np.mean(np.asarray(predictions) < 0))


@dataclass(frozen=True)
class Speedup:
    """How many times cheaper one cost-against-ACR curve is than another, or why that has no answer."""

    value: float | None
    reason: str

    def __float__(self) -> float:
        if self.value is None:
            raise ValueError(f"there is no speed-up to state: {self.reason}")
        return self.value

    def __str__(self) -> str:
        return self.reason if self.value is None else f"{self.value:.2f}x"


def speedup_by_area(
    costs: ArrayLike, radii: ArrayLike, baseline_costs: ArrayLike, baseline_radii: ArrayLike
) -> Speedup:
    """Ratio of the areas under cost against ACR, on the ACR range that both curves reach (the paper's text).

    Each curve is given by its points: costs (forward passes or seconds) and the average certified radius they buy.

    >>> float(speedup_by_area([1, 2], [0.4, 0.5], [3, 6], [0.4, 0.5]))
    3.0
    """
    ours, theirs = _curve(costs, radii), _curve(baseline_costs, baseline_radii)
    if ours is None or theirs is None:
        return Speedup(None, _NOTHING_CERTIFIED)
    low, high = max(ours[0][0], theirs[0][0]), min(ours[0][-1], theirs[0][-1])
    if not low < high:
        return Speedup(None, _no_overlap(ours[0], theirs[0]))
    # Both curves are straight between their points: with the points of both, the trapezoids are exact.
    at = np.unique(np.concatenate([[low, high], *(r[(r > low) & (r < high)] for r in (ours[0], theirs[0]))]))
    area, baseline_area = (float(np.trapezoid(np.interp(at, *curve), at)) for curve in (ours, theirs))
    return Speedup(baseline_area / area, f"on the common ACR range {low:.4f} to {high:.4f}")


def speedup_by_ratio(
    costs: ArrayLike, radii: ArrayLike, baseline_costs: ArrayLike, baseline_radii: ArrayLike
) -> Speedup:
    """Mean of (baseline cost / our cost) at 100 evenly spaced ACRs of the range that both curves reach (the authors' code).

    >>> round(float(speedup_by_ratio([1, 2], [0.4, 0.5], [2, 8], [0.4, 0.5])), 3)
    3.225
    """
    ours, theirs = _curve(costs, radii), _curve(baseline_costs, baseline_radii)
    if ours is None or theirs is None:
        return Speedup(None, _NOTHING_CERTIFIED)
    low, high = max(ours[0][0], theirs[0][0]), min(ours[0][-1], theirs[0][-1])
    if not low < high:
        return Speedup(None, _no_overlap(ours[0], theirs[0]))
    at = np.linspace(low, high, _POINTS_OF_THE_AUTHORS)
    ratios = np.interp(at, *theirs) / np.interp(at, *ours)
    return Speedup(float(ratios.mean()), f"mean of {len(at)} ratios on the common ACR range {low:.4f} to {high:.4f}")


def cost_at(radius: float, costs: ArrayLike, radii: ArrayLike) -> float | None:
    """What a curve costs at an ACR, between its points: its first point if that reaches more, None if no point reaches it.

    >>> cost_at(0.5, [200, 1000], [0.4, 0.6]), cost_at(0.3, [200, 1000], [0.4, 0.6]), cost_at(0.7, [200, 1000], [0.4, 0.6])
    (600.0, 200.0, None)
    """
    curve = _curve(costs, radii)
    return None if curve is None or radius > curve[0][-1] else float(np.interp(radius, *curve))


_POINTS_OF_THE_AUTHORS = 100
_NOTHING_CERTIFIED = "no input could be certified: nothing was spent, and nothing reached"


def _curve(costs: ArrayLike, radii: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Points sorted by ACR; of points with one ACR the cheapest. None if no point cost or reached anything."""
    cost, radius = np.asarray(costs, dtype=float), np.asarray(radii, dtype=float)
    if cost.shape != radius.shape or cost.ndim != 1 or not cost.size:
        raise ValueError(f"expected as many costs as ACRs, at least one, got {cost.shape} and {radius.shape}")
    # A budget at which no input could be certified costs nothing and reaches nothing: it is no point of the curve.
    spent = (cost != 0) | (radius != 0)
    cost, radius = cost[spent], radius[spent]
    if not (np.isfinite(cost).all() and np.isfinite(radius).all() and (cost > 0).all()):
        raise ValueError("expected finite ACRs and positive finite costs")
    if not cost.size:
        return None
    # By radius first: lexsort sorts by its last key.
    order = np.lexsort((cost, radius))
    keep = order[np.r_[True, np.diff(radius[order]) > 0]]
    return radius[keep], cost[keep]


def _no_overlap(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> str:
    return f"no common ACR range: {ours[0]:.4f} to {ours[-1]:.4f} against {theirs[0]:.4f} to {theirs[-1]:.4f} of the baseline"


def _right(
    predictions: ArrayLike, radii: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    p, r, y = np.asarray(predictions), np.asarray(radii, dtype=float), np.asarray(labels)
    if not (p.shape == r.shape == y.shape) or p.ndim != 1 or p.size == 0:
        raise ValueError(f"expected one prediction, radius and label per input, got {p.shape}, {r.shape}, {y.shape}")
    return (p == y) & (p >= 0), r
