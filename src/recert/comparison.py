"""A sweep of budgets over methods: what re-certification saves against certifying from scratch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recert.cache import Cache
from recert.caching import CachingSource
from recert.certificates import Certificates
from recert.certification import check_settings
from recert.engines import Execution, chosen_execution, open_votes
from recert.keeping import Keep, Keeping
from recert.metrics import Speedup, speedup_by_area, speedup_by_ratio
from recert.models.calibrated import warn_of_calibration
from recert.progress import shown
from recert.recertification import Strategy, method_named, recertify
from recert.recertification.run import run
from recert.recertification.task import Task, usual_alpha
from recert.sampling import ProgressCallback, ShowProgress, VoteSource
from recert.sampling.gathering import gathered
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
    drawn: int = 0
    """Forward passes that were made for all curves; others had been made before, and were kept."""

    @property
    def curves(self) -> list[Curve]:
        return [*self.methods.values(), *self.baselines.values()]

    def baseline(self, name: str, curve: Curve) -> Curve:
        """The baseline that a curve is fairly compared with."""
        return self.baselines[name, curve.certificate]


def compare(
    model: Model | VoteSource,
    inputs: Any,
    cache: Cache | str | os.PathLike[str],
    labels: NDArray[np.int64],
    *,
    budgets: Sequence[int],
    baseline_budgets: Sequence[int] | None = None,
    methods: Sequence[str | Strategy] = ("auto",),
    certificate: str | None = None,
    alpha: float | None = None,
    keep: Keep = True,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ShowProgress = None,
) -> Comparison:
    """Curves of the methods and of both baselines. Every vote is drawn once; costs are as if each run stood alone.

    Methods that offer one-sided certificates only, such as irs, are compared with one-sided baselines. Votes are kept as
    `recertify` keeps them, and what it kept is not drawn again.
    """
    if isinstance(methods, str):
        raise ValueError(f"expected a list of methods, got the text {methods!r}; write methods=[{methods!r}]")
    cache = cache if isinstance(cache, Cache) else Cache.open(cache)
    m = cache.manifest
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    wanted = certificate or m.certificate
    ours_by_name = {method.name: method for method in map(method_named, methods)}
    offered = {name: method.certificates for name, method in ours_by_name.items()}
    kinds = {name: wanted if wanted in kinds else kinds[0] for name, kinds in offered.items()}
    pairs = [(name, kind) for kind in dict.fromkeys(kinds.values()) for name in BASELINES]
    keeping = Keeping(cache, keep)
    with (
        shown(chosen.progress) as show,
        open_votes(
            model,
            gathered(inputs),
            noise=m.noise,
            seed=m.seed,
            classes=m.classes,
            execution=chosen,
            batches=cache.batches,
        ) as votes,
        keeping.caching(votes) as source,
    ):
        warn_of_calibration(model, votes.digests, stacklevel=2)
        sweep = _Sweep(source, cache, labels, alpha, show)
        ours = {name: sweep.curve(ours_by_name[name], kind, budgets) for name, kind in kinds.items()}
        theirs = {
            (name, kind): sweep.curve(method_named(name), kind, baseline_budgets or budgets) for name, kind in pairs
        }
    # One price for every pass, taken when all are drawn.
    price = source.seconds_per_pass
    return Comparison(
        {name: replace(c, seconds_per_pass=price) for name, c in ours.items()},
        {key: replace(c, seconds_per_pass=price) for key, c in theirs.items()},
        drawn=source.forward_passes,
    )


@dataclass(frozen=True)
class _Sweep:
    """Certificates at several budgets, from votes that are drawn once."""

    source: CachingSource
    cache: Cache
    labels: NDArray[np.int64]
    alpha: float | None
    progress: ProgressCallback | None

    def curve(self, method: Strategy, kind: str, budgets: Sequence[int]) -> Curve:
        # The largest first: the smaller ones then draw little.
        results = [self._certified(method, kind, samples) for samples in sorted(budgets, reverse=True)][::-1]
        radii = tuple(result.average_certified_radius(self.labels) for result in results)
        return Curve(method.name, kind, tuple(sorted(budgets)), tuple(results), 0.0, radii)

    def _certified(self, method: Strategy, kind: str, samples: int) -> Certificates:
        if not method.baseline:
            return recertify(
                self.source, None, self.cache, samples=samples, alpha=self.alpha, method=method, certificate=kind,
                progress=self.progress or False,
            )  # fmt: skip
        # What a baseline would have cost is asked, not what it claims: that is no look at the model.
        alpha = usual_alpha(self.cache.manifest) if self.alpha is None else self.alpha
        check_settings(samples, 1, alpha, kind)
        task = Task.of(
            self.source, self.cache.about(self.source.digests), method, samples=samples, alpha=alpha,
            certificate=kind, objective=None, progress=self.progress,
        )  # fmt: skip
        return task.for_every_input(run(task))
