"""The pictures of the documentation are not older than what they show."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
NAMES = ["how", "digits", "bounds", "allocation", "report"]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """docs/make_pictures.py, which is a script of the repository and no module of the package."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        spec = importlib.util.spec_from_file_location("make_pictures", ROOT / "docs" / "make_pictures.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return module


def test_every_picture_is_named_here(maker: ModuleType) -> None:
    assert list(maker.MAKERS) == list(maker.SOURCES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_made_by_the_code_as_it_is(maker: ModuleType, name: str) -> None:
    recorded = json.loads((PICTURES / "made-from.json").read_text())
    assert maker.digest(name) == recorded[name], f"run: make pictures PICTURES={name}"


def test_the_drawing_shows_the_numbers_as_they_are(maker: ModuleType) -> None:
    story = maker.story()
    for palette in ("light", "dark"):
        shown = re.sub(r"<[^>]*>", "\n", (PICTURES / f"how-it-works-{palette}.svg").read_text())
        for expected in (
            f"{story.votes:,} of 10,000 votes for “2”",
            f"radius {story.radius:.3f}",
            f"{story.first_passes:,} passes",
            f"radius {story.new_radius:.3f}",
            f"{story.passes:,} passes",
        ):
            assert expected in shown


def test_pictures_that_pages_show_exist_and_are_shown() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"pictures/([\w-]+\.(?:png|svg))", page.read_text())}
    assert shown == {path.name for path in PICTURES.iterdir() if path.suffix in (".png", ".svg")}
