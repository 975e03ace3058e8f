"""A sweep of budgets over methods: what re-certification saves against certifying from scratch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache
from recert.caching import CachingSource
from recert.certificates import Certificates
from recert.certification import check_settings
from recert.metrics import Speedup, speedup_by_area, speedup_by_ratio
from recert.recertification import recertify
from recert.recertification.methods import run
from recert.recertification.task import Task, usual_alpha
from recert.sampling import ProgressCallback, VoteSource, open_source
from recert.sampling.network import Model

BASELINES = ("scratch", "scratch-cached")
"""Cohen's, charged with its selection votes on all inputs; and one that is given the cached class and the skips."""


@dataclass(frozen=True)
class Curve:
    """Certificates of one method at several budgets, and what they cost in forward passes and seconds per input."""

    name: str
    certificate: str
    budgets: tuple[int, ...]
    results: tuple[Certificates, ...]
    seconds_per_pass: float
    radii: tuple[float, ...]
    """Average certified radius at every budget."""

    @property
    def passes(self) -> tuple[float, ...]:
        return tuple(result.mean_forward_passes for result in self.results)

    @property
    def seconds(self) -> tuple[float, ...]:
        return tuple(passes * self.seconds_per_pass for passes in self.passes)

    def speedups(self, baseline: "Curve") -> dict[str, Speedup]:
        """How much cheaper than a baseline at equal ACR, by both definitions. Passes cost the same, so seconds agree."""
        return {
            "by area": speedup_by_area(self.passes, self.radii, baseline.passes, baseline.radii),
            "by ratio": speedup_by_ratio(self.passes, self.radii, baseline.passes, baseline.radii),
        }


@dataclass(frozen=True)
class Comparison:
    """Curves of the methods, and of the baselines with the same kind of certificate."""

    methods: dict[str, Curve]
    baselines: dict[tuple[str, str], Curve]
    """By name and kind of certificate."""

    @property
    def curves(self) -> list[Curve]:
        return [*self.methods.values(), *self.baselines.values()]

    def baseline(self, name: str, curve: Curve) -> Curve:
        """The baseline that a curve is fairly compared with."""
        return self.baselines[name, curve.certificate]


def compare(
    model: Model | VoteSource,
    inputs: Any,
    cache: Cache,
    labels: NDArray[np.int64],
    *,
    budgets: Sequence[int],
    baseline_budgets: Sequence[int] | None = None,
    methods: Sequence[str] = ("auto",),
    certificate: str | None = None,
    alpha: float | None = None,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
) -> Comparison:
    """Curves of the methods and of both baselines. Every vote is drawn once; costs are as if each run stood alone.

    irs is one-sided, as in the paper, and is compared with one-sided baselines.
    """
    m = cache.manifest
    source = CachingSource(
        open_source(model, inputs, noise=m.gaussian, seed=m.seed, classes=m.classes, batch_size=batch_size)
    )
    kinds = {method: "one-sided" if method == "irs" else certificate or m.certificate for method in methods}

    def certified(method: str, kind: str, samples: int) -> Certificates:
        if method not in BASELINES:
            return recertify(
                source, inputs, cache, samples=samples, alpha=alpha, method=method, certificate=kind, progress=progress
            )
        # What a baseline would have cost is asked, not what it claims: that is no look at the model.
        error = usual_alpha(m) if alpha is None else alpha
        check_settings(samples, 1, error, kind)
        task = Task.of(
            source, cache.about(source.digests), samples=samples, alpha=error, certificate=kind, progress=progress
        )
        return task.for_every_input(run(task, method))

    def curve(method: str, kind: str, sizes: Sequence[int]) -> Curve:
        # The largest first: the smaller ones then draw little.
        results = [certified(method, kind, samples) for samples in sorted(sizes, reverse=True)][::-1]
        radii = tuple(result.average_certified_radius(labels) for result in results)
        return Curve(method, kind, tuple(sorted(sizes)), tuple(results), 0.0, radii)

    ours = {method: curve(method, kind, budgets) for method, kind in kinds.items()}
    pairs = [(name, kind) for kind in dict.fromkeys(kinds.values()) for name in BASELINES]
    theirs = {(name, kind): curve(name, kind, baseline_budgets or budgets) for name, kind in pairs}
    # One price for every pass, taken when all are drawn.
    price = source.seconds_per_pass
    return Comparison(
        {name: replace(c, seconds_per_pass=price) for name, c in ours.items()},
        {key: replace(c, seconds_per_pass=price) for key, c in theirs.items()},
    )
