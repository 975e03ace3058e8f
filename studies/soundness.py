"""Re-certified bounds against many independent votes of the changed network, drawn with another seed."""

from typing import Any

import numpy as np

from recert import Cache, Certificates, Stream, draw_votes, recertify
from recert.bounds import clopper_pearson_upper
from studies.curves import base_cache
from studies.methods import method_named
from studies.networks import ORIGINAL, open_votes
from studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from studies.settings import cell_settings, provenance
from studies.stores import StudyVotes
from studies.votes import votes_per_class

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
    asked = settings(request, cell)
    with (
        open_votes(request, cell, ORIGINAL) as original,
        open_votes(request, cell, cell.approximation) as changed,
        open_votes(request, cell, cell.approximation, seed=asked["independent_seed"]) as anew,
    ):
        cache = base_cache(original, cell.samples)
        if request.draw_only:
            _draw(request, changed, cache, asked["budget"])
            anew.first(Stream.ESTIMATION, asked["independent_votes"])
            return None
        results = {}
        for method in METHODS:
            request.clock.check()
            results[method] = recertify(changed, None, cache, **_keywords(method, asked["budget"]))
        independent = anew.first(Stream.ESTIMATION, asked["independent_votes"])
    counts = votes_per_class(independent, anew.classes)
    return {
        "settings": asked,
        "original": provenance(original),
        "changed": provenance(changed),
        "methods": {method: checked(result, counts, asked["independent_votes"]) for method, result in results.items()},
    }


def _draw(request: Request, changed: StudyVotes, cache: Cache, budget: int) -> None:
    for method in METHODS:
        request.clock.check()
        draw_votes(changed, None, cache, **_keywords(method, budget))


def _keywords(method: str, budget: int) -> dict[str, Any]:
    return method_named(method) | {"samples": budget, "alpha": ALPHA, "certificate": "one-sided"}


def checked(result: Certificates, counts: np.ndarray, votes: int) -> dict[str, Any]:
    """How many claims there are, and how many of their bounds lie above what independent votes say."""
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
