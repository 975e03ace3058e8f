"""`train`: noise-augmented training of a shipped network (Cohen et al., 2019), with noise of any family."""

import os
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from recert.data import Dataset
from recert.models.devices import usable_device
from recert.models.registry import model_entry
from recert.noise import Gaussian, Noise, check_inputs, checked_noise
from recert.training.card import Card, TrainedModel, describe_data, versions
from recert.training.epochs import Examples, accuracy, generator_for
from recert.training.files import TrainingFiles
from recert.training.recipes import RECIPES, Recipe
from recert.training.run import Plan, Run
from recert.training.state import plain_state

EpochCallback = Callable[[int, int, float, float], None]
"""Called after every epoch with (epochs done, epochs in all, mean loss, accuracy on the noisy training images)."""


def train(
    architecture: str,
    data: Dataset,
    noise: Noise,
    *,
    test: Dataset | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    out: str | os.PathLike[str] = "runs",
    progress: EpochCallback | None = None,
    resume: bool = True,
) -> TrainedModel:
    """Train a shipped network on noisy images and write `ARCHITECTURE-SIGMA.safetensors` with a card (`.json`) to `out`.

    The noise is that which it will be certified with; for other families than Gaussian, files are named by it (`digits-laplace-0.5`).

    What is not given is taken from `RECIPES`. The state is saved after every epoch: the same call continues an
    interrupted training, on a CPU to the same bits, and returns a finished one as it is. `resume=False` starts afresh.
    """
    recipe = _recipe(architecture, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate)
    _check_data(architecture, data)
    check_inputs(checked_noise(noise), data.inputs)
    if test is not None:
        _check_data(architecture, test)
        check_inputs(noise, test.inputs)
    plan = Plan(architecture, noise, seed, recipe, _settings(architecture, noise, seed, recipe, data, test))
    files = TrainingFiles(Path(out), f"{architecture}-{_short_name(noise)}")
    finished = files.finished(plan.settings) if resume else None
    if finished is not None:
        return finished

    place = usable_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    run = Run(plan, place, files)
    if resume:
        run.resume()
    for reached in run.epochs(Examples.of(data, place)):
        if progress is not None:
            progress(reached.epochs_done, recipe.epochs, reached.loss, reached.accuracy)
    return files.finish(plain_state(run.network), _card(run, test))


def _short_name(noise: Noise) -> str:
    """What the files of a training are named by: sigma, or the spec with what is no part of a file name left out."""
    if isinstance(noise, Gaussian) and noise.grid is None:
        return f"{noise.sigma:g}"
    return re.sub(r"[^A-Za-z0-9.]+", "-", noise.spec)


def _card(run: Run, test: Dataset | None) -> Card:
    clean, under_noise = None, None
    if test is not None:
        examples = Examples.of(test, run.device)
        draws = generator_for(run.device, run.plan.seed, "test")
        clean = accuracy(run.network, examples, None, draws)
        under_noise = accuracy(run.network, examples, run.plan.noise, draws)
    return Card(
        settings=run.plan.settings,
        noise=run.plan.noise.spec,
        parameters=sum(parameter.numel() for parameter in run.network.parameters()),
        train_loss=run.reached.loss,
        train_accuracy=run.reached.accuracy,
        test_accuracy=clean,
        noisy_test_accuracy=under_noise,
        seconds=round(run.reached.seconds, 1),
        versions=versions(run.device),
        weights_sha256="",  # known once the file is
    )


def _settings(
    architecture: str, noise: Noise, seed: int, recipe: Recipe, data: Dataset, test: Dataset | None
) -> dict[str, Any]:
    return {
        "architecture": architecture,
        "noise": noise.spec,
        "seed": seed,
        **asdict(recipe),
        "train_data": describe_data(data),
        "test_data": None if test is None else describe_data(test),
    }


def _recipe(architecture: str, **given: float | None) -> Recipe:
    model_entry(architecture)
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(RECIPES[architecture], **changes)


def _check_data(architecture: str, data: Dataset) -> None:
    entry = model_entry(architecture)
    if data.inputs.shape[1:] != entry.input_shape:
        raise ValueError(
            f"expected inputs of shape {entry.input_shape} for {architecture}, got {data.inputs.shape[1:]} in {data.name}; "
            "use the data set that the network was made for"
        )
    if data.labels is None:
        raise ValueError(f"expected labels to train on, got none in {data.name}; add them to the file")
    if data.labels.min() < 0 or data.labels.max() >= entry.classes:
        raise ValueError(
            f"expected labels from 0 to {entry.classes - 1} for {architecture}, "
            f"got {data.labels.min()} to {data.labels.max()} in {data.name}"
        )
