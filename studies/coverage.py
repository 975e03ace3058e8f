"""Many caches of the same inputs from disjoint noises: how often a re-certified bound is above what it should bound."""

from typing import Any

import numpy as np

from recert import StoredVotes, Stream, certify, recertify
from studies.methods import method_named
from studies.networks import ORIGINAL, open_votes
from studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from studies.settings import cell_settings, provenance
from studies.soundness import METHODS, checked
from studies.stores import StudyVotes
from studies.votes import Votes, votes_per_class

BLOCKS = 100
"""Of n noises each: one is the cache, the next one gives fresh votes, all others say what is true."""


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    return cell_settings(
        request, cell, alpha=ALPHA, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES, blocks=BLOCKS,
        budget=round(cell.samples / 10), independent_votes=(BLOCKS - 2) * cell.samples,
    )  # fmt: skip


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """For each method, over all caches: how many bounds lie above the upper bound, and above the share, of other votes."""
    asked = settings(request, cell)
    with (
        open_votes(request, cell, ORIGINAL) as original,
        open_votes(request, cell, cell.approximation) as changed,
    ):
        selection = original.first(Stream.SELECTION, SELECTION_SAMPLES)
        before, after = (votes.first(Stream.ESTIMATION, BLOCKS * cell.samples) for votes in (original, changed))
    if request.draw_only:
        return None
    found: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
    for block in range(BLOCKS):
        request.clock.check()
        for method, counted in _one_cache(asked, original, block, selection, before, after).items():
            found[method].append(counted)
    return {
        "settings": asked,
        "original": provenance(original),
        "changed": provenance(changed),
        "methods": {method: _together(each) for method, each in found.items()},
    }


def _one_cache(
    asked: dict[str, Any], original: StudyVotes, block: int, selection: Votes, before: Votes, after: Votes
) -> dict[str, dict[str, Any]]:
    """By method: bounds from the noises of one block against the votes of all other blocks but the next."""
    n = asked["samples"]
    here, following = (slice(n * number, n * (number + 1)) for number in (block, (block + 1) % BLOCKS))
    unseen = np.delete(after, np.r_[here, following], axis=1)
    counts = votes_per_class(unseen, original.classes)
    cache = certify(
        StoredVotes(before[:, here], selection=selection, classes=original.classes), None, noise=original.noise,
        samples=n, selection_samples=SELECTION_SAMPLES, alpha=CACHE_ALPHA,
    )  # fmt: skip
    source = StoredVotes(after[:, here], selection=selection, fresh=after[:, following], classes=original.classes)
    settings = {"samples": asked["budget"], "alpha": ALPHA, "certificate": "one-sided"}
    return {
        method: checked(
            recertify(source, None, cache, **method_named(method), **settings), counts, asked["independent_votes"]
        )
        for method in METHODS
    }


def _together(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all caches: sums, and the mean distance over all claims."""
    claims = sum(one["claims"] for one in each)
    distance = sum(one["claims"] * one["mean distance to the estimate"] for one in each)
    added = ("above the upper bound", "above the estimate", "expected at most")
    return {
        "claims": claims,
        **{key: sum(one[key] for one in each) for key in added},
        "mean distance to the estimate": distance / max(1, claims),
    }
