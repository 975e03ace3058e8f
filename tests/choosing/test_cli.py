"""recert select: what it prints, its exit codes, and what it refuses."""

import json
from pathlib import Path

import pytest
from safetensors.torch import save_file

from recert import Gaussian
from recert.approximations import Calibration, approximate
from recert.data import load_data
from recert.models import load_model
from tests.test_cli import SMALL, recert

CHOICE = ["--metric", "accuracy:0.1", "--tolerance", "0.4"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("select") / "run")
    run = recert("certify", *SMALL, "--samples", "400", "--store", folder)
    assert run.returncode == 0, run.stderr
    return folder


def test_json_pictures_and_certificates_of_the_winner(store: str, tmp_path: Path) -> None:
    files = ["--out", str(tmp_path / "winner.csv"), "--picture", str(tmp_path / "p.svg")]
    run = recert(
        "select",
        *SMALL,
        "--store",
        store,
        *CHOICE,
        "-c",
        "prune:0.1,prune:0.2",
        "-c",
        "bf16-weights",
        "-f",
        "json",
        *files,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["winner"] in ("prune:0.1", "prune:0.2", "bf16-weights")
    assert len(found["candidates"]) == 3
    assert "holds with probability at least 0.998" in run.stderr
    assert len((tmp_path / "winner.csv").read_text().splitlines()) == 7
    assert "<svg" in (tmp_path / "p.svg").read_text()


def test_none_leaves_with_3_and_a_table(store: str, tmp_path: Path) -> None:
    call = ["select", *SMALL, "--store", store, "--metric", "accuracy:0.1", "--tolerance", "0", "-c", "prune:0.99"]
    run = recert(*call, "-o", str(tmp_path / "all.json"))
    assert run.returncode == 3, run.stderr
    assert "dropped in the race" in run.stdout
    assert "No candidate was certified" in run.stderr
    assert json.loads((tmp_path / "all.json").read_text())["winner"] is None


BAD = {
    "unknown spec": (["-c", "shrink:0.5"], "approximations"),
    "wrong argument": (["-c", "prune:2"], "fraction 0 < F < 1"),
    "another model's store": (["--model", "digits:0.25", "-c", "prune:0.1"], "model weights"),
    "other inputs": (["-c", "prune:0.1", "--every", "2"], "not in the cache"),
    "unknown cost": (["-c", "prune:0.1", "--cost", "karma"], "bytes, parameters, latency"),
    "no candidates": (["-c", ","], "at least one candidate"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line(store: str, name: str) -> None:
    extra, message = BAD[name]
    run = recert("select", *SMALL, "--store", store, *extra)
    line = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 1, run.stderr
    assert line.startswith("error: ")
    assert message in line


def test_help_shows_an_example() -> None:
    shown = recert("select", "--help")
    assert shown.returncode == 0
    assert "Example: recert select" in " ".join(shown.stdout.split())


def test_candidates_may_be_files(store: str, tmp_path: Path) -> None:
    """A network that was pruned elsewhere, as weights; and one that was quantised, as an ONNX file."""
    data, model = load_data("digits", split="train", count=64), load_model("digits").model
    pruned = approximate(model, "prune:0.3", example_input=data.inputs[:2]).model
    save_file(pruned.state_dict(), tmp_path / "pruned.safetensors")
    quantised = approximate(model, "int8", calibration=Calibration(data.inputs, noise=Gaussian(0.5))).model
    (tmp_path / "int8.onnx").write_bytes(quantised.content)
    files = [f"digits@{tmp_path / 'pruned.safetensors'}", str(tmp_path / "int8.onnx")]
    run = recert("select", *SMALL, "--store", store, *CHOICE, "-c", ",".join([*files, "prune:0.3"]), "-f", "json")
    assert run.returncode == 0, run.stderr
    entries = {entry["name"]: entry for entry in json.loads(run.stdout)["candidates"]}
    assert set(entries) == {*files, "prune:0.3"}
    assert entries[files[0]]["cost"] == entries["prune:0.3"]["cost"]
    assert entries[files[0]]["predicted"] == entries["prune:0.3"]["predicted"]
    assert entries[files[1]]["cost"] < entries["prune:0.3"]["cost"]
