"""A sweep of budgets over methods: what re-certification saves against certifying from scratch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache
from recert.certificates import Certificates
from recert.metrics import Speedup, speedup_by_area, speedup_by_ratio
from recert.recertification import recertify
from recert.sampling import ProgressCallback, RememberingSource, StoredVotes, open_source
from recert.sampling.network import Model

BASELINES = ("scratch", "scratch-cached")
"""Cohen's, charged with its selection votes on all inputs; and one that is given the cached class and the skips."""


@dataclass(frozen=True)
class Curve:
    """Certificates of one method at several budgets, and what they cost in forward passes and seconds per input."""

    method: str
    budgets: tuple[int, ...]
    results: tuple[Certificates, ...]
    passes: tuple[float, ...]
    seconds: tuple[float, ...]
    radii: tuple[float, ...]
    """Average certified radius at every budget."""

    def speedups(self, baseline: "Curve") -> dict[str, Speedup]:
        """How much cheaper than a baseline at equal ACR, by both definitions and in both currencies."""
        return {
            "by area": speedup_by_area(self.passes, self.radii, baseline.passes, baseline.radii),
            "by ratio": speedup_by_ratio(self.passes, self.radii, baseline.passes, baseline.radii),
        }


def compare(
    model: Model | StoredVotes,
    inputs: Any,
    cache: Cache,
    labels: NDArray[np.int64],
    *,
    budgets: Sequence[int],
    baseline_budgets: Sequence[int] | None = None,
    methods: Sequence[str] = ("auto",),
    alpha: float | None = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> dict[str, Curve]:
    """Curves of the methods and of both baselines. Every vote is drawn once; costs are as if each run stood alone."""
    m = cache.manifest
    source = RememberingSource(
        open_source(
            model, inputs, noise=m.gaussian, seed=m.seed, classes=m.classes, batch_size=options.pop("batch_size", None)
        )
    )
    sweeps = dict.fromkeys(methods, budgets)
    sweeps |= dict.fromkeys(BASELINES, baseline_budgets or budgets)
    curves = {}
    for method, sizes in sweeps.items():
        results = [
            recertify(source, inputs, cache, samples=n, alpha=alpha, method=method, progress=progress, **options)
            for n in sorted(sizes, reverse=True)  # the largest first: the smaller ones then draw nothing
        ][::-1]
        passes = tuple(result.mean_forward_passes for result in results)
        curves[method] = Curve(
            method,
            tuple(sorted(sizes)),
            tuple(results),
            passes,
            tuple(p * source.seconds_per_pass for p in passes),
            tuple(result.average_certified_radius(labels) for result in results),
        )
    return curves
