"""Spec strings, the list of approximations, and what third parties add to it."""

import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest
import torch
from torch import nn

import recert
from recert.approximations import (
    Calibration,
    approximate,
    available_approximations,
    needs_calibration,
    parse,
    register_approximation,
    registry,
)

from .conftest import calibration, images, trained


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("int4", r"known approximations \(fp16, .*prune:F, prune-layer:F.*got 'int4'"),
        ("", "known approximations"),
        ("prune", "expected prune:F with a fraction 0 < F < 1, got 'prune'"),
        ("prune:", "0 < F < 1"),
        ("prune:0", "0 < F < 1"),
        ("prune:1", "0 < F < 1"),
        ("prune:nan", "0 < F < 1"),
        ("prune:-0.1", "0 < F < 1"),
        ("prune-layer:ten", "expected prune-layer:F .* got 'prune-layer:ten'"),
        ("fp16:2", "nothing after it, got 'fp16:2'"),
        (8, "name of an approximation, .* got 8"),
    ],
)
def test_bad_specs(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        approximate(trained(), spec)


def test_one_after_the_other() -> None:
    """Quantising the pruned network is what pruning and quantising in two calls gives."""
    both = approximate(trained(), "prune:0.3+int8-twin", calibration=calibration())
    pruned = approximate(trained(), "prune:0.3", calibration=calibration()).model
    apart = approximate(pruned, "int8-twin", calibration=calibration())
    some = torch.from_numpy(images(8, seed=3)[0])
    assert torch.equal(both.model(some), apart.model(some))
    assert both.spec == "prune:0.3+int8-twin"
    assert "set to zero" in both.description
    assert "; then twin of int8" in both.description


@pytest.mark.parametrize("spec", ["prune:0.3+", "prune:0.3+int9", "+int8", "int8++fp16", "prune:2+int8"])
def test_bad_steps(spec: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        approximate(trained(), spec, calibration=calibration())


def test_listing_does_not_import_torch() -> None:
    code = (
        "import sys; from recert.approximations import available_approximations as a, parse; "
        "parse('prune:0.5'); print(len(a())); assert 'torch' not in sys.modules"
    )
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(listed.stdout) >= 8
    assert all(line and "\n" not in line for line in available_approximations().values())


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.usefixtures("clean_registry")
def test_registered_in_code() -> None:
    seen: dict[str, Any] = {}

    def shift(model: nn.Module, argument: str | None, context: Any) -> nn.Module:
        """The last bias shifted."""
        seen.update(argument=argument, training=model.training, example=context.example_input)
        context.facts["shift"] = str(argument)
        context.description = f"last bias shifted by {argument}"
        with torch.no_grad():
            model.last.bias += float(argument or 1)
        return model

    register_approximation("shift", shift)
    assert available_approximations()["shift"] == "The last bias shifted."
    result = approximate(trained(), "shift:0.25", example_input=images(4, seed=3)[0])
    assert torch.equal(result.model.last.bias, trained().last.bias + 0.25)
    assert (result.description, result.facts["shift"]) == ("last bias shifted by 0.25", "0.25")
    assert (seen["argument"], seen["training"], len(seen["example"])) == ("0.25", False, 4)


@pytest.mark.usefixtures("clean_registry")
def test_register_refuses() -> None:
    for name, build, message in (
        ("int8", lambda *_: None, "which is taken"),
        ("Int:8", lambda *_: None, "small letters"),
        ("mine", None, "function"),
    ):
        with pytest.raises(ValueError, match=message):
            register_approximation(name, build)  # type: ignore[arg-type]


@pytest.mark.usefixtures("clean_registry")
def test_a_result_that_is_no_module_is_refused() -> None:
    register_approximation("path", lambda model, argument, context: "model.onnx")  # type: ignore[arg-type,return-value]
    with pytest.raises(recert.RecertError, match=r"expected path to return a torch\.nn\.Module, got str"):
        approximate(trained(), "path")


def tripled(model: nn.Module, argument: str | None, context: object) -> nn.Module:
    with torch.no_grad():
        model.last.weight *= 3
    return model


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        metadata.EntryPoint("tripled", f"{__name__}:tripled", registry.ENTRY_POINT_GROUP),
        metadata.EntryPoint("broken", "no_such_package:build", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: [p for p in points if p.group == group])
    assert available_approximations()["tripled"] == f"from {__name__}:tripled"
    result = approximate(trained(), "tripled:really")
    assert torch.equal(result.model.last.weight, trained().last.weight * 3)
    with pytest.raises(recert.RecertError, match="'broken' from no_such_package:build could not be loaded"):
        approximate(trained(), "broken")


def test_built_ins_say_whether_they_need_calibration() -> None:
    """Exactly those that cannot be made without."""
    for usage in available_approximations():
        spec = usage.replace(":F", ":0.1")
        if not needs_calibration(spec):
            continue
        with pytest.raises(ValueError, match=f"expected calibration inputs for {spec}, got none"):
            approximate(trained(), spec)
    assert [spec for spec in ("int8", "int8-twin", "prune:0.1+int8", "bf16", "prune:0.1") if needs_calibration(spec)] == [
        "int8", "int8-twin", "prune:0.1+int8",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="known approximations"):
        needs_calibration("int4")


def clipped(model: nn.Module, argument: str | None, context: Any) -> nn.Module:
    """The last weights clipped to the largest value of the calibration inputs."""
    with torch.no_grad():
        model.last.weight.clamp_(max=0.01 * float(context.required_calibration().noisy().max()))
    return model


clipped.needs_calibration = True  # type: ignore[attr-defined]


@pytest.mark.usefixtures("clean_registry")
def test_a_registered_approximation_says_whether_it_needs_calibration() -> None:
    register_approximation("clipped", clipped, needs_calibration=True)
    register_approximation("tripled", tripled)
    assert needs_calibration("clipped")
    assert needs_calibration("tripled+clipped")
    assert not needs_calibration("tripled")


@pytest.mark.usefixtures("clean_registry")
def test_the_command_line_calibrates_what_needs_it() -> None:
    """On noisy training inputs, not on the inputs that are certified."""
    from recert.cli.loading import CALIBRATION_INPUTS, approximated
    from recert.data import load_data
    from recert.models import load_model

    seen: list[Calibration | None] = []

    def shifted(model: nn.Module, argument: str | None, context: Any) -> nn.Module:
        seen.append(context.calibration)
        with torch.no_grad():
            model.fc2.bias += 0.1 * torch.arange(10)
        return model

    register_approximation("shifted", shifted, needs_calibration=True)
    register_approximation("shifted-freely", shifted)
    network, data, noise = load_model("digits").model, load_data("digits", count=3), recert.Gaussian(0.5)
    for spec in ("shifted", "shifted-freely", "prune:0.1+shifted"):
        approximated(network, spec, "digits", data, noise, 5)
    calibration, nothing, chained = seen
    assert nothing is None
    assert calibration is not None
    assert chained is not None
    training = load_data("digits", split="train", count=CALIBRATION_INPUTS)
    assert calibration.digests == chained.digests == Calibration(training.inputs, noise).digests
    assert (calibration.noise, calibration.seed) == (noise, 5)


def test_entry_points_say_whether_they_need_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are loaded when it is their turn to say it, and not before."""
    points = [
        metadata.EntryPoint("clipped", f"{__name__}:clipped", registry.ENTRY_POINT_GROUP),
        metadata.EntryPoint("tripled", f"{__name__}:tripled", registry.ENTRY_POINT_GROUP),
        metadata.EntryPoint("broken", "no_such_package:build", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: [p for p in points if p.group == group])
    assert needs_calibration("clipped")
    assert not needs_calibration("tripled")
    assert not needs_calibration("prune:0.1")
    with pytest.raises(recert.RecertError, match="'broken' from no_such_package:build could not be loaded"):
        needs_calibration("broken")


def test_entry_points_do_not_replace_built_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("bf16", f"{__name__}:tripled", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
    with pytest.warns(UserWarning, match="'bf16', which is built in"):
        parsed = parse("bf16")
    assert parsed.kind.load().__module__ == "recert.approximations.precision"


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.filterwarnings("ignore")
def test_dynamic_activation_scales_are_refused() -> None:
    def dynamic(model: nn.Module, argument: str | None, context: Any) -> nn.Module:
        quantised: nn.Module = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
        return quantised

    register_approximation("dynamic", dynamic)
    with pytest.raises(
        recert.RecertError, match=r"dynamic makes a model .* depends on the other rows .* dynamic activation scales"
    ):
        approximate(trained(), "dynamic", example_input=images(16, seed=3)[0])
    with pytest.raises(recert.RecertError, match="depends on the other rows"):
        approximate(trained(), "dynamic", calibration=calibration())


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.filterwarnings("ignore")
def test_dynamic_quantisation_of_convolutions_does_nothing_and_is_refused() -> None:
    def dynamic(model: nn.Module, argument: str | None, context: Any) -> nn.Module:
        quantised: nn.Module = torch.ao.quantization.quantize_dynamic(model, {nn.Conv2d}, dtype=torch.qint8)
        return quantised

    register_approximation("dynamic-convolutions", dynamic)
    with pytest.raises(recert.RecertError, match="dynamic-convolutions changed nothing"):
        approximate(trained(), "dynamic-convolutions")
