"""The charts of a page, from results."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recert.report.bins import cost_bins, count_bins, share_bins
from recert.report.charts import Arrow, Chart, Line, Look, histogram, path, x_scale, y_scale
from recert.report.gains import Gain, context
from recert.report.results import Result
from recert.report.scales import Scale, even_ticks
from recert.report.summary import Share, average_radius, right_or_certified, shares_at

GRID = 160
MOST_BASELINE_CURVES = 2


def looks(results: Sequence[Result]) -> list[Look]:
    """One look for each result, in every chart the same. Baselines are grey, and differ only where each has a curve."""
    curves = set(drawn_curves(results))
    numbers = {False: 0, True: 0}
    given = []
    for i, result in enumerate(results):
        baseline = result.is_baseline and not all(r.is_baseline for r in results)
        given.append(Look.of(numbers[baseline], baseline=baseline))
        numbers[baseline] += i in curves
    return given


def drawn_curves(results: Sequence[Result]) -> list[int]:
    """Results with a curve of their own: baselines only where they are few."""
    baselines = sum(result.is_baseline for result in results)
    everything = baselines <= MOST_BASELINE_CURVES or baselines == len(results)
    return [i for i, result in enumerate(results) if everything or not result.is_baseline]


@dataclass(frozen=True)
class AccuracyCurve:
    """Certified accuracy at many radii, each with its interval."""

    shares: tuple[Share, ...]

    @classmethod
    def of(cls, result: Result, farthest: float) -> "AccuracyCurve":
        grid = np.linspace(0, farthest, GRID).tolist()
        return cls(shares_at(right_or_certified(result), result.certificates.radius, grid))


def farthest_radius(results: Sequence[Result]) -> float:
    return max(1e-3, *(float(result.certificates.radius.max()) for result in results)) * 1.03


def accuracy_chart(results: Sequence[Result]) -> Chart:
    """Certified accuracy against radius; the first result with its 95% intervals."""
    high = farthest_radius(results)
    x, y = x_scale(0, high), y_scale(0, 1)
    styles = looks(results)
    lines = []
    for place, i in enumerate(drawn_curves(results)):
        shares = AccuracyCurve.of(results[i], high).shares
        marked = range(4 + place * 5 % 24, GRID, 24)  # staggered, so that marks of equal curves do not hide each other
        marks = tuple(
            (x(shares[j].radius), y(shares[j].value), _said(results[i].name, shares[j])) for j in marked if shares[j].count
        )  # fmt: skip
        band = "" if place else _band(x, y, shares)
        lines.append(Line(results[i].name, styles[i], path(x, y, [(s.radius, s.value) for s in shares]), marks, band))
    labelled = results[0].labels is not None
    name = "Certified accuracy against radius" if labelled else "Certified inputs against radius"
    said = "; ".join(
        _said(results[i].name, AccuracyCurve.of(results[i], high).shares[0]) for i in drawn_curves(results)
    )
    return Chart(
        name, said, x, y, "l2 radius", "certified accuracy" if labelled else "certified inputs", tuple(lines), percent=True
    )  # fmt: skip


def _said(name: str, share: Share) -> str:
    return f"{name}: {share.value:.1%} at radius {share.radius:.2f}"


def _band(x: Scale, y: Scale, shares: Sequence[Share]) -> str:
    upper = [(s.radius, s.upper) for s in shares]
    return path(x, y, upper + [(s.radius, s.lower) for s in reversed(shares)]) + "z"


def cost_chart(results: Sequence[Result], saved: Sequence[Gain | None]) -> Chart:
    """Average certified radius against forward passes; baselines of one model are joined by a line."""
    costs = [max(1.0, result.certificates.mean_forward_passes) for result in results]
    radii = [average_radius(result) for result in results]
    reach = [gain.needed for gain in saved if gain is not None]
    x = x_scale(min(costs) / 1.5, max(costs + reach) * 1.5, logarithmic=True)
    y = y_scale(*_padded(min(radii), max(radii)))
    styles = looks(results)
    groups: dict[object, list[int]] = {}
    for i, result in enumerate(results):
        groups.setdefault((context(result), result.certificates.settings.method), []).append(i)
    lines = []
    for members in groups.values():
        members.sort(key=lambda i: costs[i])
        joined = path(x, y, [(costs[i], radii[i]) for i in members]) if len(members) > 1 else ""
        lines.append(Line("", styles[members[0]], joined))
    for i, result in enumerate(results):
        title = f"{result.name}: {radii[i]:.4f} for {costs[i]:,.0f} passes per input"
        lines.append(Line(result.name, styles[i], "", ((x(costs[i]), y(radii[i]), title),)))
    said = "; ".join(f"{r.name}: {radius:.3f} for {cost:,.0f} passes" for r, radius, cost in zip(results, radii, costs, strict=True))  # fmt: skip
    labelled = results[0].labels is not None
    return Chart(
        "Average certified radius against cost" if labelled else "Average radius against cost", said, x, y,
        "forward passes per input", "average certified radius" if labelled else "average radius", tuple(lines),
        arrows=_arrows(x, y, saved),
    )  # fmt: skip


def _padded(low: float, high: float) -> tuple[float, float]:
    spread = max(high - low, 0.08 * max(high, 0.1))
    ticks = even_ticks(max(0.0, low - 0.35 * spread), high + 0.35 * spread, 6)
    return max(0.0, min(ticks[0], low - 0.25 * spread)), high + 0.35 * spread


def _arrows(x: Scale, y: Scale, saved: Sequence[Gain | None]) -> tuple[Arrow, ...]:
    """One arrow for each gain, but for those that would cover another; the table names them all."""
    arrows: list[Arrow] = []
    for gain in saved:
        if gain is None or gain.factor <= 1:
            continue
        arrow = Arrow(x(gain.passes), y(gain.radius), x(gain.needed), str(gain))
        if all(abs(arrow.y - other.y) > 24 for other in arrows):
            arrows.append(arrow)
    return tuple(arrows)


def bound_histogram(result: Result) -> Chart | None:
    """Lower bounds on the vote of the class, of inputs that votes were spent on."""
    bounds = result.certificates.top_lower[result.certificates.top_lower > 0]
    if not len(bounds):
        return None
    return histogram(
        bounds, share_bins(), title="How sure the votes are", what="inputs",
        x_label="lower bound on the share of votes for the class (p_A)",
    )  # fmt: skip


def flip_histogram(result: Result) -> Chart | None:
    """Replayed votes that the modified model cast otherwise; None where nothing was replayed."""
    c = result.certificates
    replayed = c.replayed > 0
    if not replayed.any():
        return None
    flips = (c.lost + c.gained)[replayed]
    return histogram(flips, count_bins(flips), title="Votes that flipped", x_label="flips per input", what="inputs")


def cost_histogram(result: Result) -> Chart | None:
    """Forward passes per input; None where all inputs cost the same."""
    passes = result.certificates.forward_passes
    if passes.min() == passes.max():
        return None
    return histogram(
        passes, cost_bins(passes), title="Where the budget went", x_label="forward passes per input", what="inputs"
    )  # fmt: skip
