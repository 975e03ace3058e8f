"""Calibration on the inputs that are certified is said and recorded; with data of its own nothing is said."""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import recert
from recert.approximations import Calibration, approximate, register_approximation, registry
from recert.cli.remarks import remarks_said
from recert.data import load_data
from recert.models import load_model
from recert.models.calibrated import CalibratedOnInputs
from recert.models.digest import identify
from recert.units import UnusualUnits
from tests.test_cli import recert as command

NOISE = recert.Gaussian(0.5)
TEST, TRAINING = load_data("digits", count=8).inputs, load_data("digits", split="train", count=8).inputs
ROWS: dict[str, Any] = {"batch_size": 64}
REMARK = "measured on 5 of the inputs that are certified"


@pytest.fixture(scope="module", autouse=True)
def measured() -> Iterator[None]:
    """An approximation that needs calibration: it takes a mean of what it is calibrated on."""

    def build(model: nn.Module, argument: str | None, context: Any) -> nn.Module:
        with torch.no_grad():
            model.fc2.bias += 0.01 * float(context.required_calibration().noisy().mean()) * torch.arange(10)
        return model

    register_approximation("measured", build, needs_calibration=True)
    yield
    del registry._registered["measured"]


def changed(inputs: np.ndarray) -> nn.Module:
    return approximate(load_model("digits").model, "measured", calibration=Calibration(inputs, NOISE)).model


@pytest.fixture(scope="module")
def cache() -> recert.Cache:
    return recert.certify(load_model("digits").model, TEST, noise=NOISE, samples=200, **ROWS)


def said(results: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in results if issubclass(each.category, CalibratedOnInputs)]


@pytest.mark.parametrize("prepared", [False, True])
def test_recertify_says_and_records_it(cache: recert.Cache, prepared: bool) -> None:
    model = changed(np.concatenate([TRAINING, TEST[:5], TEST[:1]]))
    model = recert.prepare(model) if prepared else model
    with pytest.warns(CalibratedOnInputs, match=REMARK) as seen:
        result = recert.recertify(model, TEST, cache, samples=20, **ROWS)
    assert seen[0].filename == __file__
    assert any(REMARK in remark for remark in result.remarks)


def test_nothing_is_said_of_training_data(cache: recert.Cache) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = recert.recertify(changed(TRAINING), TEST, cache, samples=20, **ROWS)
    assert said(seen) == []
    assert not any("measured on" in remark for remark in result.remarks)


def test_compare_and_select_say_it(cache: recert.Cache) -> None:
    labels = cache.certificates.prediction
    with pytest.warns(CalibratedOnInputs, match=REMARK):
        recert.compare(changed(TEST[:5]), TEST, cache, labels, budgets=[20], methods=["series"], **ROWS)
    with pytest.warns(CalibratedOnInputs, match=REMARK):
        chosen = recert.select(
            {"m": changed(TEST[:5])}, TEST, cache, labels, metric="acr", tolerance=9, samples=30, **ROWS
        )
    assert chosen.certificates is not None
    assert any(REMARK in remark for remark in chosen.certificates.remarks)


def test_a_network_is_not_known_by_what_it_was_calibrated_on() -> None:
    """Two calibrations with the same scales are the same network: only what it computes counts."""
    model = changed(TEST)
    before = identify(model)
    del model._calibrated_on
    assert identify(model) == before


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    np.savez(tmp_path / "test.npz", inputs=TEST, labels=np.zeros(len(TEST), int))
    np.savez(tmp_path / "training.npz", inputs=TRAINING)
    np.savez(tmp_path / "bytes.npz", inputs=np.full((3, 1, 8, 8), 255, np.float32))
    np.savez(tmp_path / "wide.npz", inputs=np.zeros((3, 1, 9, 9), np.float32))
    return tmp_path


def test_the_command_line_calibrates_on_what_is_named(arrays: Path) -> None:
    known = ["--model", "digits", "--data", str(arrays / "test.npz"), "--store", str(arrays / "s")]
    assert command("certify", *known, "--samples", "200").returncode == 0
    changing = [*known, "-a", "measured", "--samples", "20"]
    silent = command("recertify", *changing)
    assert "warning: The scales of this quantised network were measured on 8 of the inputs" in silent.stderr
    assert "Name it with --calibration" in silent.stderr
    assert "UserWarning" not in silent.stderr
    assert "CalibratedOnInputs" not in silent.stderr
    named = command(
        "recertify", *changing, "--calibration", str(arrays / "training.npz"), "-o", str(arrays / "r.parquet")
    )
    assert named.returncode == 0
    assert "measured on" not in named.stderr
    wanted = identify(changed(TRAINING))
    assert recert.Certificates.from_parquet(arrays / "r.parquet").settings.model["weights"] == wanted.weights
    assert recert.Certificates.from_parquet(arrays / "r.parquet").labels.tolist() == [0] * 8
    chosen = command(
        "select", *known, "-c", "measured,bf16", "--metric", "acr", "--tolerance", "9", "--calibration", str(arrays / "training.npz")
    )  # fmt: skip
    assert chosen.returncode == 0, chosen.stderr
    assert "measured on" not in chosen.stderr


def test_calibration_data_in_other_units_are_remarked_on(arrays: Path) -> None:
    with pytest.warns(UnusualUnits, match="calibration: inputs reach 255") as seen:
        recert.Calibration(np.full((3, 1, 8, 8), 255, np.float32), noise=recert.Gaussian(0.5))
    assert seen[0].filename == __file__
    known = ["--model", "digits", "--data", str(arrays / "test.npz"), "--store", str(arrays / "s")]
    assert command("certify", *known, "--samples", "200").returncode == 0
    named = ["-a", "measured", "--samples", "20", "--calibration", str(arrays / "bytes.npz")]
    with pytest.warns(UnusualUnits) as seen:
        command("recertify", *known, *named)
    # The command line prints it as one line, without the place in our program that it came from.
    with remarks_said():
        lines = [warnings.formatwarning(str(w.message), w.category, w.filename, w.lineno) for w in seen]
    assert [line for line in lines if "255" in line] == [f"warning: {seen[0].message}\n"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recertify", "-a", "bf16", "--calibration", "training.npz"], "with an approximation that needs it"),
        (["recertify", "--calibration", "training.npz"], "expected --approximation with --calibration"),
        (["compare", "--calibration", "training.npz"], "expected --approximation with --calibration"),
        (
            ["recertify", "-a", "measured", "--calibration", "wide.npz"],
            r"calibration data of shape \(1, 8, 8\).*\(1, 9, 9\)",
        ),
        (["certify", "--calibration", "training.npz"], "expected --proxy with --calibration"),
        (["certify", "--proxy", "bf16", "--calibration", "training.npz"], "with a proxy that needs it"),
    ],
)
def test_calibration_data_that_would_be_ignored_is_refused(arrays: Path, arguments: list[str], message: str) -> None:
    name, *options = arguments
    options = [str(arrays / each) if each.endswith(".npz") else each for each in options]
    known = ["--model", "digits", "--data", str(arrays / "test.npz"), "--store", str(arrays / "s")]
    if name != "certify":
        assert command("certify", *known, "--samples", "200").returncode == 0
    run = command(name, *known, *options)
    assert run.returncode == 1
    assert re.search(message, run.stderr), run.stderr


def test_a_proxy_may_be_calibrated_on_anything(arrays: Path) -> None:
    """Nothing is claimed about it, so nothing is said."""
    known = ["--model", "digits", "--data", str(arrays / "test.npz"), "--samples", "200", "--proxy", "measured"]
    run = command("certify", *known, "--store", str(arrays / "s"))
    assert run.returncode == 0, run.stderr
    assert "measured on" not in run.stderr
