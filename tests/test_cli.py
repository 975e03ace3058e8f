"""The command line: what it prints where, exit codes, bad input, and that --help does not load torch."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recert.cli import main
from recert.report import read_result

ROOT = Path(__file__).parent.parent
SMALL = ["--model", "digits", "--data", "digits", "--count", "6"]


@dataclass
class Finished:
    returncode: int
    stdout: str
    stderr: str


def recert(*arguments: str, cwd: Path | None = None) -> Finished:
    """The command line in this process: arguments, exit code and both outputs are those of a real call."""
    out, err = io.StringIO(), io.StringIO()
    before, where = sys.argv, Path.cwd()
    sys.argv = ["recert", *arguments]
    os.chdir(cwd or where)
    code: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as stop:
                code = stop.code
            except BaseException:
                traceback.print_exc()
                code = 1
    finally:
        sys.argv = before
        os.chdir(where)
    return Finished(int(code or 0), out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    run = recert("certify", *SMALL, "--samples", "400", "--store", str(folder))
    assert run.returncode == 0, run.stderr
    return folder


def test_help_needs_no_torch_and_shows_an_example() -> None:
    program = "import sys; from recert.cli import app; sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
    for command in (
        ["certify"],
        ["recertify"],
        ["compare"],
        ["train"],
        ["compress"],
        ["bundle"],
        ["check"],
        ["predict"],
        ["demo"],
        ["cache", "show"],
        ["models"],
    ):
        shown = recert(*command, "--help")
        assert shown.returncode == 0
        assert "Example: recert " + " ".join(command) in " ".join(shown.stdout.split())


def test_every_option_of_help_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in ("certify", "recertify", "compare", "train"):
        section = page.split(f"## `recert {command}`")[1].split("\n## ")[0]
        words = {word.strip("│,.:;]") for word in recert(command, "--help").stdout.split()}
        options = {word for word in words if word.startswith("--") and len(word) > 3} - {"--help"}
        assert len(options) > 8
        assert all(f"`{option}`" in section for option in options)


def test_formats_go_to_stdout_and_remarks_to_stderr(store: Path) -> None:
    call = ["certify", *SMALL, "--samples", "400", "--store", str(store)]
    as_json = recert(*call, "--format", "json")
    rows = json.loads(as_json.stdout)
    assert rows[0]["model"] == "digits"
    assert "with probability at least 0.999" in as_json.stderr
    as_csv = list(csv.DictReader(io.StringIO(recert(*call, "--format", "csv").stdout)))
    assert float(as_csv[0]["ACR"]) == rows[0]["ACR"]
    assert "ACR" in recert(*call).stdout


def test_certify_with_a_plan(tmp_path: Path) -> None:
    folder, out = str(tmp_path / "s"), tmp_path / "rows.csv"
    call = ["certify", *SMALL, "--samples", "400", "--store", folder]
    run = recert(*call, "--plan", "acr", "--out", str(out))
    assert run.returncode == 0, run.stderr
    assert "plan acr, 400 in the mean" in run.stderr
    assert "recert recertify" not in run.stderr
    with out.open() as file:
        votes = [int(row["samples"]) for row in csv.DictReader(file)]
    assert len(set(votes)) > 1
    assert sum(votes) <= 6 * 400
    shown = json.loads(recert("cache", "show", folder, "-f", "json").stdout)
    assert shown[0]["votes shared out by plan"] == "acr"
    refused = recert("recertify", *SMALL, "--store", folder, "--samples", "50", "-a", "prune:0.1")
    assert refused.returncode == 1
    assert "--plan uniform" in refused.stderr
    assert recert(*call, "--plan", "acr", "--proxy", "fp16").returncode == 1


def test_recertify_writes_a_row_per_input(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "log.tsv"
    run = recert(
        "recertify", *SMALL, "--store", str(store), "--samples", "50", "-a", "prune:0.1", "-o", str(out), "-f", "json"
    )
    assert run.returncode == 0, run.stderr
    assert len(out.read_text().splitlines()) == 7
    assert json.loads(run.stdout)[0]["passes per input"] <= 60


def test_a_budget_beyond_half_of_the_cache_is_not_cut_in_silence(store: Path) -> None:
    call = ["recertify", *SMALL, "--store", str(store), "-a", "prune:0.1", "--method", "series"]
    assert "with 400 cached votes series gives no input more than 200" in " ".join(
        recert(*call, "--samples", "300").stderr.split()
    )
    assert "cached votes" not in recert(*call, "--samples", "200").stderr


def test_auto_goes_beyond_half_of_the_cache_and_says_when_that_saves_hardly_any_passes(store: Path) -> None:
    call = ["recertify", *SMALL, "--store", str(store), "-a", "prune:0.1", "-f", "json"]
    with pytest.warns(UserWarning, match="fresh votes alone .* certifying anew .* may be as fast"):
        run = recert(*call, "--samples", "6000")
    assert json.loads(run.stdout)[0]["passes per input"] > 200
    assert "gives no input more" not in run.stderr


def test_compare_shows_speedups_over_both_baselines(store: Path) -> None:
    run = recert(
        "compare",
        *SMALL,
        "--store",
        str(store),
        "-a",
        "prune:0.1",
        "--budgets",
        "5%,10%",
        "--baseline-budgets",
        "5%,50%",
        "--out",
        str(store.parent / "new" / "compared.json"),
        "--methods",
        "auto,series,irs",
        "--all",
        "--format",
        "json",
    )
    assert run.returncode == 0, run.stderr
    written = json.loads((store.parent / "new" / "compared.json").read_text())
    assert written["rows"] == json.loads(run.stdout)
    assert {row["method"] for row in written["rows"]} == {"auto", "series", "irs", "scratch", "scratch-cached"}
    assert "over scratch-cached, by area" in written["speed-ups"][0]
    again = recert(
        "compare", *SMALL, "--store", str(store), "-a", "prune:0.1", "--budgets", "10%", "--baseline-budgets", "50%", "--methods", "auto",
        "-o", str(store.parent / "c.csv"),
    )  # fmt: skip
    assert "by area" not in again.stdout
    assert "scratch-cached" not in again.stdout
    with (store.parent / "c.csv").open() as file:
        assert [row["samples"] for row in csv.DictReader(file)] == ["40", "200", "200"]
    refused = recert("compare", *SMALL, "--store", str(store), "-o", "c.tsv")
    assert refused.returncode == 1
    assert "expected an output file ending in .csv or .json" in refused.stderr


def test_compare_gives_its_answer_first(store: Path, tmp_path: Path) -> None:
    call = [
        "compare",
        *SMALL,
        "--store",
        str(store),
        "-a",
        "prune:0.1,bf16-weights",
        "-a",
        "prune:0.2",
        "--budgets",
        "5%,10%",
    ]
    wide = [*call, "--baseline-budgets", "5%,10%,20%,50%"]
    run = recert(*wide, "-o", str(tmp_path / "c.json"), "-f", "json")
    assert run.returncode == 0, run.stderr
    found = json.loads((tmp_path / "c.json").read_text())
    assert found["answer"] == json.loads(run.stdout)
    assert [row["change"] for row in found["answer"]] == ["prune:0.1", "bf16-weights", "prune:0.2"]
    for row in found["answer"]:
        own = [each for each in found["rows"] if each["change"] == row["change"]]
        ours = [each for each in own if each["method"] == "auto"][-1]
        assert (row["passes per input"], row["ACR"]) == (ours["passes per input"], ours["ACR"])
        # Between the two budgets of the baseline that reach less and more, passes and seconds are shared out by the radius.
        scratch = [each for each in own if each["method"] == "scratch"]
        (below, above) = next(pair for pair in pairwise(scratch) if pair[0]["ACR"] <= row["ACR"] <= pair[1]["ACR"])
        share = (row["ACR"] - below["ACR"]) / (above["ACR"] - below["ACR"])
        for name, key in (("passes from scratch", "passes per input"), ("seconds from scratch", "seconds")):
            assert row[name] == pytest.approx(below[key] + share * (above[key] - below[key]))
        assert row["times fewer"] == pytest.approx(row["passes from scratch"] / ours["passes per input"])
    table = recert(*wide).stdout.splitlines()
    assert [line.split()[0] for line in table[-4:]] == ["original", "prune:0.1", "bf16-weights", "prune:0.2"]
    low = recert(*call, "--baseline-budgets", "3%")
    assert len(re.findall("> [0-9]", low.stdout)) == 9
    assert "reaches less" in low.stderr


def test_the_original_is_above_what_was_made_of_it(store: Path) -> None:
    call = ["recertify", *SMALL, "--store", str(store), "--samples", "50", "-a", "prune:0.1"]
    original = json.loads(recert("certify", *SMALL, "--samples", "400", "--store", str(store), "-f", "json").stdout)[0]
    lines = recert(*call).stdout.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["original", "digits,"]
    assert abs(float(lines[-2].split()[1]) - original["ACR"]) <= 0.001
    assert len(json.loads(recert(*call, "-f", "json").stdout)) == 1


def test_a_result_holds_what_it_is_about_and_what_was_required(store: Path, tmp_path: Path) -> None:
    call = [
        "recertify",
        *SMALL,
        "--store",
        str(store),
        "--samples",
        "50",
        "-a",
        "prune:0.1",
        "--require",
        "abstained<=1",
    ]
    assert recert(*call, "-o", str(tmp_path / "r.parquet")).returncode == 0
    found = read_result(tmp_path / "r.parquet")
    assert (found.name, found.model, found.data) == ("digits, prune:0.1", "digits, prune:0.1", "digits test")
    assert found.requirements == ("abstained<=1",)
    assert found.certificates.radius_without_flips is not None


def test_models_says_how_to_name_ones_own() -> None:
    table, data = recert("models").stdout, json.loads(recert("models", "--format", "json").stdout)
    for form in ("PACKAGE.MODULE:FACTORY[@FILE]", "FILE.onnx", "torchvision:NAME[@FILE]"):
        assert form in table
    assert [entry["model"] for entry in data] == ["digits", "cifar-resnet20", "cifar-resnet110"]


def test_what_to_expect_is_said_before_a_vote_is_drawn(store: Path) -> None:
    before = sorted(store.rglob("*"))
    run = recert("recertify", *SMALL, "--store", str(store), "-a", "bf16", "--samples", "40", "--dry-run")
    assert "passes per input  mean radius  from scratch" in run.stderr
    assert "nothing is claimed" in run.stderr
    assert "passes per input" not in recert(
        "recertify", *SMALL, "--store", str(store), "--method", "irs", "--dry-run"
    ).stderr  # fmt: skip
    (facts,) = json.loads(recert("cache", "show", str(store), "--format", "json").stdout)
    (expected,) = [value for name, value in facts.items() if "expected" in name]
    assert [row["passes per input"] for row in expected] == [4, 8, 20, 40]
    assert sorted(store.rglob("*")) == before


def test_abstentions_that_are_the_budgets_doing_are_named(store: Path) -> None:
    call = ["recertify", *SMALL, "--store", str(store), "-a", "bf16", "--samples", "12", "--require", "abstained<=0.1"]
    run = recert(*call, "--no-keep-votes")
    assert run.returncode == 3
    share = re.search(
        r"not met: abstained<=0.1 \(it is ([0-9.]+), of which ([0-9.]+) left out by the plan\)", run.stderr
    )
    assert share is not None, run.stderr
    assert 0 < float(share[2]) <= float(share[1])
    assert (
        f"{round(6 * float(share[2]))} of 6 inputs were left out by the plan: that is the budget's doing" in run.stderr
    )
    assert "left out by the plan" not in recert(*call, "--plan", "acr,all", "--no-keep-votes").stderr


def test_predictions_are_not_called_certificates() -> None:
    run = recert("predict", *SMALL, "--samples", "50")
    assert run.returncode == 0
    assert "certified" not in run.stdout + run.stderr
    assert "abstained" in run.stdout


def test_requirements_decide_the_exit_code(store: Path) -> None:
    call = ["certify", *SMALL, "--samples", "400", "--store", str(store)]
    assert recert(*call, "--require", "accuracy:0.1>=0.2").returncode == 0
    failed = recert(*call, "--require", "accuracy:0.1>=0.2", "--require", "acr>=9")
    assert failed.returncode == 3
    assert "not met: acr>=9" in failed.stderr


def test_dry_run_spends_nothing(tmp_path: Path) -> None:
    run = recert("certify", *SMALL, "--dry-run", "--store", str(tmp_path / "none"))
    assert run.returncode == 0
    assert "603,000 forward passes" in run.stderr
    assert "MB" in run.stderr
    assert not (tmp_path / "none").exists()


def test_dry_run_says_what_certify_does(tmp_path: Path) -> None:
    """As many votes choose the class as would without --dry-run, and the store takes about as much as is said."""
    call = ["certify", *SMALL, "--samples", "400", "--store", str(tmp_path / "s")]
    said = recert(*call, "--dry-run").stderr
    assert "3,000 forward passes" in said
    assert recert(*call).returncode == 0
    parts = sum(file.stat().st_size for file in (tmp_path / "s").iterdir() if file.name.startswith("part-"))
    assert float(said.partition(" MB")[0].split()[-1]) == pytest.approx(parts / 1e6, rel=0.2)


def test_cache_commands(store: Path, tmp_path: Path) -> None:
    facts = json.loads(recert("cache", "show", str(store), "-f", "json").stdout)[0]
    assert (facts["inputs"], facts["votes per input"], facts["noise"]) == (6, 400, "gaussian:0.5")
    assert recert("cache", "verify", str(store)).returncode == 0
    assert recert("cache", "export", str(store), str(tmp_path / "c.csv")).returncode == 0
    assert len((tmp_path / "c.csv").read_text().splitlines()) == 7


def test_catalogues() -> None:
    assert {"digits", "cifar-resnet20"} <= {row["model"] for row in json.loads(recert("models", "-f", "json").stdout)}
    listed = {
        row["approximation"].partition(":")[0] for row in json.loads(recert("approximations", "-f", "json").stdout)
    }
    assert {"int8", "bf16", "prune"} <= listed


class Poison:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (str(self.path), "w"))


def bad_input(tmp_path: Path, name: str) -> tuple[list[str], str]:
    """Arguments with one thing wrong, and what the error must say."""
    base = ["certify", *SMALL, "--samples", "400", "--store", str(tmp_path / "s")]
    images = np.zeros((3, 1, 8, 8), np.uint8)
    if name == "missing file":
        return ["certify", "--model", "nowhere.safetensors", "--data", "digits"], "nowhere.safetensors"
    if name == "bytes":
        np.savez(tmp_path / "x.npz", inputs=images, labels=np.zeros(3, int))
        return ["certify", "--model", "digits", "--data", str(tmp_path / "x.npz")], "uint8"
    if name == "wrong shape":
        np.savez(tmp_path / "x.npz", inputs=np.zeros((3, 2, 9), np.float32), labels=np.zeros(3, int))
        return [
            "certify",
            "--model",
            "digits",
            "--data",
            str(tmp_path / "x.npz"),
            "--samples",
            "100",
        ], "inputs of shape (2, 9)"
    if name == "hostile checkpoint":
        torch.save({"state_dict": Poison(tmp_path / "ran")}, tmp_path / "evil.pt")
        return ["certify", "--model", f"digits@{tmp_path / 'evil.pt'}", "--data", "digits"], "evil.pt"
    changed = {
        "sigma 0": (["--noise", "gaussian:0"], "sigma > 0"),
        "alpha 2": (["--alpha", "2"], "0 < alpha < 1"),
        "too few samples": (["--samples", "5"], "every input abstains"),
        "unknown model": (["--model", "resnet9000"], "resnet9000"),
        "unknown data": (["--data", "imagenet21k"], "imagenet21k"),
        "bad requirement": (["--require", "beauty>=1"], "accuracy:0.5>=0.6"),
    }
    extra, message = changed[name]
    return [*base, *extra], message


@pytest.mark.parametrize(
    "name",
    ["missing file", "bytes", "wrong shape", "hostile checkpoint", "sigma 0", "alpha 2", "too few samples", "unknown model",
     "unknown data", "bad requirement"],
)  # fmt: skip
def test_bad_input_is_one_clear_line(tmp_path: Path, name: str) -> None:
    arguments, message = bad_input(tmp_path, name)
    run = recert(*arguments, cwd=tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    line = run.stderr.strip().splitlines()[-1]
    print(f"{name}: {line}")
    assert line.startswith("error: ")
    assert message in line
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "ran").exists()


BAD_CACHES = {
    "n_p larger than the cache": (["--samples", "900", "--method", "irs"], "at most"),
    "another sigma": (["--model", "digits", "--noise", "gaussian:0.25"], "noise = gaussian:0.5"),
    "another model": (["--model", "digits:0.25"], "model weights"),
    "another data set": (["--every", "2"], "not in the cache"),
}


@pytest.mark.parametrize("name", BAD_CACHES)
def test_a_cache_of_something_else_is_refused(store: Path, name: str) -> None:
    extra, message = BAD_CACHES[name]
    verb = "certify" if name in ("another sigma", "another model") else "recertify"
    run = recert(
        verb,
        *SMALL,
        "--store",
        str(store),
        *(["--samples", "400"] if verb == "certify" else ["-a", "bf16-weights"]),
        *extra,
    )
    line = run.stderr.strip().splitlines()[-1]
    print(f"{name}: {line}")
    assert run.returncode == 1
    assert line.startswith("error: ")
    assert message in line


def test_a_corrupted_part_and_a_read_only_store(store: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    part = next(copy.glob("part-*"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))
    assert recert("cache", "verify", str(copy)).returncode == 1
    run = recert("recertify", *SMALL, "--store", str(copy), "-a", "bf16-weights", "--samples", "50")
    assert run.returncode == 1
    assert "is damaged" in run.stderr
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    run = recert("certify", *SMALL, "--samples", "400", "--store", str(blocked / "run"))
    assert run.returncode == 1
    assert "error: " in run.stderr
    assert "Traceback" not in run.stderr


def test_loud_inputs_are_warned_about(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", inputs=np.full((3, 1, 8, 8), 200, np.float32), labels=np.zeros(3, int))
    run = recert(
        "certify",
        "--model",
        "digits",
        "--data",
        str(tmp_path / "x.npz"),
        "--samples",
        "100",
        "--store",
        str(tmp_path / "s"),
    )
    assert run.returncode == 0
    assert "warning: inputs reach 200" in run.stderr


def test_a_model_that_returns_nan_is_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x.flatten(1)[:, :10] * float('nan')\n"
    )
    run = recert("certify", "--model", "mine:Net", "--data", "digits", "--count", "2", "--samples", "100", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "400 invalid votes: logits were not finite" in run.stderr


def test_ctrl_c_leaves_a_store_that_continues(tmp_path: Path) -> None:
    call = ["certify", *SMALL, "--samples", "200000", "--store", str(tmp_path / "s")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(
        [sys.executable, "-m", "recert", *call], stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell's background ignores
    )  # fmt: skip
    while not (tmp_path / "s" / "_manifest.json").exists():
        assert running.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130, errors
    assert "run the same command again to continue" in " ".join(errors.split())
    assert list((tmp_path / "s").glob("part-*"))


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in recert("certify", *SMALL, "--noise", "gaussian:0", "--debug").stderr


def test_usage_errors_exit_with_2() -> None:
    assert recert("certify", "--nonsense").returncode == 2
    assert recert("certify", *SMALL, "--radii", "a,b").returncode == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["predict", *SMALL, "--require", "acr>=0.4"], "predictions have no radius"),
        (["certify", *SMALL, "--proxy-transfer", "50"], "expected --proxy with --proxy-transfer"),
        (["certify", *SMALL, "--workers", "2"], "expected --engine ray with --workers"),
        (["certify", *SMALL, "-o", "out.xlsx"], "ending in .parquet, .csv or .tsv"),
        (["certify", *SMALL, "--runtime", "onnxruntime", "--compile"], "it decides these"),
        (["certify", *SMALL, "--precision", "tf32"], "a network on a CUDA device"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_any_work(call: list[str], words: str) -> None:
    run = recert(*call)
    assert run.returncode == 1
    assert words in " ".join(run.stderr.split())
    assert "certifying" not in run.stderr


def test_a_registered_proxy_that_needs_calibration_is_calibrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On training data, so that other inputs and shards have the same proxy."""
    from recert.approximations import register_approximation, registry

    monkeypatch.setattr(registry, "_registered", {})
    calibrated_on: list[str] = []

    def shifted(model: torch.nn.Module, argument: str | None, context: Any) -> torch.nn.Module:
        calibrated_on.append(context.required_calibration().facts()["calibration"])
        with torch.no_grad():
            model.fc2.bias += 0.01 * torch.arange(10)
        return model

    register_approximation("shifted", shifted, needs_calibration=True)
    call = ["certify", *SMALL, "--samples", "200", "--store", str(tmp_path / "s"), "--proxy", "shifted"]
    run = recert(*call)
    assert run.returncode == 0, run.stderr
    assert calibrated_on == ["1 x 256 inputs, gaussian:0.5, seed 0"]


def test_a_precision_is_a_proxy_of_a_prepared_model(tmp_path: Path) -> None:
    """Although it is no approximation: it has no name in that list."""
    call = ["certify", *SMALL, "--samples", "200", "--store", str(tmp_path / "s"), "--precision", "bf16"]
    run = recert(*call, "--proxy", "fp32")
    assert run.returncode == 0, run.stderr


def test_certify_by_proxy_says_what_both_networks_cost(tmp_path: Path) -> None:
    call = ["certify", *SMALL, "--samples", "1000", "--store", str(tmp_path / "s"), "--proxy", "int8", "-f", "json"]
    run = recert(*call)
    assert run.returncode == 0, run.stderr
    row = json.loads(run.stdout)[0]
    assert 50 < row["passes per input"] < 200
    assert row["proxy passes"] >= 1_000
    assert "faster network (int8); the claim is about the model itself" in " ".join(run.stderr.split())
