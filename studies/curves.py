"""Curves of average certified radius against cost: every method, all baselines, several budgets."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recert import Cache, Certificates, VoteSource, certify, draw_votes, recertify
from recert.metrics import Speedup, speedup_by_area, speedup_by_ratio
from studies.baseline_votes import BaselineVotes
from studies.methods import AUTHORS, BASELINES, COHEN, method_named
from studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Clock
from studies.stores import StudyVotes

METHODS = (
    ("irs", "one-sided"), ("series", "one-sided"), ("paired", "one-sided"), ("auto", "one-sided"), ("auto", "two-sided"),
)  # fmt: skip
"""The paper's certificates are one-sided; auto's default is two-sided, so it is run both ways."""
KINDS = ("one-sided", "two-sided")
BASELINE_KEYS = (*((name, kind) for kind in KINDS for name in BASELINES), (AUTHORS, "one-sided"))
TWO_SIDED_POINTS = 6
"""Budgets of the two-sided curve: its bounds take most of the computing, and six points make a curve."""
LARGEST_SHARE = 0.5
"""Of the cached votes: more than that, our methods do not replay."""

Key = tuple[str, str]
"""A method or baseline, and the kind of its certificates."""


@dataclass(frozen=True)
class Budgets:
    """Forward passes per input, as shares of the n cached votes: of the methods, and of the baselines."""

    samples: int
    methods: tuple[float, ...]
    baselines: tuple[float, ...]
    reuse_threshold: float | None = None
    """Gamma of irs; the usual one if None."""

    def passes(self, shares: Sequence[float], largest: float = 1.0) -> list[int]:
        """Whole numbers, each once, large enough that a unanimous vote certifies something."""
        return sorted({max(12, round(share * self.samples)) for share in shares if share <= largest})

    @property
    def prefix(self) -> int:
        """Cached noises that the baselines draw first: those that irs replays at its largest budget."""
        return self.passes(self.methods)[-1]


@dataclass(frozen=True)
class Curve:
    """Certificates of one method at several budgets, what they cost, and what computing the largest took beside drawing."""

    budgets: tuple[int, ...]
    results: tuple[Certificates, ...]
    radii: tuple[float, ...]
    """Average certified radius at every budget."""
    computing_seconds: float

    @property
    def passes(self) -> tuple[float, ...]:
        return tuple(result.mean_forward_passes for result in self.results)

    def speedups(self, baseline: "Curve") -> dict[str, Speedup]:
        """How much cheaper than a baseline at equal average certified radius, by both definitions."""
        return {
            "by area": speedup_by_area(self.passes, self.radii, baseline.passes, baseline.radii),
            "by ratio": speedup_by_ratio(self.passes, self.radii, baseline.passes, baseline.radii),
        }


def base_cache(original: StudyVotes, samples: int) -> Cache:
    """The original certified with the first `samples` of its votes. n is fixed beforehand, so a prefix is sound."""
    return certify(
        original, None, noise=original.noise, seed=original.seed,
        samples=samples, selection_samples=SELECTION_SAMPLES, alpha=CACHE_ALPHA,
    )  # fmt: skip


def draw_all(changed: StudyVotes, cache: Cache, budgets: Budgets, clock: Clock) -> None:
    """Draw every vote that `all_curves` will ask for, and bound nothing.

    The smaller budgets of irs and of the baselines ask for no other votes. Those of planned methods do, for a few: with
    other flips on the pilot inputs, the plan is another one.
    """
    baseline, largest = BaselineVotes(changed, budgets.prefix), budgets.passes(budgets.baselines)[-1]
    wanted: list[tuple[VoteSource, Key, int]] = [(baseline, (name, "one-sided"), largest) for name in (COHEN, AUTHORS)]
    for method, kind in METHODS:
        sizes = _sizes(method, kind, budgets)
        wanted += [(changed, (method, kind), size) for size in (sizes[-1:] if method == "irs" else reversed(sizes))]
    for source, (method, kind), size in wanted:
        clock.check()
        draw_votes(source, None, cache, **_keywords(method, kind, size, budgets.reuse_threshold))


def all_curves(changed: StudyVotes, cache: Cache, budgets: Budgets, clock: Clock) -> dict[Key, Curve]:
    """The curves of all methods and baselines. Votes that are not in the store yet are drawn."""
    baseline, sizes = BaselineVotes(changed, budgets.prefix), budgets.passes(budgets.baselines)
    wanted: list[tuple[Key, VoteSource, list[int]]] = [(key, changed, _sizes(*key, budgets)) for key in METHODS]
    wanted += [(key, baseline, sizes) for key in BASELINE_KEYS]
    gamma = budgets.reuse_threshold
    return {key: _curve(source, cache, changed.labels, key, sizes, clock, gamma) for key, source, sizes in wanted}


def _sizes(method: str, kind: str, budgets: Budgets) -> list[int]:
    sizes = budgets.passes(budgets.methods, 1.0 if method == "irs" else LARGEST_SHARE)
    if kind == "two-sided" and len(sizes) > TWO_SIDED_POINTS:
        return [sizes[i] for i in np.linspace(0, len(sizes) - 1, TWO_SIDED_POINTS).round().astype(int)]
    return sizes


def _keywords(method: str, kind: str, samples: int, gamma: float | None) -> dict[str, Any]:
    """What `recert.recertify` is called with for one point of a curve."""
    chosen = (
        method_named(COHEN, selection_samples=max(1, samples // 100))
        if method == AUTHORS
        else method_named(method, reuse_threshold=gamma if method == "irs" else None)
    )
    return chosen | {"certificate": kind, "samples": samples, "alpha": ALPHA}


def _curve(
    source: VoteSource,
    cache: Cache,
    labels: np.ndarray,
    key: Key,
    sizes: Sequence[int],
    clock: Clock,
    gamma: float | None,
) -> Curve:
    results = []
    for size in reversed(sizes):  # the largest first: the smaller ones then draw little
        clock.check()
        results.append(recertify(source, None, cache, **_keywords(*key, size, gamma)))
    results.reverse()
    started = time.perf_counter()
    # Again, now that nothing is drawn: what planning and bounds take.
    recertify(source, None, cache, **_keywords(*key, sizes[-1], gamma))
    seconds = time.perf_counter() - started
    radii = tuple(result.average_certified_radius(labels) for result in results)
    return Curve(tuple(sizes), tuple(results), radii, seconds)
