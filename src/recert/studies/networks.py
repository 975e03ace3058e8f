"""The networks of the studies, original and changed. The one place that decides how they are loaded and run."""

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from recert.approximations import Calibration, approximate, needs_calibration
from recert.data import Dataset, load_data
from recert.data.dataset import UnusableData
from recert.models import load_model
from recert.models.devices import usable_device
from recert.models.inference import prepare
from recert.models.registry import model_entry
from recert.noise import Gaussian
from recert.sampling import VoteSource, open_source
from recert.sampling.network import Network
from recert.studies.kept import KeptVotes
from recert.studies.request import IMAGES, Request
from recert.studies.vote_file import About

ORIGINAL = "original"
CALIBRATION_INPUTS = 256
OWN_NUMERICS = ("fp16", "bf16", "int8")
"""Approximations that compute in a type of their own, whatever is chosen for the others."""


@dataclass(frozen=True)
class Bench:
    """Where a study finds votes: of a network under a noise, changed or not, on the first `count` images."""

    request: Request

    def votes(self, network: str, sigma: float, approximation: str, *, seed: int | None = None) -> KeptVotes:
        """Votes that are kept in the store; the network is loaded when a vote is missing."""
        r = self.request
        seed = r.seed if seed is None else seed
        other = "" if seed == r.seed else f"-seed{seed}"
        name = f"{network}-{sigma_text(sigma)}-{approximation.replace(':', '-')}{other}.parquet"
        wanted = _Wanted(r, network, sigma, approximation, seed)
        return KeptVotes(
            r.store / name, r.grid.count, wanted.open if r.may_draw else None, r.clock,
            allow_numerics=r.allow_numerics, progress=r.progress,
        )  # fmt: skip


@dataclass(frozen=True)
class _Wanted:
    request: Request
    network: str
    sigma: float
    approximation: str
    seed: int

    def open(self, batch_size: int | None) -> tuple[VoteSource, About]:
        r, noise = self.request, Gaussian(self.sigma)
        usable_device(r.device)
        data = images(data_spec(self.network, r.data), r.grid.count)
        assert data.labels is not None
        model, description, facts = self._changed(data, noise)
        model = self._prepared(model)
        source = open_source(model, data.inputs, noise=noise, seed=self.seed, batch_size=r.batch_size or batch_size)
        r.say(f"{self.network}, sigma {self.sigma:g}, {self.approximation}: {description}")
        about = About(
            network=self.network, approximation=self.approximation, noise=noise.spec, seed=self.seed, data=data.name,
            classes=source.classes, input_shape=source.input_shape, digests=source.digests, indices=data.indices.tolist(),
            labels=data.labels.tolist(), clean=_answers(model, data.inputs), identity=asdict(source.identity),
            numerics=source.numerics.to_text(), description=description, facts=facts,
        )  # fmt: skip
        return source, about

    def _changed(self, data: Dataset, noise: Gaussian) -> tuple[nn.Module, str, dict[str, str]]:
        loaded = load_model(weights_spec(self.network, self.sigma, self.request.weights))
        model = loaded.model.to(self.request.device)
        if self.approximation == ORIGINAL:
            return model, loaded.note, {}
        calibration = None
        if needs_calibration(self.approximation):
            training = load_data(data_spec(self.network, self.request.data), split="train", count=CALIBRATION_INPUTS)
            calibration = Calibration(training.inputs, noise, self.request.seed)
        made = approximate(model, self.approximation, calibration=calibration, example_input=data.inputs[:8])
        return made.model, made.description, {k: v for k, v in made.facts.items() if k != "calibration_inputs"}

    def _prepared(self, model: nn.Module) -> nn.Module:
        """The network as it is to be run: TF32, bf16, compiled, ... as asked for."""
        r = self.request
        if hasattr(model, "session") or (r.numerics is None and not r.compiled):
            return model
        numerics = None if self.approximation in OWN_NUMERICS else r.numerics
        return prepare(model, precision=numerics, compile=r.compiled)


def resolved(request: Request) -> Request:
    """With a network to run: ResNet-20 if CIFAR-10 is here, else the one for digits."""
    if request.grid.networks:
        return request
    try:
        images(request.data, 1)
        network = "cifar-resnet20"
    except (UnusableData, OSError) as error:
        request.say(f"no CIFAR-10 here ({error}); running the small network for digits instead")
        network = "digits"
    return replace(request, grid=replace(request.grid, networks=(network,)))


def weights_spec(network: str, sigma: float, weights: Path | None) -> str:
    """Own weights (NETWORK-SIGMA.safetensors in a folder) if they are there, else those that are shipped."""
    text = sigma_text(sigma)
    file = None if weights is None else weights / f"{network}-{text}.safetensors"
    if file is not None and file.is_file():
        return f"{network}@{file}"
    try:
        model_entry(network).weights(text)
    except ValueError as error:
        told = "" if file is None else f"; there is no {file} either"
        raise ValueError(f"{error}{told}; name the folder of trained weights by --weights") from None
    return f"{network}:{text}"


def sigma_text(sigma: float) -> str:
    """As weights are named.

    >>> sigma_text(1), sigma_text(0.25)
    ('1.0', '0.25')
    """
    return str(float(sigma))


def data_spec(network: str, data: str) -> str:
    return "digits" if network == "digits" else data


def images(spec: str, count: int) -> Dataset:
    """The first `count` of about 500 test images that are spread evenly over all."""
    return load_data(spec, every=_every(spec), count=count)


@lru_cache
def _every(spec: str) -> int:
    return max(1, len(load_data(spec)) // IMAGES)


def _answers(model: nn.Module, inputs: Any) -> list[int]:
    """The class that the network names for each input, without noise."""
    network = Network(model)
    batches = [torch.from_numpy(inputs[i : i + 128]).to(network.device) for i in range(0, len(inputs), 128)]
    return [int(c) for batch in batches for c in np.asarray(network.answer(batch).float().argmax(dim=1).cpu())]
