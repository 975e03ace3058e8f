"""The tutorial: its programs run one after the other, and print what the page says they print, numbers included."""

import re
import subprocess
import sys
from pathlib import Path

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


def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    """In a process of its own, as a reader would: looks at a cache are counted by the process."""
    steps: list[list[str]] = []
    for kind, block in BLOCKS:
        if kind == "python":
            steps.append([block, ""])
        else:
            steps[-1][1] += block
    assert sum(promised != "" for _, promised in steps) >= 9
    end = "end of a step"
    program = "".join(f"{block}print({end!r})\n" for block, _ in steps)
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    printed = run.stdout.split(f"{end}\n")[:-1]
    assert [
        difference
        for mine, (_, promised) in zip(printed, steps, strict=True)
        for difference in differences(mine, promised)
    ] == []
