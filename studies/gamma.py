"""The threshold gamma of the paper's method: ACR for each, and how many inputs lie above it."""

from typing import Any

from recert import draw_votes, recertify
from studies.curves import base_cache
from studies.methods import method_named
from studies.networks import ORIGINAL, open_votes
from studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from studies.settings import cell_settings, provenance

GAMMAS = (0.9, 0.95, 0.975, 0.99, 0.995, 0.999)
SHARES = (0.01, 0.05, 0.1)


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    sizes = [max(12, round(share * cell.samples)) for share in SHARES]
    return cell_settings(
        request, cell, alpha=ALPHA, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES, budgets=sizes, gammas=GAMMAS
    )  # fmt: skip


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """ACR of irs by threshold and budget."""
    asked, acr = settings(request, cell), {}
    with (
        open_votes(request, cell, ORIGINAL) as original,
        open_votes(request, cell, cell.approximation) as changed,
    ):
        cache = base_cache(original, cell.samples)
        for gamma in GAMMAS:
            request.clock.check()
            chosen = method_named("irs", reuse_threshold=gamma) | {"alpha": ALPHA, "certificate": "one-sided"}
            if request.draw_only:
                # The largest budget asks for the votes of all.
                draw_votes(changed, None, cache, samples=asked["budgets"][-1], **chosen)
                continue
            results = [recertify(changed, None, cache, samples=n, **chosen) for n in asked["budgets"]]
            acr[f"{gamma:g}"] = [result.average_certified_radius(changed.labels) for result in results]
    if request.draw_only:
        return None
    lower = cache.certify(certificate="one-sided").top_lower
    return {
        "settings": {**asked, "gammas": list(GAMMAS)},
        "original": provenance(original),
        "changed": provenance(changed),
        "ACR": acr,
        "share above": {f"{gamma:g}": float((lower > gamma).mean()) for gamma in GAMMAS},
    }
