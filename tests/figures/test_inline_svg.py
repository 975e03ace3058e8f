"""Charts for pages: legends, texts that are shown as they are, ids and colours of their SVG."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from recert.figures.chart import MOST_LETTERS, Chart, add_legend, shortened
from recert.figures.inline_svg import inline_svg
from recert.figures.style import SERIES, new_figure, paper_style, series

HOSTILE = """</text></svg><script>hacked=1</script>"'&amp; $x_1$ #0b4f8a {{ 7*7 }}"""


def two_curves(*names: str) -> Chart:
    """Each with a mark on its second point, and a legend."""
    with paper_style():
        figure, (axes,) = new_figure()
        lines = [axes.plot([0, 1, 2], [1, 0.5, i], **series(i).keywords, markevery=[1], gid=f"curve-{i}")[0] for i in range(2)]  # fmt: skip
        axes.annotate("2×", (1, 1), (2, 1), arrowprops={"arrowstyle": "-|>", "color": "black"})
        add_legend(figure, list(zip(names, lines, strict=True)))
    return Chart(
        "chart", "A title", "What is seen.", figure, {f"curve-{i}": [f"{n}: half"] for i, n in enumerate(names)}
    )


def test_a_hostile_name_stays_text_and_is_shown_as_it_is() -> None:
    svg = inline_svg(two_curves(HOSTILE, "other"), "key")
    root, tame = ElementTree.fromstring(svg), ElementTree.fromstring(inline_svg(two_curves("tame", "other"), "key"))
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
    assert ">模型</text>" in inline_svg(two_curves("模型", "b"), "key")


def test_svg_for_a_page_has_no_prolog_no_styles_and_no_ids_but_its_own() -> None:
    one, other = (inline_svg(two_curves("a", "b"), key) for key in ("one", "other"))
    assert one.startswith('<svg class="chart" viewBox="0 0 ')
    assert not re.search(r"<style|<metadata|<\?xml|<!|xmlns|<svg[^>]* width=", one)
    assert 'role="img" aria-labelledby="one-title one-desc"' in one
    assert '<title id="one-title">A title</title><desc id="one-desc">What is seen.</desc>' in one
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, other)]
    assert not ids[0] & ids[1]
    assert set(re.findall(r'href="#([^"]+)"', one)) | set(re.findall(r"url\(#([^)]+)\)", one)) <= ids[0]
    assert one == inline_svg(two_curves("a", "b"), "one")


def test_colours_of_series_follow_the_theme_of_the_page() -> None:
    svg = inline_svg(two_curves("a", "b"), "key")
    for number, look in enumerate(SERIES[:2]):
        assert f"var(--c{number})" in svg
        assert look.colour not in svg
    assert "#000000" not in svg  # axes, ticks and arrows are of the colour of text
    assert "#ffffff" not in svg
    assert "2×" in svg


def test_a_mark_without_a_title_is_noticed() -> None:
    chart = two_curves("a", "b")
    with pytest.raises(ValueError, match="zip"):
        inline_svg(replace(chart, marks={"curve-0": []}), "key")


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
