"""What a cache's votes are about. Votes are worthless without it, so it refuses everything it does not know."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from recert.errors import ContextMismatch, CorruptCache
from recert.models.identity import ModelIdentity
from recert.noise import Gaussian, Stream, parse_noise

SCHEMA = 1


@dataclass(frozen=True)
class Manifest:
    """The context of a cache (model, noise, seed, classes, shape), its counts, numerics and sealed parts."""

    model: ModelIdentity
    noise: str
    seed: int
    classes: int
    input_shape: tuple[int, ...]
    selection_samples: int
    samples: int
    alpha: float
    certificate: str
    family: int
    numerics: dict[str, str]
    inputs: tuple[str, ...] = ()
    looks: tuple[int, ...] = ()
    parts: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def context(self) -> str:
        """Digest of what votes must share to stand in one cache; every part carries it."""
        shared = [asdict(self.model), self.noise, self.seed, self.classes, list(self.input_shape), self.schema]
        return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()

    @property
    def gaussian(self) -> Gaussian:
        return parse_noise(self.noise)

    def wanted(self, stream: Stream) -> int:
        """How many votes of a stream every input must have."""
        return {Stream.SELECTION: self.selection_samples, Stream.ESTIMATION: self.samples}[stream]

    def to_json(self) -> bytes:
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        try:
            raw = json.loads(data)
            schema = raw["schema"]
            if schema != SCHEMA:
                raise CorruptCache(
                    f"expected a cache of schema {SCHEMA}, got {schema!r}; open it with the version that wrote it"
                )
            unknown = set(raw) ^ {f.name for f in fields(cls)}
            if unknown:
                raise CorruptCache(f"manifest.json has missing or unknown fields: {', '.join(sorted(unknown))}")
            return cls(**{**raw, "model": ModelIdentity(**raw["model"]), **_tuples(raw)})
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptCache(f"manifest.json cannot be read: {error}; restore it from a copy") from error

    def check_context(self, other: "Manifest", *, allow_numerics: bool) -> None:
        """Raise ContextMismatch, naming the field, unless votes of `other` may stand beside ours."""
        remedy = "use another store, or the arguments that this one was made with"
        for name, ours, theirs in (
            ("model weights", self.model.weights, other.model.weights),
            ("model structure", self.model.structure, other.model.structure),
            ("noise", self.noise, other.noise),
            ("seed", self.seed, other.seed),
            ("classes", self.classes, other.classes),
            ("input shape", self.input_shape, other.input_shape),
        ):
            if ours != theirs:
                raise ContextMismatch(name, ours, theirs, remedy)
        for name in sorted({*self.numerics, *other.numerics}):
            before, now = self.numerics.get(name), other.numerics.get(name)
            if before != now and not allow_numerics:
                raise ContextMismatch(
                    f"numerics.{name}",
                    before,
                    now,
                    "restore it, or pass allow_numerics=True (--allow-numerics) to mix them (recorded as such)",
                )

    def extended(self, other: "Manifest") -> Self:
        """This manifest with the inputs and counts that `other` asks for. Counts never shrink."""
        for name in ("samples", "selection_samples"):
            have, asked = getattr(self, name), getattr(other, name)
            if asked < have:
                raise ContextMismatch(name, have, asked, f"ask for at least {have}, or use another store")
        grown = other.samples > self.samples or other.selection_samples > self.selection_samples
        return replace(
            self,
            samples=other.samples,
            selection_samples=other.selection_samples,
            alpha=other.alpha,
            certificate=other.certificate,
            family=other.family,
            numerics=mixed_numerics(self.numerics, other.numerics),
            inputs=tuple(dict.fromkeys(self.inputs + other.inputs)),
            looks=(*self.looks, other.samples) if grown else self.looks,
        )


def mixed_numerics(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """Both, with every value that occurred.

    >>> mixed_numerics({"device": "cpu", "dtype": "float32"}, {"device": "cuda", "dtype": "float32"})
    {'device': 'cpu, cuda', 'dtype': 'float32'}
    """
    values = {name: [before.get(name), now.get(name)] for name in {**before, **now}}
    return {
        name: ", ".join(dict.fromkeys(v for value in both if value is not None for v in value.split(", ")))
        for name, both in values.items()
    }


def _tuples(raw: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(raw[name]) for name in ("input_shape", "inputs", "looks", "parts")}
