"""What a model is known by. No torch here: caches are read without it."""

from dataclasses import dataclass

UNKNOWN = "unknown: "


@dataclass(frozen=True)
class ModelIdentity:
    """SHA-256 digests (hex) of a model's weights and of its structure; for a callable, the name it was given.

    Digests of structures begin with "2-". Those of older versions do not, and left out much of what a model does.
    """

    weights: str
    structure: str

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
