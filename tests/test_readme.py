"""What the README shows works: the Python example runs, the commands exist, the links lead somewhere."""

import contextlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(tmp_path: Path) -> None:
    example = re.search(r"<!-- a test runs this -->\n```python\n(.*?)```", README, re.S)
    assert example is not None
    assert len([line for line in example[1].splitlines() if line.strip()]) <= 12
    before, out = Path.cwd(), io.StringIO()
    os.chdir(tmp_path)
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(example[1], "README.md", "exec"), {})
    finally:
        os.chdir(before)
    assert "with probability at least 0.998" in out.getvalue()
    assert (tmp_path / "runs" / "digits" / "_manifest.json").exists()


def test_the_example_at_a_radius_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "at-radius.md").read_text()
    example = re.search(r"<!-- a test runs this -->\n```python\n(.*?)```", page, re.S)
    assert example is not None
    monkeypatch.chdir(tmp_path)
    out, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(out):
        exec(compile(example[1], "at-radius.md", "exec"), names)
    result, cache = names["result"], names["cache"]
    # What the page promises: a few dozen passes for most, and no fewer certified than by the cache's own bounds but for a few.
    assert result.settings.at == (0.5,)
    assert sorted(result.forward_passes)[10] < 200
    assert result.certified.sum() >= (cache.certificates.radius >= 0.5).sum() - 3


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^\$ make (\w+)", README, re.M):
        assert re.search(rf"^{command}:", makefile, re.M)


def test_links_of_the_documentation_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_speedups_in_the_readme_are_those_of_the_results() -> None:
    lines = README.splitlines()
    start = lines.index("| change | irs, published | irs, run here | **recert, one-sided** | recert, default |") + 2
    rows = [line.strip("| ").split(" | ") for line in lines[start : start + 5]]
    files = {
        "fp16": "fp16",
        "bf16": "bf16",
        "int8 (integers computed in floating point)": "int8-twin",
        "pruned by 10%": "prune-0.1",
        "pruned by 20%": "prune-0.2",
    }
    assert [row[0] for row in rows] == list(files)
    reported = json.loads((ROOT / "studies" / "paper.json").read_text())["speedup"]["cells"]["cifar-resnet110"]["1.0"]
    extremes = []
    for change, published, irs, one_sided, two_sided in rows:
        found = json.loads(
            (ROOT / "results" / "speedup" / f"cifar-resnet110-1.0-{files[change]}-n10000.json").read_text()
        )["speedups"]
        shown = {"irs one-sided over scratch one-sided": irs, "auto one-sided over scratch one-sided": one_sided.strip("*"),
                 "auto two-sided over scratch two-sided": two_sided}  # fmt: skip
        for cell, number in shown.items():
            assert f"{found[cell]['by area']['value']:.2f}" == number
        extremes.append(found["auto two-sided over scratch one-sided"]["by area"]["value"])
        assert f"{reported[files[change].removesuffix('-twin').replace('-', ':')]:.2f}" == published
    assert f"{min(extremes):.2f} (int8) to {max(extremes):.2f} (fp16) times" in README.replace("\n", " ")


def test_seconds_in_the_readme_are_those_of_the_page_on_performance() -> None:
    rows = re.findall(r"^\| 10,000 \| .* \| two-sided \| .*", (ROOT / "docs" / "performance.md").read_text(), re.M)
    assert len(rows) == 4
    passes, seconds = zip(*(tuple(map(float, row.strip("| ").split(" | ")[-2:])) for row in rows), strict=True)
    said = f"{min(seconds)} to {max(seconds)} times faster than certifying anew with the same kind of certificate, where passes were"
    assert f"{said} {min(passes)} to {max(passes)} times fewer" in README.replace("\n", " ")


def test_no_line_of_code_is_cut_at_the_width_of_a_page_of_github() -> None:
    """Of 830 pixels, 16 are left free on both sides, and a letter takes 8.2."""
    blocks = re.findall(r"```\w+\n(.*?)```", README, re.S)
    assert len(blocks) > 5
    assert [line for block in blocks for line in block.splitlines() if len(line) > 97] == []


def test_decisions_at_a_radius_in_the_readme_are_those_of_the_results() -> None:
    found = json.loads((ROOT / "results" / "at-radius" / "cifar-resnet20-0.5-int8-n8500.json").read_text())["radii"][
        "0.5"
    ]
    shown = {
        "**recert, from 8,500 cached votes** of the float32 network": "cache one-sided",
        "recert, new votes": "scratch one-sided",
        "Voráček's betting": "Voracek",
        "Horváth's stages": "Horvath",
        "a fixed number of votes (Cohen et al.)": "Cohen, n = 9,500",
    }
    for name, arm in shown.items():
        # The last of several is without a limit but the number of cached votes.
        passes, share = (np.ravel(found[arm][of])[-1] for of in ("passes", "share"))
        (row,) = [line for line in README.splitlines() if line.startswith(f"| {name} | ")]
        assert row.replace("*", "").strip("| ").split(" | ")[1:] == [f"{passes:,.0f}", f"{share:.1%}"]
