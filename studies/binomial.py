"""Samples that an interval needs for a given width, against the probability: fewest near 0 and 1. No network."""

from typing import Any

from recert.bounds import Interval, samples_for_width
from studies.request import Cell, Request

WIDTHS = (0.005, 0.0075, 0.01)
ALPHA = 0.01
PROBABILITIES = (0.005, 0.01, 0.02, 0.05, *(round(0.1 * i, 1) for i in range(1, 10)), 0.95, 0.98, 0.99, 0.995)


def settings(request: Request, cell: Cell | None) -> dict[str, Any]:
    return {"study": request.study.name, "widths": WIDTHS, "alpha": ALPHA, "probabilities": PROBABILITIES}


def compute(request: Request, cell: Cell | None) -> dict[str, Any] | None:
    """For each interval and width, the samples at each probability, at the expected count."""
    samples = {}
    for interval in Interval:
        request.clock.check()
        samples[interval.value] = {
            f"{width:g}": [samples_for_width(p, width, ALPHA, interval) for p in PROBABILITIES] for width in WIDTHS
        }
    return {"settings": settings(request, cell), "samples": samples}
