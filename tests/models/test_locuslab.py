"""Checkpoints in the format of locuslab/smoothing, made here as their training code makes them."""

import pytest
import torch
from torch import nn

from recert.errors import UnusableModel
from recert.models import build_model, load_model


class NormalizeLayer(nn.Module):
    """Theirs: constants are plain attributes, so they leave no trace in the state dict."""

    def __init__(self):
        super().__init__()
        self.means = torch.tensor([0.4914, 0.4822, 0.4465])
        self.sds = torch.tensor([0.2023, 0.1994, 0.2010])

    def forward(self, images):
        return (images - self.means[:, None, None]) / self.sds[:, None, None]


def plain_resnet(name: str) -> nn.Module:
    """Our network with the normalisation taken out, which is the network of their archs/cifar_resnet.py."""
    network = build_model(name)
    network.normalize = nn.Identity()
    for buffer in (b for n, b in network.named_buffers() if n.endswith(("running_mean", "running_var"))):
        buffer.uniform_(0.5, 1.5)
    return network.eval()


def save(path, arch, model, **more):
    torch.save({"epoch": 90, "arch": arch, "state_dict": model.state_dict(), "optimizer": {"state": {}}, **more}, path)


@pytest.mark.parametrize("arch", ["cifar_resnet20", "cifar_resnet110"])
@pytest.mark.parametrize("parallel", ["none", "inner", "outer"])
def test_checkpoint_gives_their_outputs(tmp_path, arch, parallel):
    network, images = plain_resnet(arch.replace("_", "-")), torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        expected = network(NormalizeLayer()(images))
    theirs = nn.Sequential(NormalizeLayer(), nn.DataParallel(network) if parallel == "inner" else network)
    save(tmp_path / "checkpoint.pth.tar", arch, nn.DataParallel(theirs) if parallel == "outer" else theirs)
    loaded = load_model(tmp_path / "checkpoint.pth.tar")  # on the CPU, wherever DataParallel had put the weights
    with torch.inference_mode():
        torch.testing.assert_close(loaded.model(images), expected)
    assert (loaded.name, loaded.classes, loaded.input_shape) == (arch, 10, (3, 32, 32))
    assert not loaded.model.training


def test_checkpoint_into_a_named_architecture(tmp_path):
    network = plain_resnet("cifar-resnet20")
    save(tmp_path / "c.pth.tar", "cifar_resnet20", nn.Sequential(NormalizeLayer(), network))
    loaded = load_model(f"cifar-resnet20@{tmp_path / 'c.pth.tar'}")
    assert torch.equal(loaded.model.fc.weight, network.fc.weight)


def with_constants(means):
    normalize = NormalizeLayer()
    del normalize.means
    normalize.register_buffer("means", torch.tensor(means).reshape(1, 3, 1, 1))
    return nn.Sequential(normalize, plain_resnet("cifar-resnet20"))


def test_stored_normalisation_that_is_the_usual_one(tmp_path):
    save(tmp_path / "c.tar", "cifar_resnet20", with_constants([0.4914, 0.4822, 0.4465]))
    assert load_model(tmp_path / "c.tar").classes == 10


def test_stored_normalisation_that_is_another_one(tmp_path):
    save(tmp_path / "c.tar", "cifar_resnet20", with_constants([0.5, 0.5, 0.5]))
    with pytest.raises(UnusableModel, match=r"expected the usual normalisation .* got 0\.means = \[0\.5, 0\.5, 0\.5\]"):
        load_model(tmp_path / "c.tar")


def test_unknown_architecture(tmp_path):
    save(tmp_path / "c.tar", "wide_resnet", nn.Linear(2, 2))
    with pytest.raises(UnusableModel, match=r"expected a checkpoint of cifar_resnet20.* got arch = 'wide_resnet'"):
        load_model(tmp_path / "c.tar")


def test_wrong_depth(tmp_path):
    save(tmp_path / "c.tar", "cifar_resnet20", nn.Sequential(NormalizeLayer(), plain_resnet("cifar-resnet110")))
    with pytest.raises(UnusableModel, match=r"0 of 128 tensors are missing and \d+ have no place"):
        load_model(tmp_path / "c.tar")


def test_state_dict_alone(tmp_path):
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "w.pt")
    with pytest.raises(UnusableModel, match=r"'arch' and 'state_dict'.*NAME@"):
        load_model(tmp_path / "w.pt")
