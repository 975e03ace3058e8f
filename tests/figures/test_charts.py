"""Charts from plain values: legends, texts that are shown as they are, and SVG for pages."""

import re
from xml.etree import ElementTree

import pytest

from recert.figures.bins import Bins
from recert.figures.charts import (
    MOST_LETTERS,
    Arrow,
    Chart,
    Counts,
    Curve,
    Point,
    Texts,
    cost_chart,
    histogram_chart,
    share_chart,
    shortened,
)  # fmt: skip
from recert.figures.inline_svg import inline_svg
from recert.figures.style import SERIES, series

HOSTILE = """</text></svg><script>hacked=1</script>"'&amp; $x_1$ #0b4f8a {{ 7*7 }}"""
TEXTS = Texts("chart", "A title", "What is seen.", "x", "y")


def two_curves(first: str, second: str = "other") -> Chart:
    curves = [
        Curve(name, series(i), [0, 1, 2], [1, 0.5, 0.25], {1: f"{name}: half"})
        for i, name in enumerate((first, second))
    ]
    return share_chart(TEXTS, curves)


def test_a_hostile_name_stays_text_and_is_shown_as_it_is() -> None:
    svg = inline_svg(two_curves(HOSTILE), "key")
    root, tame = ElementTree.fromstring(svg), ElementTree.fromstring(inline_svg(two_curves("tame"), "key"))
    assert [element.tag for element in root.iter()] == [element.tag for element in tame.iter()]
    assert [set(element.attrib) for element in root.iter()] == [set(element.attrib) for element in tame.iter()]
    texts = ["".join(element.itertext()) for element in root.iter("text")]
    assert shortened(HOSTILE) in texts
    assert f"{HOSTILE}: half" in [element.text for element in root.iter("title")]
    dollars = inline_svg(two_curves("$x_1$ #0b4f8a", "$$ \x01 \\frac"), "key")
    assert ">$x_1$ #0b4f8a</text>" in dollars  # neither a formula nor a colour
    assert ">$$   \\frac</text>" in dollars


@pytest.mark.filterwarnings("error")
def test_letters_that_the_font_lacks_are_left_to_the_browser() -> None:
    assert ">模型</text>" in inline_svg(two_curves("模型"), "key")


def test_svg_for_a_page_has_no_prolog_no_styles_and_no_ids_but_its_own() -> None:
    one, other = (inline_svg(two_curves("a"), key) for key in ("one", "other"))
    assert one.startswith('<svg class="chart" viewBox="0 0 ')
    assert not re.search(r"<style|<metadata|<\?xml|<!|xmlns|<svg[^>]* width=", one)
    assert 'role="img" aria-labelledby="one-title one-description"' in one
    assert '<title id="one-title">A title</title><desc id="one-description">What is seen.</desc>' in one
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, other)]
    assert not ids[0] & ids[1]
    assert set(re.findall(r'href="#([^"]+)"', one)) | set(re.findall(r"url\(#([^)]+)\)", one)) <= ids[0]
    assert one == inline_svg(two_curves("a"), "one")


def test_colours_of_series_follow_the_theme_of_the_page() -> None:
    chart = cost_chart(TEXTS, [[Point("a", series(0), 10, 1, "a")], [Point("b", series(1), 20, 2, "b")]], [Arrow(10, 20, 1, "2×")])  # fmt: skip
    svg = inline_svg(chart, "key")
    for number, look in enumerate(SERIES[:2]):
        assert f"var(--c{number})" in svg
        assert look.colour not in svg
    assert "#000000" not in svg  # axes, ticks and arrows are of the colour of text
    assert "#ffffff" not in svg
    assert "2×" in svg


def test_long_names_keep_beginning_and_end_and_legends_stay_within_the_figure() -> None:
    long = "results-of-a-network-with-a-very-long-name-pruned-and-quantised, auto, 500 passes"
    assert shortened(long).startswith("results-of-a-network")
    assert shortened(long).endswith("auto, 500 passes")
    assert len(shortened(long)) == MOST_LETTERS == len(shortened("x" * 900))
    for names in ((long, long + "!"), ("a", "b"), ("int8", "prune:0.3")):
        chart = two_curves(*names)
        inline_svg(chart, "key")  # lays it out
        (legend,) = chart.figure.legends
        box, axes = legend.get_window_extent(), chart.figure.axes[0].get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= chart.figure.bbox.x1
        assert box.y1 < axes.y0  # covers no line
        assert axes.height > 0.5 * chart.figure.bbox.height


def test_a_single_histogram_is_filled_and_many_are_not() -> None:
    bins = Bins((0.0, 1.0, 2.0, 3.0), ("0 to 1", "1 to 2", "2 to 3"))
    alone = histogram_chart(TEXTS, bins, [Counts("a", series(0), [3, 0, 1])])
    assert alone.marks == {"counts-0": ["0 to 1: 3 y", "2 to 3: 1 y"]}
    assert [patch.get_fill() for patch in alone.figure.axes[0].patches] == [False, True]
    both = histogram_chart(TEXTS, bins, [Counts("a", series(0), [3, 0, 1]), Counts("b", series(1), [0, 0, 0])])
    assert both.marks == {"counts-0": ["a: 0 to 1: 3 y", "a: 2 to 3: 1 y"], "counts-1": []}
    assert [patch.get_fill() for patch in both.figure.axes[0].patches] == [False, False]
    inline_svg(both, "key")


def test_only_one_of_arrows_that_would_cover_each_other_is_drawn() -> None:
    points = [[Point(None, series(0), 10, y, "")] for y in (0.0, 1.0)] + [[Point("a", series(1), 99, 1, "")]]
    chart = cost_chart(TEXTS, points, [Arrow(10, 99, 0.5, "first"), Arrow(10, 99, 0.51, "second"), Arrow(10, 99, 0.9, "third")])  # fmt: skip
    assert [text.get_text() for text in chart.figure.axes[0].texts if text.get_text()] == ["first", "third"]
