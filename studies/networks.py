"""The networks of the studies, original and changed. The one place that decides how they are loaded and run."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from recert import Noise, RecertError, VoteSource, open_source, prepare
from recert.approximations import Calibration, approximate, needs_calibration
from recert.data import Dataset, load_data
from recert.models import LoadedModel, load_model
from studies.imagenet_networks import SPECS, clean_answers, load
from studies.request import IMAGES, Cell, Request, noise_of, noise_words, sigma_text
from studies.stores import About, StudyVotes

ORIGINAL = "original"
CALIBRATION_INPUTS = 256
OWN_PRECISION = ("fp16", "bf16", "int8")
"""Approximations that compute in a type of their own, whatever is chosen for the others."""


@dataclass(frozen=True)
class NetworkSpec:
    """Which network a store of votes belongs to: trained for a noise, changed or not, under the noise of a seed."""

    network: str
    sigma: float | str
    approximation: str
    seed: int

    def store_name(self, usual_seed: int) -> str:
        """The name of its store; the seed is in it only where it is not that of the whole study."""
        other = "" if self.seed == usual_seed else f"-seed{self.seed}"
        return f"{self.network}-{sigma_text(self.sigma)}-{self.approximation.replace(':', '-')}{other}"


def open_votes(request: Request, cell: Cell, approximation: str, *, seed: int | None = None) -> StudyVotes:
    """Votes of a network on the first `count` images, from its store; the network is loaded when a vote is missing."""
    spec = NetworkSpec(cell.network, cell.sigma, approximation, request.seed if seed is None else seed)
    return StudyVotes(
        request.store / spec.store_name(request.seed),
        count=request.grid.count,
        open_network=partial(open_network, request, spec) if request.may_draw else None,
        clock=request.clock,
        allow_numerics=request.allow_numerics,
        progress=request.progress,
    )


def open_network(request: Request, spec: NetworkSpec, batch_size: int | None) -> tuple[VoteSource, About]:
    """Load a network, and say whose votes it will give. `batch_size` is that of votes that are there already."""
    check_device(request.device)
    noise = noise_of(spec.sigma)
    data = images(data_spec(spec.network, request.data), request.grid.count)
    assert data.labels is not None
    model, description, facts = _changed(request, spec, data, noise)
    model = _prepared(request, spec, model)
    source = open_source(
        model, data.inputs, noise=noise, seed=spec.seed, batch_size=request.batch_size or batch_size
    )  # fmt: skip
    request.log(f"{spec.network}, {noise_words(spec.sigma)}, {spec.approximation}: {description}")
    about = About(
        network=spec.network, approximation=spec.approximation, noise=noise.spec, seed=spec.seed, data=data.name,
        digests=source.digests, indices=data.indices.tolist(), labels=data.labels.tolist(), clean=clean_answers(model, data.inputs).tolist(),
        description=description, facts=facts,
    )  # fmt: skip
    return source, about


def _changed(request: Request, spec: NetworkSpec, data: Dataset, noise: Noise) -> tuple[nn.Module, str, dict[str, str]]:
    """The network with its change, one line about it, and what was measured while it was changed."""
    loaded = load_network(spec.network, spec.sigma, request.weights)
    model = loaded.model.to(request.device)
    if spec.approximation == ORIGINAL:
        return model, loaded.note, {}
    calibration = None
    if needs_calibration(spec.approximation):
        calibration = Calibration(_calibration_inputs(data_spec(spec.network, request.data), data), noise, request.seed)
    made = approximate(model, spec.approximation, calibration=calibration, example_input=data.inputs[:8])
    return made.model, made.description, {k: v for k, v in made.facts.items() if k != "calibration_inputs"}


def _calibration_inputs(spec: str, certified: Dataset) -> NDArray[np.float32]:
    """Training inputs; where there is no training split, inputs that are not certified."""
    training = load_data(spec, split="train", count=CALIBRATION_INPUTS + len(certified))
    if training.name != certified.name:
        return training.inputs[:CALIBRATION_INPUTS]
    others = training.inputs[~np.isin(training.indices, certified.indices)][:CALIBRATION_INPUTS]
    if len(others) == 0:
        raise ValueError(
            f"expected inputs beside those that are certified in {spec}, to calibrate on, got none; lower --count"
        )
    return others


def _prepared(request: Request, spec: NetworkSpec, model: nn.Module) -> nn.Module:
    """The network as it is to be run: TF32, bf16, compiled, ... as asked for."""
    # onnxruntime computes as its file says.
    if hasattr(model, "session") or (request.precision is None and not request.compiled):
        return model
    precision = None if spec.approximation in OWN_PRECISION else request.precision
    return prepare(model, precision=precision, compile=request.compiled)


def resolved(request: Request) -> Request:
    """With a network to run: ResNet-20 if CIFAR-10 is here, else the one for digits."""
    if request.grid.networks:
        return request
    try:
        images(request.data, 1)
        network = "cifar-resnet20"
    except (RecertError, OSError) as error:
        request.log(f"no CIFAR-10 here ({error}); running the small network for digits instead")
        network = "digits"
    return replace(request, grid=replace(request.grid, networks=(network,)))


def load_network(network: str, sigma: float | str, weights: Path | None) -> LoadedModel:
    """With own weights (NETWORK-SIGMA.safetensors in a folder) if they are there, else with those that are shipped."""
    if network in SPECS:
        return load(network, sigma, weights)
    text = sigma_text(sigma)
    file = None if weights is None else weights / f"{network}-{text}.safetensors"
    if file is not None and file.is_file():
        return load_model(f"{network}@{file}")
    try:
        return load_model(f"{network}:{text}")
    except ValueError as error:
        missing = "" if file is None else f"; there is no {file} either"
        raise ValueError(f"{error}{missing}; name the folder of trained weights by --weights") from None


def data_spec(network: str, data: str) -> str:
    """Which data a network is for."""
    return "digits" if network == "digits" else data


def images(spec: str, count: int) -> Dataset:
    """The first `count` of about 500 test images that are spread evenly over all."""
    return load_data(spec, every=_every(spec), count=count)


@lru_cache
def _every(spec: str) -> int:
    return max(1, len(load_data(spec)) // IMAGES)


def check_device(device: str) -> None:
    """ValueError in words if the device is not there."""
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError):
        raise ValueError(f"expected a device that is there, such as cpu or cuda:0, got {device[:60]!r}") from None
