"""Many caches of the same inputs from disjoint noises: how often a re-certified bound is above what it should bound."""

from typing import Any

import numpy as np

from recert.certification import certify
from recert.noise import Stream, parse_noise
from recert.recertification import recertify
from recert.sampling import StoredVotes
from recert.studies.networks import ORIGINAL, Bench
from recert.studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from recert.studies.settings import cell_settings, provenance
from recert.studies.soundness import METHODS, checked
from recert.votes import count_votes

BLOCKS = 100
"""Of n noises each: one is the cache, the next one gives fresh votes, all others say what is true."""


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    return cell_settings(
        request, cell, alpha=ALPHA, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES, blocks=BLOCKS,
        budget=round(cell.samples / 10), independent_votes=(BLOCKS - 2) * cell.samples,
    )  # fmt: skip


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """For each method, over all caches: how many bounds lie above the upper bound, and above the share, of other votes."""
    asked, bench = settings(request, cell), Bench(request)
    original, changed = (bench.votes(cell.network, cell.sigma, change) for change in (ORIGINAL, cell.approximation))
    try:
        selection = original.votes(Stream.SELECTION, SELECTION_SAMPLES)
        before, after = (votes.votes(Stream.ESTIMATION, BLOCKS * cell.samples) for votes in (original, changed))
    finally:
        original.save()
        changed.save()
    if request.draw_only:
        return None
    counts = np.stack([
        [count_votes(block, changed.classes) for block in np.split(row, BLOCKS)] for row in after
    ])  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
    for number, (old, new) in enumerate(zip(np.split(before, BLOCKS, 1), np.split(after, BLOCKS, 1), strict=True)):
        request.clock.check()
        following = (number + 1) % BLOCKS
        fresh = after[:, following * cell.samples : (following + 1) * cell.samples]
        others = np.delete(counts, [number, following], axis=1).sum(axis=1)
        cache = certify(
            StoredVotes(old, selection=selection, classes=original.classes), None, noise=parse_noise(original.about.noise),
            samples=cell.samples, selection_samples=SELECTION_SAMPLES, alpha=CACHE_ALPHA,
        )  # fmt: skip
        source = StoredVotes(new, selection=selection, fresh=fresh, classes=changed.classes)
        for method in METHODS:
            result = recertify(
                source, None, cache, samples=asked["budget"], alpha=ALPHA, method=method, certificate="one-sided"
            )
            found[method].append(checked(result, others, asked["independent_votes"]))
    return {
        "settings": asked,
        "original": provenance(original),
        "changed": provenance(changed),
        "methods": {method: _together(each) for method, each in found.items()},
    }


def _together(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all caches: sums, and the mean distance over all claims."""
    claims = sum(told["claims"] for told in each)
    distance = sum(told["claims"] * told["mean distance to the estimate"] for told in each)
    counted = ("above the upper bound", "above the estimate", "expected at most")
    return {
        "claims": claims,
        **{key: sum(told[key] for told in each) for key in counted},
        "mean distance to the estimate": distance / max(1, claims),
    }
