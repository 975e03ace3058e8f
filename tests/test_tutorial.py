"""The tutorial: its programs run one after the other, and print what the page says they print, numbers included."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"
NUMBER = re.compile(r"\d[\d,]*\.?\d*(?![a-z])")
BLOCKS = re.findall(r"^```(python|text)\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.M | re.S)


def differences(printed: str, promised: str) -> list[str]:
    """Where a line differs from the page's: in its words at all, or in a number by more than a vote or two explain."""
    ours, theirs = printed.strip().splitlines(), promised.strip().splitlines()
    if len(ours) != len(theirs):
        return [f"expected {len(theirs)} lines, got {len(ours)}"]
    found = []
    for mine, other in zip(ours, theirs, strict=True):
        same = NUMBER.sub("#", mine) == NUMBER.sub("#", other)
        pairs = zip(NUMBER.findall(mine), NUMBER.findall(other), strict=True) if same else ()
        values = [[float(text.replace(",", "")) for text in pair] for pair in pairs]
        if not same or any(abs(a - b) > max(0.011, 0.05 * abs(b)) for a, b in values):
            found.append(f"expected {other!r}, got {mine!r}")
    return found


def test_a_difference_is_noticed() -> None:
    assert differences("radius 0.641, 507", "radius 0.642, 507") == []
    assert differences("radius 0.60", "radius 0.642") != []
    assert differences("2 models", "3 models") != []
    assert differences("one line", "one line\ntwo") != []
    assert differences("lost", "gained") != []


def test_the_tutorial_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    outputs: list[tuple[str, str]] = []
    waiting = ""
    for kind, block in BLOCKS:
        if kind == "text":
            outputs.append((waiting, block))
            waiting = ""
            continue
        assert waiting == "", f"a program prints, and the page does not say what: {waiting}"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block, "tutorial.md", "exec"), names)
        waiting = out.getvalue()
    assert waiting == ""
    assert len(outputs) >= 9
    assert [difference for printed, promised in outputs for difference in differences(printed, promised)] == []
