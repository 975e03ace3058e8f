"""Training networks under the noise that they will be certified with."""

from recert.training.card import Card, TrainedModel
from recert.training.files import OtherTraining
from recert.training.measuring import Measured
from recert.training.recipes import RECIPES, Recipe
from recert.training.run import TrainingDiverged
from recert.training.showing import Epoch, EpochCallback
from recert.training.train import train

__all__ = [
    "RECIPES",
    "Card",
    "Epoch",
    "EpochCallback",
    "Measured",
    "OtherTraining",
    "Recipe",
    "TrainedModel",
    "TrainingDiverged",
    "train",
]
