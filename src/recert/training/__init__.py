"""Training the shipped networks under the noise that they will be certified with."""

from recert.training.card import Card, TrainedModel
from recert.training.files import OtherTraining
from recert.training.recipes import RECIPES, Recipe
from recert.training.run import TrainingDiverged
from recert.training.train import EpochCallback, train

__all__ = [
    "RECIPES",
    "Card",
    "EpochCallback",
    "OtherTraining",
    "Recipe",
    "TrainedModel",
    "TrainingDiverged",
    "train",
]
