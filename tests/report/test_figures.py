"""The charts of results: their places against counts by hand, which dots are joined, and that the page shows the same."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from scipy.stats import binomtest

from recert.figures.chart import Chart
from recert.figures.inline_svg import inline_svg
from recert.figures.style import BASELINE, ORIGINAL, RECERT, new_figure
from recert.report import Result
from recert.report.accuracy import accuracy_figure, difference_figures
from recert.report.alignment import align
from recert.report.costs import _draw_gains, cost_figure, passes_figure
from recert.report.difference import Difference
from recert.report.figures import charts, detail_figures
from recert.report.gains import Gain, gains
from recert.report.histograms import flip_figures, histogram_figures
from recert.report.looks import looks
from recert.report.page import render_page
from tests.report.conftest import MakeResult


def part(chart: Chart, gid: str) -> tuple[list[float], list[float]]:
    """Where a line or its marks are drawn."""
    (line,) = (line for axes in chart.figure.axes for line in axes.get_lines() if line.get_gid() == gid)
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def joined(chart: Chart) -> list[list[float]]:
    """Costs of the points that each line joins."""
    lines = chart.figure.axes[0].get_lines()
    return [np.asarray(line.get_xdata()).tolist() for line in lines if str(line.get_gid()).startswith("curve-")]


def test_certified_accuracy_is_counted_at_every_radius(make_result: MakeResult) -> None:
    results = [make_result("a"), make_result("b", seed=1)]
    chart = accuracy_figure(results, [0.25, 0.5])
    for number, result in enumerate(results):
        c = result.certificates
        radii, values = part(chart, f"curve-{number}")
        assert radii[0] == 0
        assert radii[-1] > max(r.certificates.radius.max() for r in results)
        right = [radius for radius, p, y in zip(c.radius, c.prediction, result.labels, strict=True) if p == y]  # type: ignore[arg-type]
        assert values == pytest.approx([sum(far >= radius for far in right) / 40 for radius in radii])
        for said in chart.marks[f"curve-{number}"]:
            name, share, radius = re.fullmatch(r"(\w): ([\d.]+)% at radius ([\d.]+)", said).groups()  # type: ignore[union-attr]
            assert name == result.name
            near = [value for value, at in zip(values, radii, strict=True) if abs(at - float(radius)) <= 0.005]
            assert any(abs(float(share) / 100 - value) < 0.0006 for value in near)
    (band,) = chart.figure.axes[0].collections  # of the first result only
    corners = {(round(x, 9), round(y, 9)) for x, y in band.get_paths()[0].vertices.tolist()}
    radii, values = part(chart, "curve-0")
    for radius, value in list(zip(radii, values, strict=True))[::20]:
        interval = binomtest(round(value * 40), 40).proportion_ci(0.95, "exact")
        for end in (interval.low, interval.high):
            assert any(x == round(radius, 9) and y == pytest.approx(end, abs=1e-8) for x, y in corners)


def test_the_description_covers_the_radii_of_the_page(make_result: MakeResult) -> None:
    result = make_result("a")
    c = result.certificates
    right = c.radius[c.prediction == result.labels]
    shares = [f"{(right >= radius).sum() / 40:.1%} at radius {radius:g}" for radius in (0.25, 0.5)]
    assert accuracy_figure([result], [0.25, 0.5]).description == f"a: {', '.join(shares)}"


def test_differences_to_the_original_are_counted_at_every_radius(make_result: MakeResult) -> None:
    base, changed = make_result("base"), make_result("b", seed=1, method="auto")
    half = changed.certificates.radius * 1.5
    changed = replace(changed, certificates=replace(changed.certificates, radius_without_flips=half))
    (chart,) = difference_figures([Difference(changed, base)], ["name"], [changed, base], [0.5])

    def share(result: Result, radii: np.ndarray, at: float) -> float:
        return float(((result.certificates.prediction == result.labels) & (radii >= at)).mean())

    places, points = part(chart, "difference")
    assert part(chart, "curve")[0] == places
    for at, point, now in zip(places[1:], points[1:], part(chart, "curve")[1][1:], strict=True):
        assert now == pytest.approx(share(changed, changed.certificates.radius, at))
        assert point == pytest.approx(100 * (now - share(base, base.certificates.radius, at)))
    dashed = [line for line in chart.figure.axes[0].get_lines() if line.get_color() == BASELINE.colour]
    values = np.asarray(dashed[0].get_ydata())
    at = places[60]
    assert values[60] == pytest.approx(100 * (share(changed, half, at) - share(base, base.certificates.radius, at)))
    now, was = (share(r, r.certificates.radius, 0.5) for r in (changed, base))
    assert chart.description == f"b, certified accuracy: at radius 0.5 {now:.1%}, original {was:.1%}."


def test_changed_models_share_axes(make_result: MakeResult) -> None:
    base = make_result("base")
    others = [make_result(name, seed=i + 1, method="auto") for i, name in enumerate("bcd")]
    found = charts([*others, base])
    for row in (0, 1):
        assert len({chart.figure.axes[row].get_ylim() for chart in found.accuracy}) == 1
        assert len({chart.figure.axes[row].get_xlim() for chart in found.accuracy}) == 1
    assert len({(chart.figure.axes[0].get_ylim(), chart.figure.axes[0].get_xlim()) for chart in found.flips}) == 1
    assert [chart.title for chart in found.accuracy] == [chart.title for chart in found.flips] == ["b", "c", "d"]


def test_flips_of_each_model_are_counted(make_result: MakeResult) -> None:
    results = [make_result(name, seed=i, method="auto") for i, name in enumerate("ab")]
    for result, chart in zip(results, flip_figures(results, ["x", "y"]), strict=True):
        flips = result.certificates.lost + result.certificates.gained
        heights = [bar.get_height() for bar in chart.figure.axes[0].patches]
        assert heights == [int((flips == value).sum()) for value in range(4)]
        assert f"2 flips: {heights[2]} inputs" in chart.description


def test_passes_are_bars_beside_what_certifying_anew_takes(make_result: MakeResult) -> None:
    ours = make_result("ours", method="auto", alpha=0.002)

    def scratch(passes: int, factor: float) -> Result:
        made = make_result(f"s{passes}", method="scratch", passes=passes, alpha=0.002)
        return replace(made, certificates=replace(made.certificates, radius=made.certificates.radius * factor))

    def widths(results: list[Result]) -> list[float]:
        chart = passes_figure(results)
        assert chart is not None
        return [float(bar.get_width()) for bar in chart.figure.axes[0].patches]

    spent = ours.certificates.forward_passes.mean()
    assert widths([ours, scratch(1_000, 0.5), scratch(3_000, 1.5)]) == pytest.approx([spent, 2_000])  # half way
    assert widths([ours, make_result("base")]) == pytest.approx([spent, 1_100])  # the original's
    assert widths([ours]) == pytest.approx([spent])
    assert passes_figure([make_result("base")]) is None


def test_marks_of_a_chart_are_as_many_as_it_has_titles(make_result: MakeResult) -> None:
    changed = [make_result("a", method="auto"), make_result("b", seed=1, method="auto"), make_result("base")]
    for chart in (
        accuracy_figure([make_result("a")]),
        *histogram_figures([make_result("a")], looks([make_result("a")])),
        *(chart for chart in charts(changed).all if chart.marks),
    ):
        assert all(chart.marks.values())
        svg = inline_svg(chart, "key")
        for titles in chart.marks.values():
            assert all(re.search(f"<title>{re.escape(said)}</title></(use|path)>", svg) for said in titles)


def budgets(make_result: MakeResult, *passes: int, **changes: object) -> list[Result]:
    return [make_result(f"{changes} {n}", passes=n, seed=n, **{"method": "scratch", **changes}) for n in passes]


def test_budgets_of_one_model_method_and_certificate_are_joined(make_result: MakeResult) -> None:
    three = budgets(make_result, 4_000, 100, 900)
    other_noise = budgets(make_result, 200, 300, noise="gaussian:1")
    alone = [*budgets(make_result, 500, certificate="two-sided"), *budgets(make_result, 600, method="scratch-cached")]
    original = budgets(make_result, 700, 800, method="certify", model={"weights": "c3" * 32})
    chart = cost_figure([*three, *other_noise, *alone, *original])
    assert chart is not None
    assert sorted(joined(chart)) == [[100, 900, 4_000], [200, 300], [700, 800]]
    proxied = replace(original[0].certificates.settings, proxy={"made by": "int8"})
    apart = replace(original[0], certificates=replace(original[0].certificates, settings=proxied))
    chart = cost_figure([apart, original[1]])
    assert chart is not None
    assert joined(chart) == []  # passes of a faster network are not among those drawn


def test_points_stand_at_cost_and_radius_with_arrows_to_the_baseline(make_result: MakeResult) -> None:
    ours = make_result("ours", method="auto", alpha=0.002)

    def scratch(passes: int, factor: float) -> Result:
        made = make_result(f"s{passes}", method="scratch", passes=passes, alpha=0.002)
        return replace(made, certificates=replace(made.certificates, radius=made.certificates.radius * factor))

    results = align([ours, scratch(1_000, 0.5), scratch(3_000, 1.5), scratch(6_000, 1.6)])
    chart = cost_figure(results)
    assert chart is not None
    for number, result in enumerate(results):
        c = result.certificates
        radius = np.mean(c.radius * (c.prediction == result.labels))
        assert part(chart, f"point-{number}") == ([c.forward_passes.mean()], [pytest.approx(radius)])
        assert chart.marks[f"point-{number}"] == [f"{result.name}: {radius:.4f} for {c.forward_passes.mean():,.0f} passes per input"]  # fmt: skip
    gain = gains(results)[0]
    assert gain is not None
    arrows = [text for text in chart.figure.axes[0].texts if text.get_text() == ""]
    assert [arrow.xy for arrow in arrows] == [(gain.needed, gain.radius)]
    assert [text.get_text() for text in chart.figure.axes[0].texts if text.get_text()] == [str(gain)]
    (legend,) = chart.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ours", "certified anew"]
    assert cost_figure([ours]) is None


def test_only_one_of_arrows_that_would_cover_each_other_is_drawn() -> None:
    _, (axes,) = new_figure()
    saved = [Gain(10, 99, False, radius) for radius in (0.5, 0.51, 0.9)]
    _draw_gains(axes, [*saved, None, Gain(10, 5, False, 0.1)])  # the last is a loss
    assert [text.xy for text in axes.texts if not text.get_text()] == [(99, 0.5), (99, 0.9)]


def test_histograms_count_inputs_over_the_same_bins(make_result: MakeResult) -> None:
    results = [make_result("a", method="auto"), make_result("b", seed=1, method="auto")]
    bounds, flips, passes = histogram_figures(results, looks(results))
    assert [chart.name for chart in (bounds, flips, passes)] == ["vote-bounds", "flips", "forward-passes"]
    for number, result in enumerate(results):
        c = result.certificates
        places, counts = part(flips, f"counts-{number}")
        by_hand = [int((c.lost + c.gained == value).sum()) for value in range(4)]
        assert (places, counts) == ([i + 0.5 for i in range(4) if by_hand[i]], [n for n in by_hand if n])
        assert flips.marks[f"counts-{number}"] == [f"{result.name}: {i}: {n} inputs" for i, n in enumerate(by_hand) if n]  # fmt: skip
        places, counts = part(bounds, f"counts-{number}")
        assert counts == [int(((c.top_lower * 20).astype(int) == int(place)).sum()) for place in places]
        assert sum(part(passes, f"counts-{number}")[1]) == 40
    alone = histogram_figures(results[1:], looks(results)[1:])
    assert part(alone[0], "counts-0") == part(bounds, "counts-1")
    assert not alone[0].figure.legends
    assert [[patch.get_fill() for patch in chart.figure.axes[0].patches] for chart in (alone[0], bounds)] == [[False, True], [False, False]]  # fmt: skip
    assert [chart.name for chart in histogram_figures([make_result("c")], looks(results)[:1])] == ["vote-bounds"]


def test_re_certification_is_in_one_bold_colour_and_all_else_grey_or_thin(make_result: MakeResult) -> None:
    changed = [make_result(name, seed=i + 1, method="auto") for i, name in enumerate("bc")]
    results = align([make_result("a"), *changed, *budgets(make_result, 100, 200, 300)])
    given = looks(results)
    assert [look.colour for look in given] == [RECERT.colour] * 2 + [ORIGINAL.colour] + [BASELINE.colour] * 3
    assert given[0] != given[1]
    cost, passes = cost_figure(results), passes_figure(results)
    assert cost is not None
    assert passes is not None
    lines = [line for line in cost.figure.axes[0].get_lines() if str(line.get_gid()).startswith("point-")]
    assert [line.get_color() for line in lines] == [look.colour for look in given]
    from matplotlib.colors import to_hex

    assert {to_hex(bar.get_facecolor()) for bar in passes.figure.axes[0].patches} == {RECERT.colour, BASELINE.colour}
    for chart in charts(results).accuracy:
        (bold,) = (line for line in chart.figure.axes[1].get_lines() if line.get_gid() == "curve")
        others = [line for line in chart.figure.axes[1].get_lines() if line is not bold]
        assert bold.get_color() == RECERT.colour
        assert all(line.get_color() in (BASELINE.colour, ORIGINAL.colour) for line in others)
        assert all(line.get_linewidth() < bold.get_linewidth() for line in others)


def test_the_page_shows_what_the_figures_show(make_result: MakeResult) -> None:
    results = align([make_result("a"), make_result("b", method="auto"), *budgets(make_result, 100, 200, 300)])
    page = render_page(results, [0.5])
    shown = sorted(unescape(title) for title in re.findall(r"<title>([^<]*)</title></(?:use|path)>", page))
    found = [*charts(results, [0.5]).all, *detail_figures(results, 0), *detail_figures(results, 1)]
    assert shown == sorted(title for chart in found for titles in chart.marks.values() for title in titles)
    for chart in found:
        assert f">{chart.title}</title><desc" in page
        assert f">{chart.description}</desc>" in page
