"""torchvision and timm by name, with stand-ins that have the parts of their interfaces that are used."""

import enum
import os
import sys
import types
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch
from torch import nn

from recert.errors import MissingExtra, UnusableModel
from recert.models import load_model

FORCED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def small_network() -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2, bias=False))


def known_weights() -> dict[str, torch.Tensor]:
    return {"2.weight": torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])}


class Weights(enum.Enum):
    IMAGENET1K_V1 = "v1"
    DEFAULT = "v1"

    @property
    def meta(self):
        return {"categories": ["cat", "dog"]}

    def transforms(self):
        return SimpleNamespace(mean=[0.5, 0.25, 0.0], std=[0.5, 0.25, 1.0], crop_size=[16])

    def get_state_dict(self, *, progress, weights_only):
        assert weights_only
        assert os.environ[FORCED] == "1"
        return known_weights()


def get_model_weights(name):
    if name not in ("small", "offline"):
        raise ValueError(f"Unknown model {name}")
    return Weights


@pytest.fixture
def torchvision(monkeypatch):
    models = types.ModuleType("torchvision.models")
    models.get_model_weights = get_model_weights
    models.get_model = lambda name, weights: small_network()
    package = types.ModuleType("torchvision")
    package.models = models
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


@pytest.fixture
def timm(monkeypatch):
    def create_model(name, pretrained):
        network = small_network()
        if pretrained:
            assert os.environ[FORCED] == "1"
            network.load_state_dict(known_weights())
        network.pretrained_cfg = {
            "mean": (0.5, 0.25, 0.0),
            "std": (0.5, 0.25, 1.0),
            "num_classes": 2,
            "input_size": (3, 8, 8),
        }
        return network

    package = types.ModuleType("timm")
    package.create_model, package.is_model = create_model, lambda name: name == "small"
    monkeypatch.setitem(sys.modules, "timm", package)


IMAGES = torch.tensor([1.0, 0.5, 0.0]).reshape(1, 3, 1, 1).expand(1, 3, 8, 8)
"""Normalised by hand: ((1 - .5) / .5, (.5 - .25) / .25, 0) = (1, 1, 0)."""


def test_torchvision_pretrained_and_normalised(torchvision):
    loaded = load_model("torchvision:small")
    assert loaded.model(IMAGES).tolist() == [[1.0, 1.0]]
    assert (loaded.name, loaded.classes, loaded.input_shape) == ("torchvision:small", 2, (3, 16, 16))
    assert "Weights" in loaded.note
    assert not loaded.model.training
    assert FORCED not in os.environ


def test_timm_pretrained_and_normalised(timm):
    loaded = load_model("timm:small")
    assert loaded.model(IMAGES).tolist() == [[1.0, 1.0]]
    assert (loaded.name, loaded.classes, loaded.input_shape) == ("timm:small", 2, (3, 8, 8))
    assert FORCED not in os.environ


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_own_weights(torchvision, timm, library, tmp_path):
    safetensors.torch.save_file({"2.weight": torch.zeros(2, 3)}, tmp_path / "w.safetensors")
    loaded = load_model(f"{library}:small@{tmp_path / 'w.safetensors'}")
    assert loaded.model(IMAGES).tolist() == [[0.0, 0.0]]
    assert "w.safetensors" in loaded.note


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_unknown_names(torchvision, timm, library):
    with pytest.raises(ValueError, match=f"expected a model of {library}, got 'huge'.*list_models"):
        load_model(f"{library}:huge")


def test_no_network(torchvision, monkeypatch):
    def unreachable(self, **_options):
        raise OSError("no route to host")

    monkeypatch.setattr(Weights, "get_state_dict", unreachable)
    with pytest.raises(UnusableModel, match=r"no route to host.*torchvision:small@FILE"):
        load_model("torchvision:small")


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_not_installed(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, f"{library}.models", None)
    with pytest.raises(MissingExtra, match=rf"a model of {library} needs {library}, .*pip install .*\[vision\]"):
        load_model(f"{library}:resnet50")


def test_locuslab_resnet50_needs_torchvision(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    torch.save({"arch": "resnet50", "state_dict": {}}, tmp_path / "c.pth.tar")
    with pytest.raises(MissingExtra, match=r"pip install .*\[vision\]"):
        load_model(tmp_path / "c.pth.tar")


def test_locuslab_resnet50_through_torchvision(torchvision, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["torchvision.models"], "get_model_weights", lambda name: Weights)
    state = {f"1.module.{name}": tensor for name, tensor in known_weights().items()}
    torch.save({"arch": "resnet50", "state_dict": state}, tmp_path / "c.pth.tar")
    loaded = load_model(tmp_path / "c.pth.tar")
    image = torch.tensor([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1) + torch.tensor([0.229, 0.448, 0.0]).reshape(
        1, 3, 1, 1
    )
    torch.testing.assert_close(loaded.model(image), torch.tensor([[1.0, 2.0]]))
    assert loaded.classes == 1000
