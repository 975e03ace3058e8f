"""The charts of results. Each is drawn in one place only: the page shows them, and `--figures` writes the same as files for papers."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recert.figures.chart import Chart
from recert.figures.style import paper_style, save
from recert.report.accuracy import accuracy_figure, difference_figures
from recert.report.costs import cost_figure, passes_figure
from recert.report.difference import Difference, original_of
from recert.report.histograms import flip_figures, histogram_figures
from recert.report.looks import drawn_curves, looks
from recert.report.results import Result


@dataclass(frozen=True)
class Charts:
    """All that compares results with each other."""

    passes: Chart | None
    accuracy: list[Chart]
    """One for each changed model, or one for all if none is compared with an original."""
    compared: bool
    """Whether these are differences to an original."""
    flips: list[Chart]
    cost: Chart | None

    @property
    def all(self) -> list[Chart]:
        return [chart for chart in (self.passes, *self.accuracy, *self.flips, self.cost) if chart is not None]


def charts(results: Sequence[Result], radii: Sequence[float] = ()) -> Charts:
    """What compares these results; descriptions say the numbers at these radii."""
    changed = [result for result in results if result.is_changed]
    # Where inputs were decided at a radius, nothing is known of others: there is no curve.
    whole = [result for result in results if not result.certificates.settings.at]
    compared = [Difference(r, original) for r in whole if (original := original_of(r, results)) is not None]
    accuracy = []
    if compared:
        names = _names("certified-accuracy", [each.result for each in compared])
        accuracy = difference_figures(compared, names, results, radii)
    elif whole:
        accuracy = [accuracy_figure(whole, radii)]
    replayed = [result for result in changed if result.certificates.replayed.any()]
    flips = flip_figures(replayed, _names("flips", replayed))
    return Charts(passes_figure(results), accuracy, bool(compared), flips, cost_figure(results))


def detail_figures(results: Sequence[Result], number: int) -> list[Chart]:
    """Bounds and passes of one result."""
    found = histogram_figures([results[number]], [looks(results)[number]])
    return [chart for chart in found if chart.name != "flips" or not results[number].is_changed]


def write_figures(
    results: Sequence[Result], directory: str | os.PathLike[str], radii: Sequence[float] = ()
) -> list[Path]:
    """Every chart that the results allow, as PDF, SVG and PNG; of histograms all results in one."""
    shown, styles = drawn_curves(results), looks(results)
    found = charts(results, radii).all
    found += histogram_figures([results[i] for i in shown], [styles[i] for i in shown])
    with paper_style():
        return [path for chart in found for path in save(chart.figure, directory, chart.name)]


def _names(kind: str, results: Sequence[Result]) -> list[str]:
    """Names of files, distinct."""
    plain = [re.sub(r"[^A-Za-z0-9.]+", "-", result.name).strip("-.")[:60] for result in results]
    return [
        f"{kind}-{name}" if name and plain.count(name) == 1 else f"{kind}-{'-'.join(filter(None, (name, str(i + 1))))}"
        for i, name in enumerate(plain)
    ]
