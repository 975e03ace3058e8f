"""The script of all that needs a GPU: every part calls studies that exist, with options that they have. It is run with `echo` in place of Python."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from studies import STUDIES
from studies.__main__ import app

SCRIPT = Path(__file__).parents[2] / "studies" / "on_gpu.sh"
PARTS = re.findall(r"^#   (\w+) ", SCRIPT.read_text(), re.M)

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def commands(folder: Path, part: str) -> list[list[str]]:
    """What a part would run, on a GPU."""
    for store in (
        "studies/tiny-resnet50-0.5-original",
        "studies/efficientnet-lite0-0.12-original",
        "studies/cifar-resnet20-1.0-original",
        "large/tiny-resnet50-1.0-original",
    ):
        (folder / "runs" / store).mkdir(parents=True, exist_ok=True)
    (folder / "runs" / "networks").mkdir(exist_ok=True)
    (folder / "runs" / "networks" / "cifar-resnet110-1.safetensors").touch()
    environment = {**os.environ, "PYTHON": "echo", "DATA": "data", "OUT": "out", "AT_ONCE": "1"}
    done = subprocess.run(
        ["bash", str(SCRIPT), part], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("-m studies ")]


def test_the_head_of_the_script_names_its_parts() -> None:
    defined = set(re.findall(r"^(\w+)\(\)", SCRIPT.read_text(), re.M))
    assert len(PARTS) == 12
    assert set(PARTS) <= defined


@pytest.mark.parametrize(
    "part",
    ["efficientnet", "resnet50", "headline50", "followed", "resnet20", "radius", "million", "resnet110", "tables"],
)
def test_every_part_calls_studies_with_options_that_they_have(tmp_path: Path, part: str) -> None:
    known = {name for each in typer.main.get_command(app).params for name in (*each.opts, *each.secondary_opts)}
    found = commands(tmp_path, part)
    assert found
    for _, _, *arguments in found:
        assert set(arguments) & set(STUDIES), arguments
        assert {word for word in arguments if word.startswith("--")} <= known
        assert ("--no-draw" in arguments) == (part == "tables")
        assert ("--device" in arguments) == (part != "tables")


def test_tables_are_made_of_the_stores_that_are_there(tmp_path: Path) -> None:
    made = [" ".join(each) for each in commands(tmp_path, "tables")]
    assert (
        sum(
            "--networks tiny-resnet50 --sigmas 0.25,0.5,1.0 --count 200" in each and " speedup " in each
            for each in made
        )
        == 8
    )
    assert any(" headline " in each and "--store runs/large" in each for each in made)
    assert not any("cifar-resnet110" in each or "followed" in each for each in made)
