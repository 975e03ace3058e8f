"""What a re-certification saved: the passes that certifying from scratch needs for the same average certified radius."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recert.report.results import Result
from recert.report.summary import average_radius


@dataclass(frozen=True)
class Gain:
    """Passes that the baseline needs for the same ACR, as measured; `at_least` if even its largest budget falls short."""

    passes: float
    needed: float
    at_least: bool
    radius: float

    @property
    def factor(self) -> float:
        return self.needed / self.passes

    def __str__(self) -> str:
        return f"{'> ' if self.at_least else ''}{self.factor:.1f}×"


def gains(results: Sequence[Result]) -> list[Gain | None]:
    """For each result its gain over the scratch results of the same model, noise, kind of certificate and alpha, if any reach.

    None for a certification by proxy: its votes were not there before, and passes of two networks do not add up. None where
    inputs were decided at radii, too: their average radius says nothing.
    """
    return [
        None
        if _is_scratch(result) or result.is_proxied or result.certificates.settings.at
        else _gain(result, _baseline_of(result, results))
        for result in results
    ]


def gain_over(passes: float, radius: float, costs: Sequence[float], radii: Sequence[float]) -> Gain | None:
    """The gain of one point over a measured curve; None if the curve starts above it.

    >>> str(gain_over(100, 0.5, [200, 1000], [0.4, 0.6]))
    '6.0×'
    >>> str(gain_over(100, 0.7, [200, 1000], [0.4, 0.6]))
    '> 10.0×'
    """
    # A dearer point that reaches less, by chance, is no loss: one can always spend less. So the curve never falls.
    order = np.argsort(costs)
    cost, reached = np.asarray(costs, dtype=float)[order], np.maximum.accumulate(np.asarray(radii, dtype=float)[order])
    if not len(cost) or passes <= 0 or radius < reached[0]:
        return None  # even the cheapest point reaches more: what the same radius would cost was not measured
    if radius > reached[-1]:
        return Gain(passes, float(cost[-1]), True, radius)
    return Gain(passes, float(np.interp(radius, reached, cost)), False, radius)


def context(result: Result) -> tuple[object, ...]:
    """What must be equal for two costs to be comparable at equal radius."""
    s = result.certificates.settings
    return tuple(sorted(s.model.items())), s.noise, s.certificate, s.alpha


def _is_scratch(result: Result) -> bool:
    return (result.is_baseline or result.certificates.settings.method == "certify") and not result.is_proxied


def _baseline_of(result: Result, results: Sequence[Result]) -> list[Result]:
    """Cohen's baseline; the one that is given the cached class only where there is no other."""
    same = [r for r in results if _is_scratch(r) and context(r) == context(result)]
    return [r for r in same if r.certificates.settings.method != "scratch-cached"] or same


def _gain(result: Result, baseline: Sequence[Result]) -> Gain | None:
    costs = [r.certificates.mean_forward_passes for r in baseline]
    radii = [average_radius(r) for r in baseline]
    return gain_over(result.certificates.mean_forward_passes, average_radius(result), costs, radii)
