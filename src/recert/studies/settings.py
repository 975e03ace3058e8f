"""What every result says about how it came about."""

from typing import Any

from recert.studies.kept import KeptVotes
from recert.studies.request import Cell, Request


def cell_settings(request: Request, cell: Cell, **more: Any) -> dict[str, Any]:
    """What a cell was asked for. A result with the same settings need not be computed again."""
    return {
        "study": request.study.name, "network": cell.network, "sigma": cell.sigma, "approximation": cell.approximation,
        "samples": cell.samples, "images": cell.count, "seed": request.seed, **more,
    }  # fmt: skip


def provenance(votes: KeptVotes) -> dict[str, Any]:
    """Which network gave the votes, how it was computed, and what a forward pass took."""
    about = votes.about
    return {
        "data": about.data, "noise": about.noise, "description": about.description, "identity": about.identity,
        "numerics": about.numerics, "seconds per pass": about.seconds_per_pass, "facts": about.facts,
    }  # fmt: skip
