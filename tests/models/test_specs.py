"""Spec strings: what each form is taken for, and what bad ones are told."""

from pathlib import Path

import pytest

from recert.models import SPEC_FORMS, load_model, parse_spec

GOOD = {
    "digits": ("registered", "digits", None, None),
    "digits:0.25": ("registered", "digits", "0.25", None),
    "cifar-resnet20@w.safetensors": ("registered", "cifar-resnet20", None, Path("w.safetensors")),
    "torchvision:resnet50": ("library", "torchvision", "resnet50", None),
    "timm:vit_tiny_patch16_224.augreg@w.pt": ("library", "timm", "vit_tiny_patch16_224.augreg", Path("w.pt")),
    "nets.small:build": ("factory", "nets.small", "build", None),
    "nets:build@dir/w@2.pth": ("factory", "nets", "build", Path("dir/w@2.pth")),
    "runs/model.onnx": ("file", "runs/model.onnx", None, None),
    "model.PT2": ("file", "model.PT2", None, None),
    "C:\\models\\net.onnx": ("file", "C:\\models\\net.onnx", None, None),
    "checkpoint.pth.tar": ("file", "checkpoint.pth.tar", None, None),
}


@pytest.mark.parametrize("text", GOOD)
def test_forms(text):
    spec = parse_spec(text)
    assert (spec.kind, spec.name, spec.argument, spec.weights) == GOOD[text]
    assert spec.text == text


BAD = {
    "digist": "did you mean 'digits'",
    "": "expected a model",
    "no such thing": "got 'no such thing'",
    "digits:": "after ':'",
    "digits@": "after '@'",
    "digits:0.5@w.safetensors": "got both",
    "torchvision": "torchvision:NAME",
    "some/dir:factory": "check its path",
    "nets:1build": "expected a model",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_specs_get_one_line_that_helps(text):
    with pytest.raises(ValueError, match="expected") as caught:
        parse_spec(text)
    assert BAD[text] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["gone.onnx", "gone.pt2", "gone.pth.tar", "gone.safetensors", "digits@gone.safetensors"]
)
def test_missing_files(text):
    with pytest.raises(ValueError, match="does not exist; check the path"):
        load_model(text)


def test_weights_alone_are_not_a_model(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"weights alone.*NAME@"):
        load_model(tmp_path / "w.safetensors")


def test_a_file_of_that_name_does_not_hide_a_registered_model(tmp_path, monkeypatch):
    (tmp_path / "digits").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    assert parse_spec("digits").kind == "registered"


def test_every_form_is_described():
    assert len(SPEC_FORMS) == 10
    assert all(form and meaning for form, meaning in SPEC_FORMS)
