"""What a cache's votes are about. Votes cannot be used without it, so it refuses everything it does not know."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from sys import intern
from typing import Any, Self

from recert.cache import limits, strict_json
from recert.errors import ContextMismatch, CorruptCache
from recert.models.identity import ModelIdentity
from recert.models.numerics import Numerics
from recert.noise import Noise, Stream, noise_with_spec

SCHEMA = 1
MANIFEST = "_manifest.json"  # a leading underscore: readers of Parquet folders pass over it
SIGNATURE = "_manifest.sig"
NOT_YET = -1
"""In place of a number of votes: an input whose selection votes are still to be drawn."""


@dataclass(frozen=True)
class Manifest:
    """The context of a cache (model, noise, seed, classes, shape), its counts, numerics and parts.

    Every input has, or is still to get, `selection_samples` and `samples` votes. Both are 0 in a store of scattered votes,
    which promises none: it certifies nothing. With a plan `samples` is the mean, and every input has a number of its own.
    """

    model: ModelIdentity
    noise: Noise
    seed: int
    classes: int
    input_shape: tuple[int, ...]
    selection_samples: int
    samples: int
    alpha: float
    certificate: str
    family: int
    numerics: Numerics
    inputs: tuple[str, ...] = ()
    looks: tuple[int, ...] = ()
    parts: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    """What a person called the model and the data: shown, never trusted, no context."""
    claims: int = 0
    """Claims that the family counts, if there is one: at least every input that the store holds."""
    plan: str = ""
    """What estimation votes were shared out for, by the selection votes; empty if every input is given as many."""
    planned: tuple[int, ...] = ()
    """With a plan: the estimation votes of each of `inputs`, in this order, `NOT_YET` where that is still to be planned. Later
    inputs may be left out. Recorded before the first of these votes is drawn, and never changed but by another look."""
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        limits.check(self)

    @property
    def context(self) -> str:
        """Digest of what all votes of one cache have in common; every part carries it."""
        shared = [asdict(self.model), self.noise.spec, self.seed, self.classes, list(self.input_shape), self.schema]
        # Sample counts, alpha and numerics are left out: they may change while a store grows.
        return hashlib.sha256(json.dumps(shared, sort_keys=True, default=int).encode()).hexdigest()

    @property
    def batch_size(self) -> int | None:
        """The batch shape that the first votes were drawn at, so that a replay gives the same bits."""
        return self.numerics.batch_size

    def wanted(self, stream: Stream) -> int:
        """How many votes of a stream every input must have."""
        return {Stream.SELECTION: self.selection_samples, Stream.ESTIMATION: self.samples}.get(stream, 0)

    def wanted_of(self, digest: str, stream: Stream) -> int:
        """How many votes of a stream an input must have; no estimation votes while they are still to be planned."""
        if stream is not Stream.ESTIMATION or not self.plan:
            return self.wanted(stream)
        return self._planned_of.get(digest, 0)

    def is_planned(self, digest: str) -> bool:
        """Whether it is known how many estimation votes an input gets."""
        return not self.plan or digest in self._planned_of

    @cached_property
    def _planned_of(self) -> dict[str, int]:
        # Fewer numbers than inputs: the last inputs are still to be planned.
        return {digest: n for digest, n in zip(self.inputs, self.planned, strict=False) if n != NOT_YET}

    def with_planned(self, numbers: Mapping[str, int]) -> Self:
        """The same with the estimation votes of some inputs; those of others stay as they are."""
        known = {**self._planned_of, **numbers}
        return replace(self, planned=tuple(int(known.get(digest, NOT_YET)) for digest in self.inputs))

    def to_json(self) -> bytes:
        values = {**asdict(self), "noise": self.noise.spec, "numerics": self.numerics.to_text()}
        if (
            not self.plan
        ):  # as it was before there were plans: stores without one stay readable, and their signatures valid
            del values["plan"], values["planned"]
        return (json.dumps(values, indent=1, default=int) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        try:
            raw = strict_json.parse(data)
            schema = raw["schema"]
            if schema != SCHEMA:
                raise CorruptCache(
                    f"expected a cache of schema {SCHEMA}, got {ascii(schema)[:60]}; open it with the version that wrote it"
                )
            # Fields that were added later have defaults here, so that older stores open. Others must be exactly ours: a field that is
            # not understood may change what the votes mean.
            raw = {"plan": "", "planned": [], **raw}
            unknown = {"names": {}, "claims": 0, **raw}.keys() ^ {f.name for f in fields(cls)}
            if unknown:
                named = ", ".join(ascii(name)[1:-1][:60] for name in sorted(unknown)[:5])
                raise CorruptCache(f"{MANIFEST} has missing or unknown fields: {named}")
            limits.check_numerics(raw["numerics"])  # before its texts are taken apart
            values = {
                "model": ModelIdentity(**raw["model"]),
                "noise": noise_with_spec(raw["noise"]),
                "numerics": Numerics.from_text(raw["numerics"]),
            }
            return cls(**{**raw, **values, **_tuples(raw)})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise CorruptCache(f"{MANIFEST} cannot be read: {escaped(str(error))}; restore it from a copy") from error

    def check_context(self, other: "Manifest", *, allow_numerics: bool) -> None:
        """Raise ContextMismatch, naming the field, unless votes of `other` may be in one cache with ours."""
        remedy = "use another store, or the arguments that this one was made with"
        for name, ours, theirs in (
            ("model weights", self.model.weights, other.model.weights),
            ("model structure", self.model.structure, other.model.structure),
            ("noise", self.noise.spec, other.noise.spec),
            ("seed", self.seed, other.seed),
            ("classes", self.classes, other.classes),
            ("input shape", tuple(self.input_shape), tuple(other.input_shape)),
        ):
            # Older versions digested less. Their stores are known by the weights, and by votes that are replayed when one is continued.
            if name == "model structure" and self.model.is_old and not other.model.is_old:
                continue
            if ours != theirs:
                raise ContextMismatch(name, _shown(self, ours), _shown(other, theirs), remedy)
        for name in other.numerics.not_seen_in(self.numerics):
            if not allow_numerics:
                raise ContextMismatch(
                    f"numerics.{name}",
                    self.numerics.text(name),
                    other.numerics.text(name),
                    "restore it, or pass allow_numerics=True (--allow-numerics) to mix them (recorded as such)",
                )

    def extended(self, other: "Manifest") -> Self:
        """This manifest with the inputs and counts that `other` asks for. Counts never shrink."""
        for name in ("samples", "selection_samples"):
            have, wanted = getattr(self, name), getattr(other, name)
            if wanted < have:
                raise ContextMismatch(name, have, wanted, f"ask for at least {have}, or use another store")
        # Only other votes are a new look at them. More inputs, or another alpha, are not.
        more = other.samples > self.samples or other.selection_samples > self.selection_samples
        grown = more or other.plan != self.plan
        return replace(
            self,
            samples=other.samples,
            selection_samples=other.selection_samples,
            alpha=other.alpha,
            certificate=other.certificate,
            family=other.family,
            claims=other.claims and max(other.claims, len({*self.inputs, *other.inputs})),
            numerics=self.numerics.joined(other.numerics),
            inputs=tuple(dict.fromkeys(self.inputs + other.inputs)),
            looks=(*self.looks, other.samples) if grown else self.looks,
            plan=other.plan,
            planned=() if grown else self.planned,
        )


def short(digest: str) -> str:
    """The first 12 digits of a digest, enough to tell two apart; a name as it is.

    >>> short("a" * 64), short("my-api")
    ('aaaaaaaaaaaa', 'my-api')
    """
    digest = digest.removeprefix("2-")
    return digest[:12] if len(digest) == 64 and set(digest) <= set("0123456789abcdef") else digest


def escaped(text: str) -> str:
    """Untrusted text as one harmless line.

    >>> escaped("digits" + chr(27) + "[2J")
    'digits\\\\x1b[2J'
    """
    return " ".join(text.split()).encode("unicode_escape").decode("ascii")[:300]


def _shown(manifest: Manifest, value: object) -> object:
    """A value in a message: a digest short, with the name of the model if it is known."""
    if not isinstance(value, str) or short(value) == value:
        return value
    name = manifest.names.get("model")
    return f"{short(value)} ({escaped(name)})" if name else short(value)


def _tuples(raw: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    names = ("input_shape", "inputs", "looks", "parts", "planned")
    for name in names:
        if not isinstance(raw[name], list):
            raise ValueError(f"expected {name} as a list, got {type(raw[name]).__name__}")
    # Digests of inputs are named by every row of votes, too: one text for each.
    same = {"inputs": tuple(intern(name) if isinstance(name, str) else name for name in raw["inputs"])}
    return {name: tuple(raw[name]) for name in names} | same
