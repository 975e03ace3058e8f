"""What a model is known by. No torch here: caches are read without it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelIdentity:
    """SHA-256 digests (hex) of a model's weights and of its structure; for a callable, the name it was given."""

    weights: str
    structure: str
