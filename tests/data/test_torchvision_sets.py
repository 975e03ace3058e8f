"""Data sets of torchvision, with a stand-in for it."""

import os
import sys
import types

import numpy as np
import pytest

from recert.data import UnusableData, load_data
from recert.errors import MissingExtra


class Pictures:
    """A data set as torchvision has them: constructed with root and train, indexed for (image, label)."""

    classes = ("dark", "light")

    def __init__(self, root, train=True, transform=None, download=False):
        assert os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "1"
        if root == "gone":
            raise RuntimeError("Dataset not found. You can use download=True to download it")
        self.level = 0 if train else 51

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return np.full((5, 6, 3), self.level + i, np.uint8), i % 2


class Scans:
    """Another one: with `split` in place of `train`, grey, of several sizes when asked for."""

    def __init__(self, root, split="train"):
        self.split, self.ragged = split, root == "ragged"

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return np.full((5 + i * self.ragged, 6), 255 if self.split == "test" else 0, np.uint8), 0


@pytest.fixture
def torchvision(monkeypatch):
    datasets = types.ModuleType("torchvision.datasets")
    datasets.Pictures, datasets.Scans = Pictures, Scans
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)


def test_colour_images(torchvision):
    data = load_data("torchvision:Pictures:data", every=2)
    assert data.inputs.shape == (2, 3, 5, 6)
    np.testing.assert_allclose(data.inputs[:, 0, 0, 0] * 255, [51, 53], rtol=1e-6)
    assert data.labels.tolist() == [0, 0]
    assert data.indices.tolist() == [0, 2]
    assert data.classes == ("dark", "light")
    assert load_data("torchvision:Pictures:data", split="train").inputs[0].max() == 0


def test_grey_images_and_split_by_name(torchvision):
    data = load_data("torchvision:Scans:data")
    assert data.inputs.shape == (2, 1, 5, 6)
    assert data.inputs.min() == 1
    assert data.classes is None


def test_sizes_differ(torchvision):
    with pytest.raises(UnusableData, match="expected images of one size in Scans"):
        load_data("torchvision:Scans:ragged")


def test_not_downloaded(torchvision):
    with pytest.raises(UnusableData, match=r"expected Pictures in 'gone'.*download it there first"):
        load_data("torchvision:Pictures:gone")


def test_unknown(torchvision):
    with pytest.raises(ValueError, match="expected a data set of torchvision, got 'Paintings'"):
        load_data("torchvision:Paintings:data")


def test_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[vision\]"):
        load_data("torchvision:MNIST:data")
