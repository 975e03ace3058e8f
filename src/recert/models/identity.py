"""What a model is known by. No torch here: caches are read without it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

UNKNOWN = "unknown: "
MOST_NAMED = 5
"""Differences between two models that a message names."""


@dataclass(frozen=True)
class ModelIdentity:
    """SHA-256 digests (hex) of a model's weights and of its structure; for a callable, the name it was given.

    Digests of structures begin with "2-". Those of older versions do not, and left out much of what a model does.
    """

    weights: str
    structure: str

    def __str__(self) -> str:
        """Both digests in full, as one text: what a manifest notes of another model."""
        return f"{self.weights} {self.structure}"

    @property
    def nameless(self) -> str | None:
        """Why the model cannot be distinguished from others; None if it can."""
        if (self.weights, self.structure) == ("callable", "unnamed"):
            return "it is a function"
        if self.structure.startswith(UNKNOWN):
            return f"what these hold cannot be looked into: {self.structure.removeprefix(UNKNOWN)}"
        return None

    @property
    def is_a_name(self) -> bool:
        """Whether this is only what the user calls it: nothing of a function can be digested."""
        return self.weights == "callable"

    @property
    def is_old(self) -> bool:
        """Whether the structure was digested by an older version."""
        return len(self.structure) == 64 and set(self.structure) <= set("0123456789abcdef")


@dataclass(frozen=True)
class Description:
    """What people tell a model by, beside its identity: a name, and a short digest of each of its weights and attributes."""

    name: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """In what two models differ, by the digests of their parts; "" if that is not known of one of them.

    >>> differences({"fc.weight": "a1", "fc.bias": "b1"}, {"fc.weight": "a2", "fc.bias": "b1"})
    'they differ in fc.weight (a1, here a2)'
    >>> differences({"fc.bias": "b1"}, {"fc.scale": "c1", "fc.bias": "b1"})
    'they differ in fc.scale (only here)'
    """
    if not ours or not theirs:
        return ""
    found = [_difference(name, ours, theirs) for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    if not found:
        return "they differ in something that is neither a weight nor an attribute of one layer"
    return f"they differ in {', '.join(found[:MOST_NAMED])}{more}"


def _difference(name: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    if name not in theirs:
        return f"{name} (not here)"
    return f"{name} ({ours[name]}, here {theirs[name]})" if name in ours else f"{name} (only here)"
