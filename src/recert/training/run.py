"""A training as it runs: a network, its optimiser, and how far they are."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from recert.errors import RecertError
from recert.noise import Noise
from recert.training.epochs import make_optimizer, prepared, train_epoch
from recert.training.examples import Examples
from recert.training.files import TrainingFiles
from recert.training.losses import Loss
from recert.training.recipes import Recipe
from recert.training.state import TrainingProgress, read_progress, restore, write_state
from recert.training.step import make_step


class TrainingDiverged(RecertError):
    """The loss is no longer a number: lower the learning rate."""


@dataclass(frozen=True)
class Plan:
    """How it is trained; `settings` is all of it with the data, as the card and the state record it."""

    noise: Noise
    seed: int
    recipe: Recipe
    settings: dict[str, Any]
    compiled: bool = False
    recorded: bool = False


class Run:
    """Trains a network from the weights it has, or from the state in `files`."""

    def __init__(self, network: nn.Module, plan: Plan, device: torch.device, files: TrainingFiles) -> None:
        self.plan, self.device, self.files = plan, device, files
        self.network = prepared(network, device)
        self.optimizer = make_optimizer(self.network, plan.recipe)
        loss = Loss(plan.recipe.consistency, plan.recipe.label_smoothing)
        stepping: Any = torch.compile(self.network) if plan.compiled else self.network
        self.step = make_step(stepping, self.optimizer, device, loss, recorded=plan.recorded)
        self.step.one_shape = plan.compiled
        self.reached = TrainingProgress(plan.settings)

    def resume(self) -> None:
        """Continue where an interrupted run with the same settings stopped, if there was one."""
        if not self.files.state.is_file():
            return
        reached = read_progress(self.files.state)
        self.files.check_same(reached.settings, self.plan.settings)
        restore(self.files.state, self.network, self.optimizer)
        self.reached = reached

    def begin(self, before: dict[str, Any]) -> None:
        """Note how good the network was."""
        self.reached = replace(self.reached, before=before)

    def epochs(self, examples: Examples) -> Iterator[TrainingProgress]:
        """Train the epochs that are left; the state is on disk before each is reported."""
        recipe = self.plan.recipe
        for epoch in range(self.reached.epochs_done, recipe.epochs):
            started = time.perf_counter()
            loss, accuracy = train_epoch(self.step, examples, recipe, self.plan.noise, epoch, self.plan.seed)
            if not math.isfinite(loss):
                raise TrainingDiverged(
                    f"expected a finite loss, got {loss} in epoch {epoch + 1}; lower learning_rate "
                    f"(it was {recipe.learning_rate:g})"
                )
            seconds = self.reached.seconds + time.perf_counter() - started
            self.reached = replace(self.reached, epochs_done=epoch + 1, loss=loss, accuracy=accuracy, seconds=seconds)
            write_state(self.files.state, self.network, self.optimizer, self.reached)
            yield self.reached
