"""A training as it runs: a network, its optimiser, and how far they are."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from recert.errors import RecertError
from recert.models.registry import build_model
from recert.noise import Noise
from recert.training.epochs import Examples, generator_for, make_optimizer, prepared, train_epoch
from recert.training.files import TrainingFiles
from recert.training.recipes import Recipe
from recert.training.state import TrainingProgress, read_progress, restore, write_state
from recert.training.step import make_step


class TrainingDiverged(RecertError):
    """The loss is no longer a number: lower the learning rate."""


@dataclass(frozen=True)
class Plan:
    """What is trained and how; `settings` is all of it with the data, as the card and the state record it."""

    architecture: str
    noise: Noise
    seed: int
    recipe: Recipe
    settings: dict[str, Any]


class Run:
    """Trains a fresh network, or one restored from the state in `files`."""

    def __init__(self, plan: Plan, device: torch.device, files: TrainingFiles) -> None:
        self.plan, self.device, self.files = plan, device, files
        self.network = prepared(_fresh_network(plan), device)
        self.optimizer = make_optimizer(self.network, plan.recipe)
        self.step = make_step(self.network, self.optimizer, device)
        self.reached = TrainingProgress(plan.settings)

    def resume(self) -> None:
        """Continue where an interrupted run with the same settings stopped, if there was one."""
        if not self.files.state.is_file():
            return
        reached = read_progress(self.files.state)
        self.files.check_same(reached.settings, self.plan.settings)
        restore(self.files.state, self.network, self.optimizer)
        self.reached = reached

    def epochs(self, examples: Examples) -> Iterator[TrainingProgress]:
        """Train the epochs that are left; the state is on disk before each is reported."""
        for epoch in range(self.reached.epochs_done, self.plan.recipe.epochs):
            started = time.perf_counter()
            generator = generator_for(self.device, self.plan.seed, epoch)
            loss, accuracy = train_epoch(self.step, examples, self.plan.recipe, self.plan.noise, epoch, generator)
            if not math.isfinite(loss):
                raise TrainingDiverged(
                    f"expected a finite loss, got {loss} in epoch {epoch + 1}; lower learning_rate "
                    f"(it was {self.plan.recipe.learning_rate:g})"
                )
            seconds = self.reached.seconds + time.perf_counter() - started
            self.reached = TrainingProgress(self.plan.settings, epoch + 1, loss, accuracy, seconds)
            write_state(self.files.state, self.network, self.optimizer, self.reached)
            yield self.reached


def _fresh_network(plan: Plan) -> nn.Module:
    """Random weights that depend on the seed alone; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        return build_model(plan.architecture)
