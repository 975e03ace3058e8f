"""The page in a real browser: no errors, no network, sorting and filtering by mouse and keyboard, themes, widths, print."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from recert.cli.report import write_report
from recert.data import load_data
from recert.report import read_result, write_result
from recert.report.alignment import align
from recert.report.difference import Difference
from recert.report.input_table import down
from recert.report.matching import add_data
from recert.report.page import render_page
from tests.figures.test_style import luminance
from tests.report.conftest import MakeResult
from tests.report.test_page import HOSTILE, RADII, hostile

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium; playwright's own download is never used."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        reason = f"none of {', '.join(BROWSERS)} is installed; `make test` installs Chromium as root with apt-get"
        if os.environ.get("RECERT_REQUIRE_CHROMIUM"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def results(make_result: MakeResult, pictures: Callable[[int], Path]) -> Any:
    """Two results with thumbnails and labels, and what the browser should show of them."""
    made = align([make_result("base"), make_result("int8", seed=1, method="auto", alpha=0.002)])
    return add_data(made, load_data(str(pictures(40))))


@pytest.fixture(scope="module")
def file(results: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(results[0], RADII, results[1]), encoding="utf-8")
    return path


class Visit:
    """A page that was opened, with everything it asked for and complained about."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def column(self, name: str) -> list[str]:
        """The texts of a column, of the rows that are shown."""
        return list(self.page.locator(f"#inputs tbody tr:not([hidden]) [data-column={name}]").all_inner_texts())

    def colour(self, selector: str, what: str) -> str:
        """A computed colour as #rrggbb."""
        css = self.page.eval_on_selector(selector, f"e => getComputedStyle(e).{what}")
        return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", css)[:3])


@pytest.fixture
def visit(browser: Any, file: Path) -> Iterator[Visit]:
    opened = Visit(browser, file, viewport={"width": 1400, "height": 900})
    yield opened
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
    assert [url for url in opened.requests if url.startswith("file:")] == [file.as_uri()]
    opened.page.close()


def contrast(one: str, other: str) -> float:
    """WCAG 2: 4.5 for text, 3 for graphics."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("width", [1400, 400])
def test_both_themes_are_readable_and_nothing_sticks_out(browser: Any, file: Path, width: int) -> None:
    for scheme in ("light", "dark"):
        opened = Visit(browser, file, viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = opened.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (luminance(opened.colour("body", "backgroundColor")) < 0.1) == (scheme == "dark")
        sheet = opened.colour(".card", "backgroundColor")
        for selector in (".card .big", ".card dt", ".card .note", "figcaption", "summary", ".verdict.right", ".verdict.wrong", ".verdict.abstained", ".legend-line", ".lead", ".about"):  # fmt: skip
            assert contrast(opened.colour(selector, "color"), sheet) >= 4.5, selector
        # Cards beside each other have their numbers on one line.
        tops = {}
        for card in page.locator(".card:visible").all():
            there, number = card.bounding_box(), card.locator(".big").bounding_box()
            tops.setdefault(there["y"], []).append(number["y"] + number["height"])
        assert all(max(row) - min(row) <= 1 for row in tops.values())
        for selector in ("#accuracy-0-curve > path", "#accuracy-0-difference > path"):
            assert contrast(opened.colour(selector, "stroke"), sheet) >= 3, selector
        assert contrast(opened.colour("svg.chart text", "fill"), sheet) >= 4.5
        assert page.locator("#theme").get_attribute("aria-pressed") == str(scheme == "dark").lower()
        before = luminance(opened.colour("body", "backgroundColor"))
        page.locator("#theme").press("Enter")
        assert abs(luminance(opened.colour("body", "backgroundColor")) - before) > 0.5
        assert opened.complaints == []
        page.close()


def test_sorting_by_click_and_by_keyboard(visit: Visit, results: Any) -> None:
    radii = sorted(down(r) for r in results[0][0].certificates.radius.tolist())
    heading, button = visit.page.locator("th[data-sort=radius]"), visit.page.locator("th[data-sort=radius] button")
    button.click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert visit.column("radius") == [f"{r:.3f}" if r else "–" for r in radii]
    button.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert visit.column("radius") == [f"{r:.3f}" if r else "–" for r in reversed(radii)]
    visit.page.locator("th[data-sort=position] button").press("Space")
    assert heading.get_attribute("aria-sort") == "none"
    assert visit.column("position") == [str(i) for i in range(3, 43)]  # as numbers: 4 before 30


def test_filtering_by_word_and_by_choice(visit: Visit, results: Any) -> None:
    base = results[0][0]
    right = int((base.certificates.prediction == base.labels).sum())
    abstained = int((base.certificates.prediction < 0).sum())
    visit.page.select_option("#verdict", "right")
    assert len(visit.column("position")) == right
    assert visit.page.locator("#count").inner_text() == f"{right} of 40 inputs"
    visit.page.select_option("#verdict", "")
    visit.page.locator("#search").press_sequentially("no-majority")
    assert len(visit.column("position")) == abstained
    visit.page.select_option("#outcome", "certified")
    assert visit.column("position") == []
    visit.page.locator("#search").fill("")
    assert len(visit.column("position")) == 40 - abstained


def test_choosing_another_result_shows_its_numbers(visit: Visit, results: Any) -> None:
    visit.page.locator("th[data-sort=position] button").click()
    for number, result in enumerate(results[0]):
        visit.page.select_option("#result", str(number))
        c = result.certificates
        assert visit.column("radius") == [f"{down(r):.3f}" if r > 0 else "–" for r in c.radius.tolist()]
        assert visit.column("passes") == [f"{p:,}" for p in c.forward_passes.tolist()]
        heading = visit.page.locator("h2.of:visible")
        assert heading.count() == 1
        beside = "" if result.name == "base" else ", beside the original"
        assert heading.inner_text() == f"Details: {result.name}{beside}"
        assert visit.page.locator(".verdicts tr.chosen .name").inner_text() == result.name
        assert visit.page.locator(".compared:visible").count() == (0 if result.name == "base" else 2 * 41)


def test_the_keyboard_reaches_everything(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    page.locator("#search").focus()
    for control in ("what", "verdict"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == control
    assert page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    for figure in page.locator("figure svg.chart").all():
        assert figure.get_attribute("role") == "img"


def test_every_input_shows_its_own_picture(visit: Visit) -> None:
    places = visit.page.eval_on_selector_all(".thumb", "all => all.map(e => getComputedStyle(e).backgroundPosition)")
    assert len(set(places)) == 40
    assert visit.page.eval_on_selector(".thumb", "e => getComputedStyle(e).backgroundImage").startswith(
        'url("data:image/'
    )


def test_print_is_light_and_shows_what_changed_or_abstained(visit: Visit, results: Any) -> None:
    visit.page.set_viewport_size({"width": 700, "height": 900})  # A4 without its margins
    visit.page.emulate_media(media="print", color_scheme="dark")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 700
    assert not visit.page.locator("#theme").is_visible()
    assert not visit.page.get_by_text("Click a heading").is_visible()
    assert visit.page.eval_on_selector("figure", "e => getComputedStyle(e).breakInside") == "avoid"
    assert luminance(visit.colour(".card", "backgroundColor")) > 0.9
    assert visit.page.eval_on_selector(".tall", "e => e.scrollHeight <= e.clientHeight + 1")
    changed, base = results[0]
    said = Difference(changed, base).what_happened(0.5)
    telling = [bool(text) or p < 0 for text, p in zip(said, changed.certificates.prediction, strict=True)]
    assert 0 < sum(telling) < 40
    assert visit.page.locator("#inputs tbody tr:visible").count() == sum(telling)
    # A button would be left out of headings that are repeated on each page.
    assert visit.page.eval_on_selector("#inputs th button", "e => getComputedStyle(e).display") == "contents"
    assert visit.page.eval_on_selector("#inputs thead", "e => getComputedStyle(e).display") == "table-header-group"


def test_the_verdict_is_what_the_files_hold(browser: Any, make_result: MakeResult, tmp_path: Path) -> None:
    """From the columns of the files themselves, by hand."""
    for name, seed, method in (("base", 0, "certify"), ("int8", 1, "auto"), ("pruned", 2, "auto")):
        made = make_result(name, seed=seed, method=method)
        c = replace(made.certificates, radius_without_flips=made.certificates.radius * 1.1 if seed else None)
        model = f"net, {name}" if seed else "net"
        stored = replace(made, certificates=c, name=model, model=model, requirements=("accuracy:0.5>=0.3",))
        write_result(stored, tmp_path / f"{name}.parquet")
    read = [read_result(tmp_path / f"{name}.parquet") for name in ("base", "int8", "pruned")]
    (tmp_path / "page.html").write_text(render_page(align(read), RADII), encoding="utf-8")
    opened = Visit(browser, tmp_path / "page.html", viewport={"width": 1400, "height": 900})
    base, *changed = (pq.read_table(tmp_path / f"{name}.parquet").to_pydict() for name in ("base", "int8", "pruned"))

    def certified(table: dict[str, list[Any]], radius: str = "radius") -> set[int]:
        rows = zip(table[radius], table["prediction"], table["label"], strict=True)
        return {i for i, (r, p, y) in enumerate(rows) if p == y and r >= 0.5}

    rows = opened.page.locator(".verdicts tbody tr").all()
    assert [row.locator(".name").inner_text().rstrip(" ▾") for row in rows] == ["original", "int8", "pruned"]
    before = certified(base)
    assert opened.page.locator(".verdicts thead").inner_text().split("\t")[2].split() == ["Still", "certified", "(of", f"{len(before)})"]  # fmt: skip
    change, few, others = [], [], []
    for table, row in zip(changed, rows[1:], strict=True):
        after = certified(table)
        predicted = [p if p >= 0 else q for p, q in zip(table["prediction"], base["prediction"], strict=True)]
        possible = certified({**table, "prediction": predicted}, "radius_without_flips")
        both = [(p, q) for p, q in zip(base["prediction"], table["prediction"], strict=True) if p >= 0 and q >= 0]
        other = {i for i, (p, q) in enumerate(zip(base["prediction"], table["prediction"], strict=True)) if -1 not in (p, q) and p != q}  # fmt: skip
        others.append(f"another class than the original on {len(other)} of {len(both)} inputs that both certify")
        lost = before - after
        to_change = lost & (possible | other)
        change.append(len(to_change))
        few.append(len(lost) - len(to_change))
        cells = {cell.get_attribute("data-label"): cell.inner_text() for cell in row.locator("td[data-label]").all()}
        assert cells[f"Still certified (of {len(before)})"] == str(len(before & after))
        assert cells["Lost: the change"] == str(len(to_change))
        assert cells["Lost: too few samples"] == str(len(lost) - len(to_change))
        assert cells["Gained"] == str(len(after - before))
        flips = sum(table["lost"]) + sum(table["gained"])
        assert float(cells["Votes flipped"].rstrip("%")) == pytest.approx(100 * flips / sum(table["replayed"]), abs=0.06)  # fmt: skip
        assert cells["Passes per input"] == f"{sum(table['forward_passes']) / 40:,.0f}"
        assert "Passes, certifying anew" not in cells  # nothing was: no empty column
        met = len(after) / 40 >= 0.3
        assert row.locator(".pill").inner_text() == ("✓ PASS" if met else "✗ FAIL")
        assert row.locator(".check").inner_text() == f"accuracy at 0.5: {len(after) / 40:.3f}, limit ≥\u00a00.3"
        # The bar: as wide in every row, in parts of these sizes, and in words for who does not see it.
        parts = [n for n in (len(before & after), len(to_change), len(lost) - len(to_change)) if n]
        bar = row.locator(".split")
        widths = [part.bounding_box()["width"] for part in bar.locator("i").all()]
        assert [width / sum(widths) for width in widths] == pytest.approx([n / sum(parts) for n in parts], abs=0.03)
        assert bar.bounding_box()["width"] == pytest.approx(rows[0].locator(".split").bounding_box()["width"], abs=0.1)
        assert re.findall(r"\d+", bar.get_attribute("aria-label")) == [str(n) for n in parts]
    lead = opened.page.locator(".lead").inner_text()
    assert lead.index("meet") < lead.index(f"Of the {len(before)} inputs certified at radius 0.5")
    assert [int(n) for n in re.findall(r"(?:lose|to) (\d+) \(", lead)] == [min(change), max(change)]
    assert f"too few samples another {min(few)} to {max(few)}" in lead
    assert all(text in opened.page.locator(".legend-line").inner_text() for text in others)
    top, bottom = (opened.page.locator(".verdicts").bounding_box()[key] for key in ("y", "height"))
    assert top + bottom < 900  # without scrolling
    opened.page.set_viewport_size({"width": 400, "height": 900})  # rows are cards, which name what they hold
    for cell in opened.page.locator(".verdicts td[data-label]").all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
        assert cell.evaluate("e => getComputedStyle(e, '::before').content") == f'"{cell.get_attribute("data-label")}"'
    opened.page.set_viewport_size({"width": 700, "height": 900})
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 700
    assert opened.page.locator(".verdicts").evaluate("e => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight")  # fmt: skip
    assert opened.page.locator(".verdicts td:visible, .verdicts th:visible").count() == opened.page.locator(".verdicts td, .verdicts th").count()  # fmt: skip
    assert opened.complaints == []
    opened.page.close()


def test_inputs_show_what_was_and_the_largest_losses_first(visit: Visit, results: Any) -> None:
    changed, base = results[0]
    before, after = ([down(r) for r in each.certificates.radius.tolist()] for each in (base, changed))
    order = sorted(range(40), key=lambda i: round(after[i] - before[i], 3))
    assert visit.column("was") == [f"{before[i]:.3f}" if before[i] else "–" for i in order]
    assert visit.column("radius") == [f"{after[i]:.3f}" if after[i] else "–" for i in order]
    first = visit.column("change")[0]
    assert float(first.replace("−", "-")) == pytest.approx(after[order[0]] - before[order[0]])
    said = Difference(changed, base).what_happened(0.5)
    visit.page.locator("#changed").check()
    assert len(visit.column("position")) == sum(map(bool, said))
    for text in sorted({text for text in said if text}):
        visit.page.select_option("#what", text)
        assert len(visit.column("position")) == said.count(text)
    visit.page.select_option("#result", "1")  # nothing changed in the original
    assert visit.page.locator("#changed").is_disabled()
    assert visit.page.locator("th[data-sort=position]").get_attribute("aria-sort") == "ascending"


def test_a_change_of_what_is_shown_is_announced(visit: Visit) -> None:
    said = visit.page.locator("#said")
    assert (said.get_attribute("aria-live"), said.inner_text()) == ("polite", "")
    visit.page.select_option("#result", "1")
    assert said.inner_text().startswith("base is shown: certified at radius 0.5 on")
    visit.page.locator(".verdicts tbody tr", has_text="int8").click()  # a row of the verdict does the same
    assert said.inner_text().startswith("int8 is shown: certified at radius 0.5 on")
    assert visit.page.locator("#result").input_value() == "0"


def test_a_telephone_shows_inputs_as_cards(browser: Any, file: Path) -> None:
    opened = Visit(browser, file, viewport={"width": 400, "height": 900})
    row = opened.page.locator("#inputs tbody tr").first
    assert row.evaluate("e => getComputedStyle(e).display") == "grid"
    names = row.locator("[data-label]").evaluate_all(
        "all => all.filter(e => e.offsetParent).map(e => getComputedStyle(e, '::before').content)"
    )
    assert names == [f'"{n}"' for n in ("Input", "Label", "Prediction", "Original", "Radius", "Change", "Flips", "Passes", "Outcome")]  # fmt: skip
    for cell in row.locator("[data-label]").all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
    opened.page.locator("#sort").select_option("position")  # headings cannot be clicked here
    assert opened.column("position") == [str(i) for i in range(3, 43)]
    opened.page.close()


def test_fifty_thousand_inputs_open_at_once(browser: Any, make_result: MakeResult, tmp_path: Path) -> None:
    rows = np.arange(50_000) % 40
    many = [make_result("base").take(rows), make_result("int8", seed=1, method="auto").take(rows)]
    write_report(many, tmp_path / "report.html", RADII, data=None, split="test")
    size = (tmp_path / "report.html").stat().st_size
    assert size < 5_000_000
    opened = Visit(browser, tmp_path / "report.html", viewport={"width": 1400, "height": 900})
    assert opened.page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart") < 5_000
    assert opened.page.locator("#inputs tbody tr").count() == 1_000
    certified = int(
        (
            many[0].certificates.certified
            & (many[0].certificates.prediction == many[0].labels)
            & (many[0].certificates.radius >= 0.5)
        ).sum()
    )
    assert certified > 10_000
    assert f"Of the {certified:,} inputs certified at radius 0.5" in opened.page.locator(".lead").inner_text()
    link = opened.page.locator(".inputs a").first
    assert link.get_attribute("href") == "report-inputs.csv"
    assert (tmp_path / "report-inputs.csv").read_text().count("\n") == 50_001
    opened.page.close()


def test_a_hostile_result_runs_nothing(browser: Any, make_result: MakeResult, tmp_path: Path) -> None:
    (tmp_path / "hostile.html").write_text(render_page(hostile(make_result), RADII), encoding="utf-8")
    opened = Visit(browser, tmp_path / "hostile.html", viewport={"width": 400, "height": 900})
    opened.page.select_option("#result", "1")
    assert opened.page.evaluate("typeof window.hacked") == "undefined"
    assert HOSTILE in opened.page.locator("h2.of:visible").inner_text()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert opened.complaints == []
    assert len(opened.requests) == len([url for url in opened.requests if url.startswith("data:")]) + 1
    opened.page.close()
