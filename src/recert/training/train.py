"""`train`: noise-augmented training of any network (Cohen et al., 2019), with noise of any family."""

import os
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from recert.models.devices import usable_device
from recert.models.weights_files import load_weights
from recert.noise import Gaussian, Noise, check_inputs, checked_noise
from recert.training.card import Card, TrainedModel, versions
from recert.training.epochs import prepared
from recert.training.examples import Examples
from recert.training.files import TrainingFiles
from recert.training.forms import Data, examples_of
from recert.training.measuring import Effort, Measured, knows_the_classes, measured
from recert.training.recipes import Recipe, usual_recipe
from recert.training.run import Plan, Run
from recert.training.showing import Epoch, ShowEpochs, teller
from recert.training.state import plain_state
from recert.training.subject import Subject, classes_of, subject_of, weights_digest
from recert.units import warn_of_units

_TIMES_MEASURED = 10
"""In a training, evenly spread: an estimate is to cost little beside it."""


def train(
    model: Any,
    data: Data,
    noise: Noise,
    *,
    test: Data | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    start: str | os.PathLike[str] | None = None,
    consistency: float | None = None,
    flip: bool | None = None,
    crop: int | None = None,
    recipe: Recipe | None = None,
    stream: bool | None = None,
    compile: bool = False,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    out: str | os.PathLike[str] = "runs/networks",
    progress: ShowEpochs = None,
    resume: bool = True,
) -> TrainedModel:
    """Train a network on noisy inputs, from scratch or from the weights it has, and write its weights and a card to `out`.

    `model` is a torch.nn.Module, of which a copy is trained, or a spec; `start` a file of weights to begin with. `data` is a pair
    (inputs, labels), a spec such as `folder:DIR`, or a Dataset or DataLoader of torch; `test` the same, for the accuracies. The noise is that
    which the network will be certified with. Files are `NAME-SIGMA.safetensors` and `.json`; for other families than Gaussian they are named
    by the noise (`digits-laplace-0.5`).

    What is not given follows from the network and the data. A network that already knows the classes is fine-tuned in 10 epochs, one that does not
    has 40; small data sets are gone through more often, in 1,000 and 4,000 steps. Colour images of 32 x 32 and larger are mirrored (`flip`) and moved by up to an eighth
    (`crop` pixels), nothing else is. `consistency` is lambda of Jeong and Shin (2020), usually 10 or 20: two noisy copies of each input
    are pulled towards the same answer, which takes twice the time and gives larger radii. `recipe` is a `Recipe` instead of the usual one, with
    `optimizer` and `label_smoothing`. Data that memory does not hold are streamed.

    The state is saved after every epoch: the same call continues an interrupted training, on a CPU to the same bits, and returns a finished
    one as it is. `resume=False` starts afresh.
    """
    if name is not None and Path(name).name != name:
        raise ValueError(f"expected a name without folders, got {name!r}; choose the folder with out")
    place = usable_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    subject = subject_of(model, None if start is None else Path(start), seed)
    examples, tests = _checked_data(subject, data, test, checked_noise(noise), place, stream)
    prepared(subject.network, place)
    trained = subject.start is not None or (
        subject.entry is None and knows_the_classes(subject.network, examples, place)
    )
    if trained and subject.start is None:
        subject = replace(subject, start=weights_digest(subject.network))
    if recipe is None:
        entry = subject.entry.name if subject.entry else None
        recipe = usual_recipe(entry, trained=trained, count=examples.count, shape=examples.shape)
        recipe = replace(recipe, batch_size=examples.usual_batch or recipe.batch_size)
    recipe = _changed(
        recipe, epochs=epochs, batch_size=batch_size,
        learning_rate=learning_rate, consistency=consistency, flip=flip, crop=crop,
    )  # fmt: skip
    _check_images(recipe, examples)
    settings = _settings(subject, noise, seed, recipe, examples, tests, compile)
    plan = Plan(noise, seed, recipe, settings, compile, recorded=subject.entry is not None)
    files = TrainingFiles(Path(out), f"{name or subject.name}-{_short_name(noise)}")
    card = files.finished(settings) if resume else None
    if card is None:
        card = _train(subject, plan, place, files, examples, tests, teller(progress), resume)
    else:
        load_weights(subject.network, files.weights)
    return TrainedModel(subject.network.eval(), files.weights, files.card, card)


def _train(
    subject: Subject, plan: Plan, place: torch.device, files: TrainingFiles, examples: Examples, tests: Examples | None,
    tell: Callable[[Epoch], None], resume: bool,
) -> Card:  # fmt: skip
    """Train what is left to train, and write the files."""
    judge, judge_name = (examples, "training") if tests is None else (tests, "test")

    total = plan.recipe.epochs

    def judged(*, on_the_way: bool = False) -> Measured:
        effort = Effort.beside(total * examples.count, on_the_way=on_the_way)
        return measured(subject.network, judge, plan.noise, place, plan.seed, effort)

    run = Run(subject.network, plan, place, files)
    if resume:
        run.resume()
    if run.reached.epochs_done == 0:
        run.begin(asdict(judged()))
    for reached in run.epochs(examples):
        done = reached.epochs_done
        wanted = done * _TIMES_MEASURED // total > (done - 1) * _TIMES_MEASURED // total
        tell(
            Epoch(done, total, reached.loss, reached.accuracy, judged(on_the_way=True) if wanted else None, judge_name)
        )
    return files.finish(plain_state(subject.network), _card(subject, run, judged(), tests is not None))


def _checked_data(
    subject: Subject, data: Data, test: Data | None, noise: Noise, place: torch.device, stream: bool | None
) -> tuple[Examples, Examples | None]:
    """The examples to train on and to test on: of the shape, the classes and the noise that the network is for."""
    examples = examples_of(data, place, stream=stream)
    tests = None if test is None else examples_of(test, place, split="test", stream=stream)
    classes = classes_of(subject, examples)
    for each in (examples, tests):
        if each is None:
            continue
        if classes_of(subject, each) != classes or each.shape != examples.shape:
            raise ValueError(
                f"expected test inputs of shape {examples.shape}, as those to train on, got {each.shape} in {each.name}"
            )
        each.check_labels(classes)
        for inputs, _ in each.batches(each.some(64), 64):
            check_inputs(noise, inputs.cpu().numpy())
            if each is examples:
                warn_of_units(inputs.cpu().numpy(), stacklevel=3)  # where `train` was called
    return examples, tests


def _short_name(noise: Noise) -> str:
    """What the files of a training are named by: sigma, or the spec with what is no part of a file name left out."""
    if isinstance(noise, Gaussian) and noise.grid is None:
        return f"{noise.sigma:g}"
    return re.sub(r"[^A-Za-z0-9.]+", "-", noise.spec)


def _card(subject: Subject, run: Run, after: Measured, tested: bool) -> Card:
    return Card(
        settings=run.plan.settings,
        noise=run.plan.noise.spec,
        parameters=sum(parameter.numel() for parameter in subject.network.parameters()),
        train_loss=run.reached.loss,
        train_accuracy=run.reached.accuracy,
        test_accuracy=after.accuracy if tested else None,
        noisy_test_accuracy=after.noisy_accuracy if tested else None,
        seconds=round(run.reached.seconds, 1),
        versions=versions(run.device),
        weights_sha256="",  # known once the file is
        before=run.reached.before,
        after=asdict(after),
        measured_on="test" if tested else "training",
    )


def _settings(
    subject: Subject, noise: Noise, seed: int, recipe: Recipe, data: Examples, test: Examples | None, compiled: bool
) -> dict[str, Any]:
    return {
        "architecture": subject.architecture,
        "start": subject.start,
        "noise": noise.spec,
        "seed": seed,
        **asdict(recipe),
        "compiled": compiled,
        "train_data": data.described(),
        "test_data": None if test is None else test.described(),
    }


def _changed(recipe: Recipe, **given: float | bool | None) -> Recipe:
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(recipe, **changes)


def _check_images(recipe: Recipe, examples: Examples) -> None:
    if (recipe.flip or recipe.crop) and len(examples.shape) != 3:
        raise ValueError(
            f"expected images (channels, height, width) to flip or crop, got inputs of shape {examples.shape}; leave out flip and crop"
        )
