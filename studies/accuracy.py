"""Accuracy of the networks: on the images as they are, and of the smoothed networks."""

from typing import Any

import numpy as np

from recert import Stream
from recert.bounds import two_sided_p_value
from studies.networks import open_votes
from studies.request import CACHE_ALPHA, Cell, Request
from studies.settings import cell_settings, provenance
from studies.votes import votes_per_class

NOISES = 1_000


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    return cell_settings(request, cell, noises=min(NOISES, cell.samples), alpha=CACHE_ALPHA)


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """Shares of images that are named right: without noise, by the majority of votes, and by PREDICT, which may abstain."""
    asked = settings(request, cell)
    with open_votes(request, cell, cell.approximation) as votes:
        drawn = votes.first(Stream.ESTIMATION, asked["noises"])
    if request.draw_only:
        return None
    counts = votes_per_class(drawn, votes.classes)
    first, second = np.sort(counts, axis=1)[:, [-1, -2]].T
    right = counts.argmax(axis=1) == votes.labels
    certain = np.asarray(two_sided_p_value(first, second)) <= CACHE_ALPHA
    return {
        "settings": asked,
        "changed": provenance(votes),
        "standard": float((votes.clean == votes.labels).mean()),
        "smoothed": float(right.mean()),
        "smoothed, abstentions wrong": float((right & certain).mean()),
    }
