"""The card beside a saved model, FILE.json: which network the file holds and how it is loaded. No torch here."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from recert.errors import UnusableModel

FORM = "recert model card 1"
LARGEST = 2**24
"""Bytes of a card: a few hundred for each tensor."""
WEIGHTS, GRAPH, INT8, INT8_TWIN = "weights", "onnx", "int8", "int8-twin"
SUFFIXES = {WEIGHTS: ".safetensors", GRAPH: ".onnx", INT8: ".onnx", INT8_TWIN: ".onnx"}
"""What a file can hold, and what it is called: tensors of an architecture, a graph for onnxruntime, one for its int8 kernels, or for their twin."""

Texts = Mapping[str, str]


@dataclass(frozen=True)
class ModelCard:
    """What is known of a saved model. Nothing in a card is believed: the identity of what is loaded is always taken anew."""

    kind: str
    sha256: str
    """Of the file."""
    weights: str
    structure: str
    """With the digest of the weights, the identity of the model when it was saved."""
    architecture: str | None = None
    """The network that the tensors belong to, as `--model` takes it, without weights."""
    approximation: str | None = None
    description: str = ""
    shared: Texts = field(default_factory=dict)
    """Names of tensors that are another one: that one's name."""
    computed_in: Texts = field(default_factory=dict)
    """Tensors that the file holds in a narrower type, without loss: the type that the network has them in."""
    order: Texts = field(default_factory=dict)
    """Modules that hold their tensors in another order than the architecture: their names in that order, between spaces."""
    facts: Texts = field(default_factory=dict)
    versions: Texts = field(default_factory=dict)

    def to_json(self) -> bytes:
        return (json.dumps({"form": FORM, **asdict(self)}, indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> "ModelCard | None":
        """The card; None if this is JSON of something else. ValueError if it is a card that is damaged."""
        raw = json.loads(data.decode("utf-8"))
        if not isinstance(raw, dict) or raw.get("form") != FORM:
            return None
        # What a later version adds is passed over; what is known has its type.
        known = {f.name: raw[f.name] for f in fields(cls) if f.name in raw}
        card = cls(**known)
        card._check()
        return card

    def _check(self) -> None:
        if self.kind not in SUFFIXES:
            raise ValueError(f"a kind that is none of {', '.join(SUFFIXES)}")
        texts = {name: getattr(self, name) for name in ("sha256", "weights", "structure", "description")}
        texts |= {name: getattr(self, name) or "" for name in ("architecture", "approximation")}
        for name in ("shared", "computed_in", "order", "facts", "versions"):
            mapping: Any = getattr(self, name)
            if not isinstance(mapping, dict):
                raise ValueError(f"{name} is not a mapping")
            texts |= {f"{name} of {key}": value for key, value in mapping.items()}
        for name, value in texts.items():
            if not isinstance(value, str):
                raise ValueError(f"{name} is not a text")


def card_path(path: Path) -> Path:
    """Where the card of a file is: beside it, with .json behind its whole name."""
    return path.with_name(f"{path.name}.json")


def card_of(path: Path) -> ModelCard | None:
    """The card of a model file, which must be of this very file; None if it has none."""
    where = card_path(path)
    if not where.is_file():
        return None
    try:
        if where.stat().st_size > LARGEST:
            raise ValueError(f"more than {LARGEST:,} bytes")
        card = ModelCard.from_json(where.read_bytes())
    except (ValueError, TypeError, RecursionError) as error:
        raise UnusableModel(
            f"expected a card of {path.name} in {where}, got one that is damaged ({str(error)[:100]}); save the model again"
        ) from None
    if card is not None and card.sha256 != file_digest(path):
        raise UnusableModel(
            f"expected the file that {where} is the card of, got {path} with other bytes: one of the two was changed or exchanged; "
            "save the model again"
        )
    return card


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
