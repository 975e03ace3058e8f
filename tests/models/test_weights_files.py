"""Weights of one's own in a network of one's own or of ours, and what does not fit."""

import pytest
import safetensors.torch
import torch
from torch import nn

from recert.errors import UnusableModel
from recert.models import build_model, load_model

FACTORIES = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))

def build_sized(size):
    return nn.Linear(size, size)

def build_nothing():
    return 5

network = nn.Linear(2, 2)
number = 7
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A directory with a module `own_nets`, as a user has it."""
    (tmp_path / "own_nets.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "own_nets", raising=False)
    return tmp_path


def weights(bias: float) -> dict[str, torch.Tensor]:
    return {"1.weight": torch.zeros(3, 4), "1.bias": torch.full((3,), bias)}


def bias_of(spec: str) -> float:
    return load_model(spec).model(torch.rand(1, 4))[0, 0].item()


def test_factory_as_it_is(project):
    loaded = load_model("own_nets:build")
    assert loaded.name == "own_nets:build"
    assert not loaded.model.training
    assert loaded.classes is None
    assert loaded.input_shape is None
    assert isinstance(load_model("own_nets:network").model, nn.Linear)


def test_importing_leaves_the_path_as_it_was(project):
    import sys

    before = list(sys.path)
    load_model("own_nets:build")
    assert sys.path == before


def test_safetensors_into_a_factory(project):
    safetensors.torch.save_file(weights(1.5), "w.safetensors")
    assert bias_of("own_nets:build@w.safetensors") == 1.5


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model_state_dict"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.module."])
def test_weights_only_files_into_a_factory(project, wrapper, prefix):
    state = {f"{prefix}{name}": tensor for name, tensor in weights(2.5).items()}
    torch.save(state if wrapper is None else {wrapper: state, "epoch": 3}, "w.pt")
    assert bias_of("own_nets:build@w.pt") == 2.5


def test_own_weights_in_a_shipped_network(tmp_path):
    network = build_model("digits")
    safetensors.torch.save_file(network.state_dict(), tmp_path / "own.safetensors")
    loaded = load_model(f"digits@{tmp_path / 'own.safetensors'}")
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(loaded.model(images), network.eval()(images))
    assert (loaded.name, loaded.classes) == ("digits", 10)
    assert "own.safetensors" in loaded.note


def test_batch_counters_may_be_missing(tmp_path):
    state = {k: v for k, v in build_model("cifar-resnet20").state_dict().items() if "num_batches" not in k}
    safetensors.torch.save_file(state, tmp_path / "w.safetensors")
    assert load_model(f"cifar-resnet20@{tmp_path / 'w.safetensors'}").classes == 10


def test_rounded_weights_are_said_to_be_computed_in_float32(project):
    safetensors.torch.save_file({k: v.half() for k, v in weights(1.0).items()}, "w.safetensors")
    assert "stored as float16 and computed in float32" in load_model("own_nets:build@w.safetensors").note


MISFITS = {
    "missing": ({"1.weight": torch.zeros(3, 4)}, r"1 of 2 tensors are missing \(1\.bias, \.\.\.\) and 0"),
    "surplus": ({**weights(0), "2.bias": torch.zeros(1)}, r"0 of 2 .* 1 have no place \(2\.bias"),
    "shape": ({**weights(0), "1.bias": torch.zeros(5)}, r"expected 1\.bias of shape \(3,\), got \(5,\)"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_weights_that_do_not_fit(project, misfit):
    state, message = MISFITS[misfit]
    torch.save(state, "w.pt")
    with pytest.raises(UnusableModel, match=message):
        load_model("own_nets:build@w.pt")


def test_not_a_state_dict(project):
    torch.save([torch.zeros(2)], "w.pt")
    with pytest.raises(UnusableModel, match=r"expected a state dict .* got list"):
        load_model("own_nets:build@w.pt")


BAD_FACTORIES = {
    "nowhere_nets:build": (ValueError, "'nowhere_nets', which is not found"),
    "own_nets:absent": (ValueError, "own_nets has no 'absent'"),
    "own_nets:build_sized": (ValueError, "called without arguments"),
    "own_nets:number": (ValueError, "to be a function or a network, got int"),
    "own_nets:build_nothing": (
        UnusableModel,
        "to make a torch.nn.Module, or a function from a batch to logits, got int",
    ),
    "broken_nets:build": (UnusableModel, "importing broken_nets failed: No module named 'never_installed'"),
}


@pytest.mark.parametrize("spec", BAD_FACTORIES)
def test_bad_factories(project, spec):
    (project / "broken_nets.py").write_text("import never_installed\n")
    error, message = BAD_FACTORIES[spec]
    with pytest.raises(error, match=message):
        load_model(spec)
