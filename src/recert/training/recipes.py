"""How each shipped network is trained if nothing else is given."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Recipe:
    """Stochastic gradient descent with Nesterov momentum: learning rate up in the first tenth, then down a cosine.

    Weight decay is for weights alone, not for biases and batch normalisation. `crop` is the padding of random crops.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: float = 0.1
    crop: int = 0
    flip: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0:
            raise ValueError(
                f"expected epochs >= 1, batch_size >= 1 and learning_rate > 0, got {self.epochs}, {self.batch_size} "
                f"and {self.learning_rate}; leave them out for the usual ones"
            )

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
