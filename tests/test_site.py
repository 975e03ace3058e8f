"""The documentation site: it builds without a warning, loads nothing from elsewhere, and search works in pages opened from disk."""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'recert[docs]'")

from tests.report.test_browser import Visit, browser, contrast  # noqa: F401 (a fixture)
from tools import site_pages

ROOT = Path(__file__).parent.parent


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(folder),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0, built.stderr
    return folder


class Loads(HTMLParser):
    """What a page loads, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        here = dict(attrs)
        names = ("href",) if tag == "link" else ("src", "srcset", "poster", "data")
        self.loaded += [value for name in names if (value := here.get(name))]
        self.links += [value] if tag == "a" and (value := here.get("href")) else []
        self.anchors |= {value for name in ("id", "name") if (value := here.get(name))}


def parsed(page: Path) -> Loads:
    found = Loads()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def test_doctests_of_the_hook() -> None:
    assert doctest.testmod(site_pages).failed == 0


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        for address in parsed(page).loaded:
            assert not re.match(r"[a-z]+:|//", address) or address.startswith("data:"), f"{page.name} loads {address}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet.name


def test_every_link_and_picture_of_every_page_is_there(site: Path) -> None:
    pages = {page: parsed(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, found in pages.items():
        for address in (*found.links, *found.loaded):
            path, _, anchor = address.partition("#")
            if re.match(r"[a-z]+:", address):
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {address}"
            if anchor and target in pages:
                assert anchor in pages[target].anchors, f"{page.name}: {address}"


def test_readme_changelog_contributing_examples_and_results_are_pages(site: Path) -> None:
    for page in (
        "index",
        "changelog",
        "contributing",
        "results",
        "api",
        "examples/fine_tuned.py",
        "examples/quickstart.ipynb",
    ):
        assert (site / f"{page}.html").is_file(), page
    first = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="your-own-model.html"' in first
    assert 'src="pictures/' in first
    assert "optimiser.step()" in re.sub(
        r"<[^>]+>", "", (site / "examples" / "fine_tuned.py.html").read_text(encoding="utf-8")
    )


def test_markdown_is_understood_as_it_is_meant(site: Path) -> None:
    """mkdocs reads Markdown otherwise than some: a list needs an empty line before it, and no mark-up is left over."""
    for page in site.rglob("*.html"):
        article = re.search(r"<article.*</article>", page.read_text(encoding="utf-8"), re.S)
        text = re.sub(r"(?s)<(pre|code|script).*?</\1>", "", article[0]) if article else ""
        assert not re.search(r"\*\*|\]\(", text), page.name
        for paragraph in re.findall(r"(?s)<p>(.*?)</p>", text):
            assert not re.search(r"\n(- |\d+\. |\|)", paragraph), f"{page.name}: {paragraph}"


@pytest.mark.parametrize("wrong", ["[a](nowhere.md)", "[a](theory.md#no-such-heading)", '<img src="nothing.png">'])
def test_a_link_that_leads_nowhere_fails_the_build(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "theory.md").write_text(f"# Theory\n\n{wrong}\n")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    settings = settings.replace("tools/site_pages.py", str(ROOT / "tools" / "site_pages.py"))
    (tmp_path / "mkdocs.yml").write_text(settings)
    built = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert built.returncode != 0
    assert re.search(r"WARNING.*(nowhere\.md|no-such-heading|nothing\.png)", built.stderr), built.stderr


@pytest.fixture
def visit(browser: Any, site: Path) -> Iterator[Visit]:  # noqa: F811
    opened = Visit(browser, site / "index.html", viewport={"width": 1400, "height": 900})
    yield opened
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "about:", "blob:"))] == []
    opened.page.close()


def test_search_finds_a_word_in_pages_opened_from_disk(visit: Visit) -> None:
    visit.page.locator("input.md-search__input").press_sequentially("clopper")
    result = visit.page.locator(".md-search-result__link").first
    result.wait_for(timeout=20_000)
    assert "Clopper" in visit.page.locator(".md-search-result__list").inner_text()
    result.click()
    assert "clopper" in visit.page.locator("article").inner_text().lower()  # in some pages only the name of a function


def test_both_themes_are_there(visit: Visit) -> None:
    colours = []
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        visit.page.reload()
        colours.append(visit.colour("body", "backgroundColor"))
    assert colours[0] == "#ffffff"
    assert int(colours[1][1:3], 16) < 64


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_links_and_the_header_can_be_read(visit: Visit, scheme: str) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    visit.page.reload()
    assert contrast(visit.colour("article p a", "color"), visit.colour("body", "backgroundColor")) >= 4.5
    assert contrast(visit.colour(".md-header", "color"), visit.colour(".md-header", "backgroundColor")) >= 4.5


@pytest.mark.parametrize("width", [400, 1400])
def test_no_page_is_wider_than_the_window(browser: Any, site: Path, width: int) -> None:  # noqa: F811
    page = browser.new_page(viewport={"width": width, "height": 900})
    for name in ("index", "tutorial", "results", "theory", "cli", "coming-from"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.close()
