"""The style of figures: distinct without colour, the same bytes on any day, matplotlib only when it is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from recert.figures import BASELINE, SERIES, new_figure, paper_style, save, series


def luminance(colour: str) -> float:
    """Relative luminance by the definition of WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_series_differ_without_colour_and_stand_out_from_paper() -> None:
    assert len({(s.dash, s.marker) for s in (BASELINE, *SERIES)}) == len(SERIES) + 1
    for colour in (BASELINE.colour, *(s.colour for s in SERIES)):
        assert 1.05 / (luminance(colour) + 0.05) >= 3
    assert series(len(SERIES) + 1) == SERIES[1]


def draw(directory: Path) -> list[Path]:
    with paper_style():
        figure, (left, right) = new_figure(2)
        left.plot([1, 2, 3], [1, 4, 9], label="a")
        right.plot([1, 2, 3], [1, 4, 9], label="b", **series(1).keywords)
        right.legend()
        return save(figure, directory, "parabola")


def test_a_figure_is_saved_in_three_formats_with_the_same_bytes_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = draw(tmp_path / "one")
    assert [p.suffix for p in first] == [".pdf", ".svg", ".png"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")  # another day
    second = draw(tmp_path / "two")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    assert first[0].read_bytes().startswith(b"%PDF")
    assert b"<svg" in first[1].read_bytes()
    assert first[2].read_bytes().startswith(b"\x89PNG")


def test_the_style_ends_with_its_block_and_ignores_the_users_own() -> None:
    import matplotlib

    with matplotlib.rc_context({"lines.linewidth": 9.0, "xtick.direction": "in"}):
        with paper_style():
            assert matplotlib.rcParams["lines.linewidth"] < 9
            assert matplotlib.rcParams["xtick.direction"] == "out"
        assert matplotlib.rcParams["lines.linewidth"] == 9.0


def test_importing_the_style_does_not_import_matplotlib() -> None:
    program = "import sys, recert.figures; sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
