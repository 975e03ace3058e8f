"""Certified accuracy against radius: of a changed model as the difference to the original, with the curves below."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recert.figures.chart import Chart, add_legend
from recert.figures.style import BASELINE, ORIGINAL, RECERT, new_figure, paper_style, stacked_figure
from recert.report.difference import Difference
from recert.report.looks import drawn_curves, looks
from recert.report.results import Result
from recert.report.summary import Share, right_or_certified, shares_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = 160  # radii of a curve: in a figure of one column they are about as close as a line is wide
_WITHOUT_FLIPS: dict[str, Any] = {"color": BASELINE.colour, "linewidth": 1.0, "linestyle": (0, (3, 1.5)), "marker": ""}
_ORIGINAL: dict[str, Any] = {"color": ORIGINAL.colour, "linewidth": 0.9, "linestyle": "-", "marker": ""}


def word_of(results: Sequence[Result]) -> str:
    """What the share of inputs is called: without labels right and wrong are unknown."""
    return "certified inputs" if results[0].labels is None else "certified accuracy"


def accuracy_curve(result: Result, results: Sequence[Result]) -> tuple[Share, ...]:
    """Certified accuracy of one of the results, at radii up to a little beyond the largest of all."""
    return shares_at(right_or_certified(result), result.certificates.radius, _radii(results))


def _radii(results: Sequence[Result]) -> list[float]:
    farthest = 1.03 * max(1e-3, *(float(r.certificates.radius.max()) for r in results))
    return list(np.linspace(0, farthest, GRID).tolist())


class _Curves(NamedTuple):
    """Of one changed model: shares at the radii, of the original, had nothing flipped, and now."""

    before: NDArray[np.float64]
    without: NDArray[np.float64] | None
    now: tuple[Share, ...]

    @property
    def values(self) -> NDArray[np.float64]:
        return np.array([share.value for share in self.now])

    @property
    def points(self) -> NDArray[np.float64]:
        """The difference to the original in percentage points."""
        return 100 * (self.values - self.before)

    @property
    def points_without(self) -> NDArray[np.float64] | None:
        return None if self.without is None else 100 * (self.without - self.before)


def _curves(difference: Difference, radii: Sequence[float], results: Sequence[Result]) -> _Curves:
    without, far = difference.without_flips, np.asarray(radii)[:, None]
    return _Curves(
        np.array([share.value for share in accuracy_curve(difference.original, results)]),
        None if without is None else ((without > 0) & (without >= far)).mean(axis=1),
        accuracy_curve(difference.result, results),
    )


def difference_figures(
    found: Sequence[Difference], names: Sequence[str], results: Sequence[Result], at: Sequence[float] = ()
) -> list[Chart]:
    """One chart for each changed model, all with the same axes; the description says the numbers at these radii."""
    radii = _radii(results)
    drawn = [_curves(each, radii, results) for each in found]
    low = min((float(each.points.min()) for each in drawn), default=0.0)
    high = max((float(each.points.max()) for each in drawn), default=0.0)
    limits = (1.12 * min(low, -1.0), 1.12 * max(high, 1.0))
    return [
        _difference_figure(each, curves, name, radii, limits, at, word_of(results))
        for each, curves, name in zip(found, drawn, names, strict=True)
    ]


def _difference_figure(
    difference: Difference,
    curves: _Curves,
    name: str,
    radii: list[float],
    limits: tuple[float, float],
    at: Sequence[float],
    word: str,
) -> Chart:
    model, values = difference.result.name, curves.values
    marked = [i for i in range(4, GRID, 13) if values[i] or curves.before[i]]
    with paper_style():
        figure, (above, below) = stacked_figure((1.0, 1.25), height=3.4)
        above.axhline(0, **_ORIGINAL)
        above.fill_between(radii, curves.points, 0, color=RECERT.colour, alpha=0.16, linewidth=0)
        bold = RECERT.keywords | {"linewidth": 1.8, "markevery": marked}
        if curves.points_without is not None:
            above.plot(radii, curves.points_without, **_WITHOUT_FLIPS)
        above.plot(radii, curves.points, **bold, gid="difference")
        above.set(ylabel="difference, points", ylim=limits)
        legend = _draw_curves(below, curves, radii, bold, word, model)
        add_legend(figure, legend)
    texts = [
        f"{curves.points[i]:+.1f} points at radius {radii[i]:.2f}: {values[i]:.1%}, original {curves.before[i]:.1%}"
        for i in marked
    ]
    marks = {"difference": texts, "curve": texts}
    return Chart(name, model, _described(difference, at, word), figure, marks)


def _draw_curves(
    axes: "Axes", curves: _Curves, radii: list[float], bold: dict[str, Any], word: str, model: str
) -> list[tuple[str, Any]]:
    legend = [("original", axes.plot(radii, curves.before, **_ORIGINAL)[0])]
    if curves.without is not None:
        legend.append(("had nothing flipped", axes.plot(radii, curves.without, **_WITHOUT_FLIPS)[0]))
    legend.insert(0, (model, axes.plot(radii, curves.values, **bold, gid="curve")[0]))
    band = [share.lower for share in curves.now], [share.upper for share in curves.now]
    axes.fill_between(radii, *band, color=RECERT.colour, alpha=0.16, linewidth=0)
    axes.set(xlabel="radius", ylabel=word, xlim=(0, radii[-1]), ylim=(0, 1.02))
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    return legend


def _described(difference: Difference, at: Sequence[float], word: str) -> str:
    texts = []
    for radius in at or (0.0,):
        was, now = difference.counted(radius)
        texts.append(f"at radius {radius:g} {now.mean():.1%}, original {was.mean():.1%}")
    return f"{difference.result.name}, {word}: {'; '.join(texts)}."


def accuracy_figure(results: Sequence[Result], at: Sequence[float] = ()) -> Chart:
    """Certified accuracy of results that are not compared with an original; the first with its 95% intervals."""
    styles, marks, description, legend = looks(results), {}, [], []
    with paper_style():
        figure, (axes,) = new_figure()
        for place, i in enumerate(drawn_curves(results)):
            shares = accuracy_curve(results[i], results)
            radii = [share.radius for share in shares]
            texts = [f"{results[i].name}: {share.value:.1%} at radius {share.radius:.2f}" for share in shares]
            # Staggered, so that marks of equal curves do not hide each other.
            marked = [j for j in range(4 + place * 5 % 24, GRID, 24) if shares[j].count]
            keywords = styles[i].keywords | {"markevery": marked, "gid": f"curve-{place}"}
            (line,) = axes.plot(radii, [share.value for share in shares], **keywords)
            legend.append((results[i].name, line))
            marks[f"curve-{place}"] = [texts[j] for j in marked]
            known, far = right_or_certified(results[i]), results[i].certificates.radius
            said = [f"{share.value:.1%} at radius {share.radius:g}" for share in shares_at(known, far, at or (0.0,))]
            description.append(f"{results[i].name}: {', '.join(said)}")
            # Of the first only: intervals of several curves would cover each other.
            if not place:
                band = [s.lower for s in shares], [s.upper for s in shares]
                axes.fill_between(radii, *band, color=styles[i].colour, alpha=0.16, linewidth=0)
        axes.set(xlabel="radius", ylabel=word_of(results), xlim=(0, radii[-1]), ylim=(0, 1.02))
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        add_legend(figure, legend)
    title = f"{word_of(results).capitalize()} against radius"
    return Chart("certified-accuracy", title, "; ".join(description), figure, marks)
