"""Disparity: P(f != f^p) under the noise of an input, its share and its upper bound zeta, on the first 1,000 noises."""

from typing import Any

import numpy as np

from recert import Stream
from recert.bounds import clopper_pearson_upper
from studies.networks import ORIGINAL, open_votes
from studies.request import Cell, Request
from studies.settings import cell_settings, provenance

NOISES, ALPHA_ZETA = 1_000, 0.001


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    return cell_settings(request, cell, noises=min(NOISES, cell.samples), alpha_zeta=ALPHA_ZETA)


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """Mean over the inputs of the share and of the bound; and the bound that no flips at all would give."""
    asked = settings(request, cell)
    noises = asked["noises"]
    with (
        open_votes(request, cell, ORIGINAL) as original,
        open_votes(request, cell, cell.approximation) as changed,
    ):
        before, after = (votes.first(Stream.ESTIMATION, noises) for votes in (original, changed))
    if request.draw_only:
        return None
    # An invalid vote always disagrees.
    flips = ((before != after) | (after >= changed.classes)).sum(axis=1)
    top = np.array([np.bincount(row, minlength=256).argmax() for row in before])[:, None]
    return {
        "settings": asked,
        "original": provenance(original),
        "changed": provenance(changed),
        "share": float(flips.mean() / noises),
        "zeta": float(np.mean(clopper_pearson_upper(flips, noises, ALPHA_ZETA))),
        "zeta without flips": float(clopper_pearson_upper(0, noises, ALPHA_ZETA)),
        "lost": float(((before == top) & (after != top)).mean()),
        "gained": float(((before != top) & (after == top)).mean()),
        "inputs without flips": float((flips == 0).mean()),
    }
