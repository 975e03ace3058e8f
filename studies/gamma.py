"""The threshold gamma of the paper's method: ACR for each, and how many inputs lie above it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert import Cache, VoteSource, certify, draw_votes, recertify
from studies.curves import base_cache
from studies.methods import method_named
from studies.networks import ORIGINAL, open_votes
from studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from studies.settings import cell_settings, provenance
from studies.votes_at_radius import votes_in_file

GAMMAS = (0.9, 0.95, 0.975, 0.99, 0.995, 0.999)
SHARES = {"gamma": (0.01, 0.05, 0.1), "gamma-as-published": tuple(share / 100 for share in range(1, 11))}
"""Budgets, of n. The authors' code takes the mean over ten."""


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    sizes = [max(12, round(share * cell.samples)) for share in SHARES[request.study.name]]
    file = {} if request.votes is None else {"votes": request.votes.name}
    return cell_settings(
        request, cell, alpha=ALPHA, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES, budgets=sizes, gammas=GAMMAS, **file
    )  # fmt: skip


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """ACR of irs by threshold and budget."""
    asked, acr = settings(request, cell), {}
    with _votes(request, cell) as (cache, changed, labels, about):
        for gamma in GAMMAS:
            request.clock.check()
            chosen = method_named("irs", reuse_threshold=gamma) | {"alpha": ALPHA, "certificate": "one-sided"}
            if request.draw_only:
                # The largest budget asks for the votes of all.
                draw_votes(changed, None, cache, samples=asked["budgets"][-1], **chosen)
                continue
            results = [recertify(changed, None, cache, samples=n, **chosen) for n in asked["budgets"]]
            acr[f"{gamma:g}"] = [result.average_certified_radius(labels) for result in results]
    if request.draw_only:
        return None
    lower = cache.certify(certificate="one-sided").top_lower
    return {
        "settings": {**asked, "gammas": list(GAMMAS)},
        **about,
        "ACR": acr,
        "share above": {f"{gamma:g}": float((lower > gamma).mean()) for gamma in GAMMAS},
    }


@contextmanager
def _votes(request: Request, cell: Cell) -> Iterator[tuple[Cache, VoteSource, NDArray[np.int64], dict[str, Any]]]:
    """What certifying the original leaves, votes of the change, labels, and whose votes they are."""
    if request.votes is not None:
        both = votes_in_file(request.votes, cell)
        cache = certify(
            both.original, None, noise=both.noise, seed=request.seed, samples=cell.samples, selection_samples=SELECTION_SAMPLES,
            alpha=CACHE_ALPHA,
        )  # fmt: skip
        yield cache, both.changed, both.labels, both.about
        return
    with open_votes(request, cell, ORIGINAL) as original, open_votes(request, cell, cell.approximation) as changed:
        about = {"original": provenance(original), "changed": provenance(changed)}
        yield base_cache(original, cell.samples), changed, changed.labels, about
