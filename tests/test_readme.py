"""What the README shows works: the Python example runs, the commands exist, the links lead somewhere."""

import contextlib
import io
import os
import re
from pathlib import Path

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


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^\$ make (\w+)", README, re.M):
        assert re.search(rf"^{command}:", makefile, re.M)


def test_links_of_the_documentation_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
