"""What every result says about how it came about."""

from dataclasses import asdict
from typing import Any

from studies.request import Cell, Request
from studies.stores import StudyVotes


def cell_settings(request: Request, cell: Cell, **more: Any) -> dict[str, Any]:
    """What a cell was asked for. A result with the same settings need not be computed again."""
    return {
        "study": request.study.name, "network": cell.network, "sigma": cell.sigma, "approximation": cell.approximation,
        "samples": cell.samples, "images": cell.count, "seed": request.seed, **more,
    }  # fmt: skip


def provenance(votes: StudyVotes) -> dict[str, Any]:
    """Which network gave the votes, how it was computed, and what a forward pass took."""
    about = votes.about
    return {
        "data": about.data, "noise": about.noise, "description": about.description, "identity": asdict(votes.identity),
        "numerics": votes.numerics.to_text(), "seconds per pass": votes.seconds_per_pass, "facts": about.facts,
    }  # fmt: skip
