"""recert compress: the file, the table, and that it is the model that recertify makes."""

import json
from pathlib import Path

import numpy as np
import pytest

from recert.models import load_model
from recert.models.digest import identify
from recert.report import read_result
from tests.test_cli import SMALL, recert


def test_it_makes_the_model_that_recertify_makes(tmp_path: Path) -> None:
    file, result = tmp_path / "made.onnx", tmp_path / "r.parquet"
    run = recert(
        "compress",
        "-m",
        "digits",
        "-a",
        "int8[!fc2]",
        "-d",
        "digits",
        "--noise",
        "gaussian:0.25",
        "-o",
        str(file),
        "-f",
        "json",
    )
    assert run.returncode == 0, run.stderr
    before, after = json.loads(run.stdout)
    assert (before["model"], after["model"]) == ("digits", "int8[!fc2]")
    assert after["bytes of file"] == file.stat().st_size
    assert before["bytes of weights"] == 38_282 * 4
    assert min(before["ms per batch"], after["ms per batch"]) > 0
    store = str(tmp_path / "store")
    assert recert("certify", *SMALL, "--noise", "gaussian:0.25", "--samples", "100", "--store", store).returncode == 0
    run = recert(
        "recertify",
        *SMALL,
        "--store",
        store,
        "--samples",
        "20",
        "-a",
        "int8[!fc2]",
        "-o",
        str(result),
        "--no-keep-votes",
    )
    assert run.returncode == 0, run.stderr
    assert "int8[!fc2]" in run.stdout
    identity = identify(load_model(file).model)
    assert read_result(result).certificates.settings.model == {
        "weights": identity.weights,
        "structure": identity.structure,
    }


def test_without_data_and_in_a_table(tmp_path: Path) -> None:
    file = tmp_path / "made.safetensors"
    run = recert("compress", "-m", "digits", "-a", "prune:0.5[fc1]", "-o", str(file))
    assert run.returncode == 0, run.stderr
    assert "prune:0.5[fc1]" in run.stdout
    weights = load_model(file).model.state_dict()
    assert {name for name, tensor in weights.items() if (tensor == 0).any()} == {"fc1.weight"}


def test_names_with_brackets_are_shown_and_rules_written_out(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    assert recert("certify", *SMALL, "--samples", "200", "--store", store).returncode == 0
    run = recert(
        "select", *SMALL, "--store", store, "--metric", "accuracy:0.1", "--tolerance", "0.4", "-c", "prune:0.1..0.3/0.1[fc1]",
        "--save", str(tmp_path / "winner.onnx"),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert all(f"prune:0.{i}[fc1]" in run.stdout for i in (1, 2, 3))
    assert "does not fit into winner.onnx: it is saved as winner.safetensors" in " ".join(run.stderr.split())
    saved = load_model(tmp_path / "winner.safetensors").model
    original = load_model("digits").model
    changed = {n for n, t in original.state_dict().items() if not np.array_equal(t, saved.state_dict()[n])}
    assert changed == {"fc1.weight"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-a", "int8", "-o", "m.onnx"], "expected --data for int8"),
        (["-a", "prune:0.5", "-o", "m.pt"], "expected an output file ending in .safetensors or .onnx"),
        (["-a", "prune:0.5[nothing]", "-o", "m.safetensors"], "the layers are conv1, conv2, fc1, fc2"),
        (["-a", "nothing", "-o", "m.safetensors"], "expected one of the known approximations"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, tmp_path: Path) -> None:
    run = recert("compress", "-m", "digits", *arguments, cwd=tmp_path)
    assert run.returncode == 1
    assert message in run.stderr
    assert list(tmp_path.iterdir()) == []
