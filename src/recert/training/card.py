"""The card beside trained weights: everything that made them, and their accuracy."""

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from recert.data import Dataset
from recert.version import __version__


@dataclass(frozen=True)
class Card:
    """Settings, data, results. Accuracies are those of the network itself, not of its smoothed version.

    The noisy accuracy is under one draw of noise for each test image; None without test data. `before` and `after` are a `Measured`
    each, on inputs that `measured_on` names.
    """

    settings: dict[str, Any]
    noise: str
    parameters: int
    train_loss: float
    train_accuracy: float
    test_accuracy: float | None
    noisy_test_accuracy: float | None
    seconds: float
    versions: dict[str, str]
    weights_sha256: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    measured_on: str = "test"


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """What a training made: the network in eval mode, the files with its weights and its card, and what the card says."""

    model: nn.Module
    weights: Path
    card_file: Path
    card: Card


def describe_data(data: Dataset) -> dict[str, Any]:
    """Name, size and digest of a data set."""
    digest = hashlib.sha256(np.ascontiguousarray(data.inputs).data)  # no copy: these are gigabytes
    if data.labels is not None:
        digest.update(np.ascontiguousarray(data.labels).data)
    return {"name": data.name, "count": len(data), "shape": list(data.inputs.shape[1:]), "sha256": digest.hexdigest()}


def versions(device: torch.device) -> dict[str, str]:
    """What it was trained with."""
    return {
        "recert": __version__,
        "torch": torch.__version__.partition("+")[0],
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    }
