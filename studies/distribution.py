"""How the lower bounds on the original's class are spread over the inputs: why a large sigma gains more."""

from typing import Any

import numpy as np

from studies.curves import base_cache
from studies.networks import ORIGINAL, open_votes
from studies.request import CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from studies.settings import cell_settings, provenance

EDGES = [0.5 + 0.025 * i for i in range(21)]


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    return cell_settings(request, cell, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES)


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """A histogram of the bounds above 1/2, as shares of these."""
    with open_votes(request, cell, ORIGINAL) as original:
        cache = base_cache(original, cell.samples)
    if request.draw_only:
        return None
    lower = cache.certify(certificate="one-sided").top_lower
    above = lower[lower > 0.5]
    counts = np.histogram(above, EDGES)[0]
    return {
        "settings": settings(request, cell),
        "original": provenance(original),
        "edges": EDGES,
        "shares": [float(c) / max(1, len(above)) for c in counts],
        "above half": float((lower > 0.5).mean()),
        "below 0.95 of those": float((above < 0.95).mean()) if len(above) else 0.0,
    }
