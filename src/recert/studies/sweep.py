"""Curves of ACR against cost from kept votes: every method, both baselines, several budgets."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache
from recert.caching import CachingSource
from recert.certification import certify
from recert.comparison import BASELINES, Curve
from recert.noise import parse_noise
from recert.recertification import recertify
from recert.sampling import VoteSource
from recert.studies.asking import ask
from recert.studies.from_scratch import FromScratch
from recert.studies.kept import KeptVotes
from recert.studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Clock

METHODS = (
    ("irs", "one-sided"), ("series", "one-sided"), ("paired", "one-sided"), ("auto", "one-sided"), ("auto", "two-sided"),
)  # fmt: skip
"""The paper's certificates are one-sided; auto's default is two-sided, so it is run both ways."""
KINDS = ("one-sided", "two-sided")
AUTHORS = "scratch-authors"
"""Cohen's baseline as the authors' code runs it: n_p / 100 selection votes, 1 to 10, where Cohen takes 100."""
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

    def passes(self, shares: Sequence[float], largest: float = 1.0) -> list[int]:
        """Whole numbers, each once, large enough that a unanimous vote certifies something."""
        return sorted({max(12, round(share * self.samples)) for share in shares if share <= largest})

    @property
    def prefix(self) -> int:
        """Cached noises that the baselines draw first: those that irs replays at its largest budget."""
        return self.passes(self.methods)[-1]


@dataclass(frozen=True)
class Sweep:
    """All curves of one cell, and what computing their largest points took beside the forward passes."""

    curves: dict[Key, Curve]
    computing: dict[Key, float]


def base_cache(original: KeptVotes, samples: int) -> Cache:
    """The original certified with the first `samples` of its votes. n is fixed beforehand, so a prefix is sound."""
    return certify(
        original, None, noise=parse_noise(original.about.noise), seed=original.about.seed,
        samples=samples, selection_samples=SELECTION_SAMPLES, alpha=CACHE_ALPHA,
    )  # fmt: skip


def draw(changed: KeptVotes, cache: Cache, budgets: Budgets, clock: Clock) -> None:
    """Draw every vote that `sweep` will ask for, and bound nothing.

    The smaller budgets of irs and of the baselines ask for no other votes. Those of planned methods do, for a few: with
    other flips on the pilot inputs, the plan is another one.
    """
    scratch, largest = FromScratch(changed, budgets.prefix), budgets.passes(budgets.baselines)[-1]
    wanted: list[tuple[VoteSource, Key, int]] = [
        (scratch, (name, "one-sided"), largest) for name in (BASELINES[0], AUTHORS)
    ]
    for method, kind in METHODS:
        sizes = _sizes(method, kind, budgets)
        wanted += [(changed, (method, kind), size) for size in (sizes[-1:] if method == "irs" else reversed(sizes))]
    for source, (method, kind), size in wanted:
        clock.check()
        ask(source, cache, **_settings(method, kind, size))


def sweep(changed: KeptVotes, cache: Cache, budgets: Budgets, clock: Clock) -> Sweep:
    """All curves. Votes that are not kept yet are drawn."""
    scratch, sizes = CachingSource(FromScratch(changed, budgets.prefix)), budgets.passes(budgets.baselines)
    wanted: list[tuple[Key, VoteSource, list[int]]] = [(key, changed, _sizes(*key, budgets)) for key in METHODS]
    wanted += [(key, scratch, sizes) for key in BASELINE_KEYS]
    made = {key: _curve(source, cache, changed.labels, key, sizes, clock) for key, source, sizes in wanted}
    # One price for every pass, taken when all are drawn.
    price = changed.about.seconds_per_pass
    return Sweep(
        {key: replace(curve, seconds_per_pass=price) for key, (curve, _) in made.items()},
        {key: seconds for key, (_, seconds) in made.items()},
    )


def _sizes(method: str, kind: str, budgets: Budgets) -> list[int]:
    sizes = budgets.passes(budgets.methods, 1.0 if method == "irs" else LARGEST_SHARE)
    if kind == "two-sided" and len(sizes) > TWO_SIDED_POINTS:
        return [sizes[i] for i in np.linspace(0, len(sizes) - 1, TWO_SIDED_POINTS).round().astype(int)]
    return sizes


def _settings(method: str, kind: str, samples: int) -> dict[str, Any]:
    selection, method = (max(1, samples // 100), BASELINES[0]) if method == AUTHORS else (100, method)
    return {
        "method": method, "certificate": kind, "samples": samples, "alpha": ALPHA, "selection_samples": selection,
    }  # fmt: skip


def _curve(
    source: VoteSource, cache: Cache, labels: NDArray[np.int64], key: Key, sizes: Sequence[int], clock: Clock
) -> tuple[Curve, float]:
    results = []
    for size in reversed(sizes):  # the largest first: the smaller ones then draw little
        clock.check()
        results.append(recertify(source, None, cache, **_settings(*key, size)))
    results.reverse()
    started = time.perf_counter()
    # Again, now that nothing is drawn: what planning and bounds take.
    recertify(source, None, cache, **_settings(*key, sizes[-1]))
    seconds = time.perf_counter() - started
    radii = tuple(result.average_certified_radius(labels) for result in results)
    return Curve(key[0], key[1], tuple(sizes), tuple(results), 0.0, radii), seconds
