"""The networks that come with recert, by name. No torch here: the command line lists them without loading it."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

WEIGHTS = Path(__file__).parent / "weights"
DEFAULT_SIGMA = "0.5"


@dataclass(frozen=True)
class ModelEntry:
    """A registered network. `factory` is `module:function`, imported only when the network is built."""

    name: str
    description: str
    factory: str
    classes: int
    input_shape: tuple[int, ...]

    @property
    def sigmas(self) -> tuple[str, ...]:
        """Noise scales for which trained weights are shipped, smallest first."""
        files = WEIGHTS.glob(f"{self.name}-*.safetensors")
        return tuple(sorted((file.stem.removeprefix(f"{self.name}-") for file in files), key=float))

    def weights(self, sigma: str | None = None) -> Path:
        """The shipped weights for this noise scale, 0.5 if not given, or a ValueError that lists what there is."""
        wanted = DEFAULT_SIGMA if sigma is None else sigma
        for shipped in self.sigmas:
            if _same_number(shipped, wanted):
                return WEIGHTS / f"{self.name}-{shipped}.safetensors"
        there = f"weights for sigma {', '.join(self.sigmas)}" if self.sigmas else "no weights shipped"
        raise ValueError(
            f"expected a shipped network, got {self.name} with sigma {wanted!r}, for which there is none ({there}); "
            f"train it with `recert train --model {self.name}` and load {self.name}@FILE.safetensors"
        )


ENTRIES = {
    entry.name: entry
    for entry in (
        ModelEntry(
            name="digits",
            description="small convolutional network for scikit-learn's 8x8 digits, 38 thousand parameters",
            factory="recert.models.digits_network:DigitsNetwork",
            classes=10,
            input_shape=(1, 8, 8),
        ),
        ModelEntry(
            name="cifar-resnet20",
            description="ResNet-20 for CIFAR-10, 272 thousand parameters, normalisation inside",
            factory="recert.models.cifar_resnet:resnet20",
            classes=10,
            input_shape=(3, 32, 32),
        ),
        ModelEntry(
            name="cifar-resnet110",
            description="ResNet-110 for CIFAR-10, 1.73 million parameters, normalisation inside",
            factory="recert.models.cifar_resnet:resnet110",
            classes=10,
            input_shape=(3, 32, 32),
        ),
    )
}


def available_models() -> tuple[ModelEntry, ...]:
    """Every registered network, in the order of a table.

    >>> [entry.name for entry in available_models()]
    ['digits', 'cifar-resnet20', 'cifar-resnet110']
    """
    return tuple(ENTRIES.values())


def model_entry(name: str) -> ModelEntry:
    """The registered network of this name, or a ValueError that lists the names there are."""
    if name not in ENTRIES:
        raise ValueError(f"expected one of the models {', '.join(ENTRIES)}, got {name!r}")
    return ENTRIES[name]


def build_model(name: str) -> "nn.Module":
    """The registered network with fresh random weights, in training mode."""
    module, _, factory = model_entry(name).factory.partition(":")
    network: nn.Module = getattr(importlib.import_module(module), factory)()
    return network


def _same_number(shipped: str, wanted: str) -> bool:
    try:
        return float(shipped) == float(wanted)
    except ValueError:
        return False
