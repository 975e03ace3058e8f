"""Shipped architectures against counts worked out by hand, and against the published layout of names."""

import pytest
import torch

from recert.models import available_models, build_model
from recert.models.cifar_resnet import CifarResNet
from recert.models.normalization import NormalizedNetwork


def resnet_parameters(blocks: int, shortcut_convolutions: bool) -> int:
    """Parameters of a CIFAR residual network, layer by layer: weights of a convolution, two per normalised channel."""
    total = 3 * 16 * 9 + 2 * 16
    channels = 16
    for wide in (16, 32, 64):
        total += channels * wide * 9 + wide * wide * 9 * (2 * blocks - 1) + 2 * wide * 2 * blocks
        if shortcut_convolutions and wide != channels:
            total += channels * wide + 2 * wide
        channels = wide
    return total + 64 * 10 + 10


def count(name: str) -> int:
    return sum(parameter.numel() for parameter in build_model(name).parameters())


def test_resnet20_is_the_variant_with_shortcut_convolutions():
    assert resnet_parameters(3, shortcut_convolutions=False) == 269_722  # He et al.'s 0.27M, zero-padded shortcuts
    assert resnet_parameters(3, shortcut_convolutions=True) == 272_474
    assert count("cifar-resnet20") == 272_474


def test_resnet110_parameters():
    assert count("cifar-resnet110") == resnet_parameters(18, shortcut_convolutions=True) == 1_730_714


def test_digits_parameters():
    by_hand = (9 + 1) * 16 + (16 * 9 + 1) * 32 + (32 * 16 + 1) * 64 + (64 + 1) * 10
    assert count("digits") == by_hand == 38_282


@pytest.mark.parametrize("name", [entry.name for entry in available_models()])
def test_takes_its_input_shape_and_returns_its_classes(name):
    entry = next(entry for entry in available_models() if entry.name == name)
    network = build_model(name).eval()
    with torch.inference_mode():
        assert network(torch.rand(2, *entry.input_shape)).shape == (2, entry.classes)


def test_resnet_names_are_those_of_published_checkpoints():
    names = set(build_model("cifar-resnet20").state_dict())
    published = {
        "conv1.weight", "bn1.running_var", "layer1.0.conv1.weight", "layer1.2.bn2.bias", "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.running_mean", "layer3.0.downsample.0.weight", "layer3.2.conv2.weight", "fc.weight", "fc.bias",
    }  # fmt: skip
    assert published <= names
    # 19 convolutions and 2 shortcuts, each with 1 weight and 5 tensors of batch normalisation, and the last layer's two.
    assert len(names) == 21 * 6 + 2
    assert {name.split(".")[0] for name in names} == {"conv1", "bn1", "layer1", "layer2", "layer3", "fc"}


def test_resnet_normalises_inside():
    network = CifarResNet(blocks=1).eval()
    seen = []
    network.conv1.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    images = torch.rand(2, 3, 32, 32)
    network(images)
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])
    by_hand = torch.stack([(images[:, c] - mean[c]) / std[c] for c in range(3)], dim=1)
    torch.testing.assert_close(seen[0], by_hand)


def test_normalized_network_is_the_network_on_normalised_images():
    inner = torch.nn.Flatten()
    images = torch.full((1, 2, 1, 1), 0.75)
    assert NormalizedNetwork(inner, (0.25, 0.5), (0.5, 0.125))(images).tolist() == [[1.0, 2.0]]


def test_normalisation_moves_and_is_identified_with_the_network():
    network = build_model("cifar-resnet20")
    assert {"normalize.mean", "normalize.std"} <= dict(network.named_buffers()).keys()
    assert network.half().normalize.mean.dtype == torch.float16
