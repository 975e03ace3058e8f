"""Whether a result looks like that of a network which was never trained with noise, and what to do then."""

from typing import TYPE_CHECKING, Any

import numpy as np

from recert.cli.loading import is_function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recert.certificates import Certificates

MOST, FEWEST = 200, 10
"""Inputs that are looked at; of fewer nothing is said."""
FEWEST_VOTES = 50
"""With fewer even a network that is used to noise abstains often."""
AGREEMENT = 0.35
"""With 100 votes a ResNet-20 that was trained with the noise agrees with its own answers without noise on .75 (sigma .25), .61 (.5) and .45 (1.0)
of 100 CIFAR-10 images, the network for digits on .93, and an ordinary small network for clothes at sigma .5 on .27."""


def said_of_training(
    network: Any, inputs: "NDArray[np.float32]", result: "Certificates", model: str, batch_size: int | None
) -> str:
    """Lines that ask whether the network was trained with noise, where under noise it mostly abstains or gives other classes; else nothing."""
    if is_function(network) or len(inputs) < FEWEST or result.settings.samples < FEWEST_VOTES:
        return ""
    from recert.sampling.plain import answers_without_noise

    rows = np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), MOST)).astype(int))
    agree = float((result.prediction[rows] == answers_without_noise(network, inputs[rows], batch_size)).mean())
    if agree >= AGREEMENT:
        return ""
    return (
        f"\nOnly {agree:.0%} of the inputs get the class under noise that the network gives them without it; the others abstain, or get another "
        f"one. Was it trained with this noise? If not, a few epochs change that:\n"
        f"  recert train --model {model} --data TRAINING_DATA --noise {result.settings.noise}"
    )
