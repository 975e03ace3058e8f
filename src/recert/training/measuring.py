"""How good a network is under noise, in a moment: what training shows while it runs, and before and after."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from recert.bounds import clopper_pearson_lower
from recert.noise import Noise
from recert.training.epochs import generator_for, right_answers, votes_for_label
from recert.training.examples import Examples

VOTES, ALPHA = 100, 0.001
"""Of the estimate of the average certified radius."""
_ENOUGH, _ERRORS_OF_GUESSING = 1_000, 0.75


@dataclass(frozen=True)
class Measured:
    """Of the network itself: accuracy without noise and under one draw of it. `acr` is the average certified radius that 100 votes show.

    It is Algorithm 1's for at most 100 of the inputs, with 0 where the label has not most votes. More votes show more: compare it with itself.
    """

    inputs: int
    accuracy: float
    noisy_accuracy: float
    acr: float


@dataclass(frozen=True)
class Effort:
    """How many inputs at most are measured: for accuracies, and for the average radius, which takes 100 passes of each."""

    accuracies: int
    radii: int

    @classmethod
    def beside(cls, passes: int, *, on_the_way: bool) -> "Effort":
        """No more than what a training of so many passes takes: at its ends once, on the way ten times."""
        parts = 10 if on_the_way else 1
        return cls(1_000 if on_the_way else 10_000, min(100, max(4, passes // (parts * VOTES))))


def measured(
    network: nn.Module, examples: Examples, noise: Noise, device: torch.device, seed: int, effort: Effort
) -> Measured:
    """Of examples that are evenly spread: the same ones with the same noise at every call."""
    places, draws = examples.some(effort.accuracies), generator_for(device, seed, "test")
    clean, noisy = (right_answers(network, examples, places, each, draws) for each in (None, noise))
    acr = acr_of_votes(votes_for_label(network, examples, examples.some(effort.radii), noise, VOTES, draws), noise)
    return Measured(len(places), _share(clean), _share(noisy), acr)


def acr_of_votes(votes_for_labels: Tensor, noise: Noise) -> float:
    """The mean radius that so many of `VOTES` votes for the right class show, each with error `ALPHA`."""
    lower = clopper_pearson_lower(votes_for_labels.numpy(), VOTES, ALPHA)
    return float(np.mean(np.where(np.asarray(lower) > 0.5, noise.radius(lower), 0.0)))


def knows_the_classes(network: nn.Module, examples: Examples, device: torch.device) -> bool:
    """Whether the network makes at most three quarters of the errors of always guessing the most frequent class: then it was trained."""
    places = examples.some(_ENOUGH)
    right = right_answers(network, examples, places, None, generator_for(device, 0, "test"))
    labels = torch.cat([labels.cpu() for _, labels in examples.batches(places, len(places))])
    guessing = int(torch.bincount(labels).max()) / len(labels)
    return 1 - _share(right) <= _ERRORS_OF_GUESSING * (1 - guessing)


def _share(right: Tensor) -> float:
    return int(right.sum()) / len(right)
