"""Re-certified bounds against many independent votes of the changed network, drawn with another seed."""

from typing import Any

import numpy as np

from recert.bounds import clopper_pearson_upper
from recert.cache import Cache
from recert.certificates import Certificates
from recert.noise import Stream
from recert.recertification import recertify
from recert.studies.asking import ask
from recert.studies.kept import KeptVotes
from recert.studies.networks import ORIGINAL, Bench
from recert.studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from recert.studies.settings import cell_settings, provenance
from recert.studies.sweep import base_cache
from recert.votes import count_votes

METHODS = ("series", "paired", "joint", "irs", "auto")
TIMES = 10
"""Independent votes for each cached one."""


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    return cell_settings(
        request, cell, alpha=ALPHA, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES,
        budget=round(cell.samples / 10), independent_votes=TIMES * cell.samples, independent_seed=request.seed + 1,
    )  # fmt: skip


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """How often a lower bound lies above the independent upper bound, and above the independent estimate."""
    asked, bench = settings(request, cell), Bench(request)
    original, changed = (bench.votes(cell.network, cell.sigma, change) for change in (ORIGINAL, cell.approximation))
    anew = bench.votes(cell.network, cell.sigma, cell.approximation, seed=asked["independent_seed"])
    try:
        cache = base_cache(original, cell.samples)
        if request.draw_only:
            _draw(request, changed, cache, asked["budget"])
            anew.votes(Stream.ESTIMATION, asked["independent_votes"])
            return None
        results = {}
        for method in METHODS:
            request.clock.check()
            results[method] = recertify(
                changed, None, cache, samples=asked["budget"], alpha=ALPHA, method=method, certificate="one-sided"
            )
        independent = anew.votes(Stream.ESTIMATION, asked["independent_votes"])
    finally:
        for votes in (original, changed, anew):
            votes.save()
    counts = np.stack([count_votes(row, anew.classes) for row in independent])
    return {
        "settings": asked,
        "original": provenance(original),
        "changed": provenance(changed),
        "methods": {method: checked(result, counts, asked["independent_votes"]) for method, result in results.items()},
    }


def _draw(request: Request, changed: KeptVotes, cache: Cache, budget: int) -> None:
    for method in METHODS:
        request.clock.check()
        ask(changed, cache, method, samples=budget, alpha=ALPHA, certificate="one-sided")


def checked(result: Certificates, counts: np.ndarray, votes: int) -> dict[str, Any]:
    claimed = np.flatnonzero(result.certified)
    hits = counts[claimed, result.prediction[claimed]]
    lower, upper = result.top_lower[claimed], np.asarray(clopper_pearson_upper(hits, votes, ALPHA))
    return {
        "claims": len(claimed),
        "above the upper bound": int((lower > upper).sum()),
        "above the estimate": int((lower > hits / votes).sum()),
        "expected at most": ALPHA * len(claimed),
        "mean distance to the estimate": float(np.mean(hits / votes - lower)) if len(claimed) else 0.0,
    }
