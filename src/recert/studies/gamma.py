"""The threshold gamma of the paper's method: ACR for each, and how many inputs lie above it."""

from typing import Any

from recert.recertification import recertify
from recert.studies.networks import ORIGINAL, Bench
from recert.studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from recert.studies.settings import cell_settings, provenance
from recert.studies.sweep import base_cache

GAMMAS = (0.9, 0.95, 0.975, 0.99, 0.995, 0.999)
SHARES = (0.01, 0.05, 0.1)


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    sizes = [max(12, round(share * cell.samples)) for share in SHARES]
    return cell_settings(
        request, cell, alpha=ALPHA, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES, budgets=sizes, gammas=GAMMAS
    )  # fmt: skip


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """ACR of irs by threshold and budget."""
    asked, bench = settings(request, cell), Bench(request)
    original, changed = (bench.votes(cell.network, cell.sigma, change) for change in (ORIGINAL, cell.approximation))
    try:
        cache, acr = base_cache(original, cell.samples), {}
        # The largest budget asks for the votes of all.
        budgets = asked["budgets"][-1:] if request.draw_only else asked["budgets"]
        for gamma in GAMMAS:
            request.clock.check()
            results = [
                recertify(changed, None, cache, samples=n, alpha=ALPHA, method="irs", reuse_threshold=gamma)
                for n in budgets
            ]
            acr[f"{gamma:g}"] = [result.average_certified_radius(changed.labels) for result in results]
    finally:
        original.save()
        changed.save()
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
