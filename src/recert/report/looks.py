"""Which results have curves of their own, and how each looks in every chart."""

from collections.abc import Sequence

from recert.figures.style import BASELINE, ORIGINAL, RECERT, Series, series
from recert.report.results import Result

MOST_BASELINE_CURVES = 2  # more would cover the curves that they are compared with


def looks(results: Sequence[Result]) -> list[Series]:
    """One look for each result. Changed models are in one bold colour, told apart by dash and marker; all else is grey or thin.

    Without changed models, results have colours of their own.
    """
    numbers = {"changed": 0, "baseline": 0, "other": 0}
    given = []
    compared = any(result.is_changed for result in results)
    for result in results:
        kind = "changed" if result.is_changed else "baseline" if result.is_baseline else "other"
        look = series(numbers[kind])
        if kind == "changed":
            look = look._replace(colour=RECERT.colour)
        elif kind == "baseline" and not all(r.is_baseline for r in results):
            look = look._replace(colour=BASELINE.colour, marker=BASELINE.marker)
        elif compared:
            look = ORIGINAL._replace(dash=look.dash, marker="X")
        given.append(look)
        numbers[kind] += kind != "baseline" or _few_baselines(results)
    return given


def drawn_curves(results: Sequence[Result]) -> list[int]:
    """Results with a curve of their own: baselines only where they are few, and nothing was changed."""
    if any(result.is_changed for result in results):
        return [i for i, result in enumerate(results) if not result.is_baseline]
    everything = _few_baselines(results) or all(result.is_baseline for result in results)
    return [i for i, result in enumerate(results) if everything or not result.is_baseline]


def _few_baselines(results: Sequence[Result]) -> bool:
    return sum(result.is_baseline for result in results) <= MOST_BASELINE_CURVES
