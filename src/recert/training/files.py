"""The files of a training: the state while it runs, weights and card when it is done."""

import hashlib
import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from recert.errors import RecertError
from recert.storage import Directory
from recert.training.card import Card
from recert.training.recipes import Recipe

_UNSAID = {field.name: field.default for field in fields(Recipe)} | {"start": None, "compiled": False}
"""What a card says nothing of is as it was before there was a choice."""


class OtherTraining(RecertError):
    """The output directory holds another training under this name: use another one, or start afresh."""


class TrainingFiles:
    """`NAME.safetensors` and `NAME.json` in a directory, and `NAME.state.safetensors` until they are there."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.weights = directory / f"{name}.safetensors"
        self.card = directory / f"{name}.json"
        self.state = directory / f"{name}.state.safetensors"

    def finished(self, settings: dict[str, Any]) -> Card | None:
        """The card of this very training if it is complete."""
        if not (self.weights.is_file() and self.card.is_file()):
            return None
        card = Card(**json.loads(self.card.read_text()))
        self.check_same({**_UNSAID, **card.settings}, settings)
        if hashlib.sha256(self.weights.read_bytes()).hexdigest() != card.weights_sha256:
            raise OtherTraining(
                f"expected in {self.weights} the weights that {self.card.name} describes, got others; "
                "pass resume=False to train them again, or use another directory"
            )
        return card

    def finish(self, tensors: dict[str, Tensor], card: Card) -> Card:
        """Write weights, then the card, which makes the training complete, then drop the state."""
        data = safetensors.torch.save(tensors)
        card = replace(card, weights_sha256=hashlib.sha256(data).hexdigest())
        directory = Directory(self.directory)
        directory.write(self.weights.name, data)
        directory.write(self.card.name, f"{json.dumps(asdict(card), indent=2)}\n".encode())
        self.state.unlink(missing_ok=True)
        return card

    def check_same(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        """Refuse to continue, or to overwrite, a training with other settings."""
        field = next((name for name in here if there.get(name) != here[name]), None)
        if field is not None:
            raise OtherTraining(
                f"expected a training with {field} = {here[field]}, got one with {there.get(field)} in {self.directory}; "
                "pass resume=False to replace it, or use another directory"
            )
