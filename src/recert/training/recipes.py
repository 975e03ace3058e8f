"""How a network is trained if nothing else is given: each shipped one in its own way, others by plain rules."""

import math
from dataclasses import dataclass, replace

OPTIMIZERS = ("sgd", "adamw")


@dataclass(frozen=True)
class Recipe:
    """Gradient descent with one cycle: the learning rate goes up in the first tenth, then down a cosine.

    `sgd` has Nesterov momentum. Weight decay is for weights alone, not for biases and batch normalisation. `crop` is the padding of random
    crops. `consistency` is lambda of Jeong and Shin (2020): how strongly two noisy copies of an input are pulled towards the same answer.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: float = 0.1
    crop: int = 0
    flip: bool = False
    optimizer: str = "sgd"
    consistency: float = 0.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0:
            raise ValueError(
                f"expected epochs >= 1, batch_size >= 1 and learning_rate > 0, got {self.epochs}, {self.batch_size} "
                f"and {self.learning_rate}; leave them out for the usual ones"
            )
        if not 0 <= self.consistency < math.inf:
            raise ValueError(f"expected consistency >= 0, got {self.consistency}; 10 is usual, 0 is without")
        if self.crop < 0:
            raise ValueError(f"expected crop >= 0, got {self.crop}; 4 moves images by up to 4 pixels, 0 leaves them")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"expected an optimizer of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")

    def rate_at(self, progress: float) -> float:
        """The learning rate at a share of the training, from 0 to 1.

        >>> [round(Recipe(1, 1, 0.2).rate_at(share), 3) for share in (0.05, 0.1, 1.0)]
        [0.1, 0.2, 0.0]
        """
        if progress < self.warmup:
            return self.learning_rate * progress / self.warmup
        return self.learning_rate * (1 + math.cos(math.pi * (progress - self.warmup) / (1 - self.warmup))) / 2


# Noise already keeps a network from memorising its training data, so weight decay for CIFAR is Cohen et al.'s small one.
_CIFAR = Recipe(epochs=160, batch_size=512, learning_rate=0.2, weight_decay=1e-4, crop=4, flip=True)

RECIPES = {
    "digits": Recipe(epochs=300, batch_size=64, learning_rate=0.05),
    "cifar-resnet20": _CIFAR,
    "cifar-resnet110": replace(_CIFAR, epochs=60),
}

# Of a network that nobody here has seen: AdamW needs no learning rate of its own for each, with batch normalisation or without.
_FRESH = Recipe(epochs=40, batch_size=128, learning_rate=1e-3, optimizer="adamw", weight_decay=0.01)
_FINE_TUNING = replace(_FRESH, epochs=10)
_STEPS_AN_EPOCH = 50
_SMALLEST_BATCH = 32
_FEWEST_STEPS = 100
"""For each epoch of the usual number: small data sets are gone through more often."""

_NATURAL_SIDE = 32
"""Colour images from this size on are taken for photographs, which mean the same when they are mirrored or moved."""


def usual_recipe(name: str | None, *, trained: bool, count: int, shape: tuple[int, ...]) -> Recipe:
    """The recipe for a network, by its name if it is shipped: fine-tuning if it is `trained` already, else from scratch."""
    known = RECIPES.get(name or "")
    if known is not None and not trained:
        return known
    recipe = _FINE_TUNING if trained else _FRESH
    batch_size = min(recipe.batch_size, max(_SMALLEST_BATCH, count // _STEPS_AN_EPOCH))
    epochs = max(recipe.epochs, math.ceil(_FEWEST_STEPS * recipe.epochs / math.ceil(count / batch_size)))
    recipe = replace(recipe, batch_size=batch_size, epochs=epochs)
    if known is not None:
        return replace(recipe, crop=known.crop, flip=known.flip)
    natural = of_natural_size(shape)
    return replace(recipe, crop=min(shape[1:]) // 8 if natural else 0, flip=natural)


def of_natural_size(shape: tuple[int, ...]) -> bool:
    """Whether inputs are colour images of 32 x 32 pixels or more. Grey ones are as often digits or letters, which may not be mirrored.

    >>> of_natural_size((3, 32, 32)), of_natural_size((1, 28, 28)), of_natural_size((3, 8, 8)), of_natural_size((30,))
    (True, False, False, False)
    """
    return len(shape) == 3 and shape[0] == 3 and min(shape[1:]) >= _NATURAL_SIDE
