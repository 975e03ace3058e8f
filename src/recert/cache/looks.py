"""Which claims were read off a cache so far. Every re-certification of a model is a look at the cached votes, and so is every
question that inputs were decided by one by one, of the original itself.

Each claim holds with its own probability. Whoever looks several times and publishes the best result needs the probability that
all of the claims hold together, so looks are counted. A look is identified by its settings: to ask the same again, of the same
votes, gives the same answer and is no new look. Looks at a store are stored in it, a small file each; looks at a cache in memory
are remembered as long as the process lives, by the context of its votes.
"""

import base64
import binascii
import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recert.cache import strict_json
from recert.certificates import Settings, Together
from recert.errors import CorruptCache
from recert.models.identity import ModelIdentity
from recert.noise.keys import LARGEST_SAMPLE
from recert.storage import Directory

OF_ORIGINAL = "sequential"
"""The method of looks at votes of the original itself: `certify(at=...)`. They are counted among themselves."""
_PREFIX, _SUFFIX = "_look-", ".json"  # a leading underscore: readers of Parquet folders pass over it
_LARGEST = 2**25  # bytes of a look: eleven an input
_MOST = 10_000
_MOST_CONTEXTS = 256  # of looks in memory: a process that makes many caches must not grow without end

_of_this_process: dict[str, dict[Any, Any]] = {}
"""By context: looks by their names."""
_sizes_of_this_process: dict[str, dict[Any, Any]] = {}
"""By context: sizes, each by itself."""


@dataclass(frozen=True)
class Inputs:
    """A set of inputs as the first eight bytes of each digest, sorted: enough to see whether two sets have any in common."""

    # Eight bytes instead of 32: two sets of a million inputs have one in common by chance with a probability below 1e-7, and looks
    # that are then counted together only make the stated error larger.
    codes: bytes

    @classmethod
    def of(cls, digests: Iterable[str]) -> Self:
        return cls(b"".join(sorted({bytes.fromhex(digest[:16]) for digest in digests})))

    def overlaps(self, other: "Inputs") -> bool:
        """Whether the two sets have an input in common."""
        return self == other or bool(np.intersect1d(self._numbers, other._numbers, assume_unique=True).size)

    @property
    def _numbers(self) -> NDArray[np.uint64]:
        return np.frombuffer(self.codes, dtype=np.uint64)


@dataclass(frozen=True)
class Look:
    """One re-certification: of which model and inputs, with which settings, and the error of each of its claims."""

    model: ModelIdentity
    asked: str
    """Method, certificate, plan and all other settings but the budget, as JSON."""
    samples: int
    error: float
    family: int
    planned: tuple[int, ...]
    """The budgets of all looks that were planned together; empty if it was planned alone."""
    inputs: Inputs

    @cached_property
    def name(self) -> str:
        """The file of this look: the same for the same question."""
        return f"{_PREFIX}{hashlib.sha256(self.to_json()).hexdigest()[:32]}{_SUFFIX}"

    @property
    def of_original(self) -> bool:
        """Whether the claims are about the model of the cache itself, and not about one that was re-certified from it."""
        return bool(json.loads(self.asked).get("method") == OF_ORIGINAL)

    @property
    def plan(self) -> tuple[Any, ...]:
        """What looks that were planned together share."""
        return self.model, self.asked, self.planned, self.inputs

    def to_json(self) -> bytes:
        inputs = base64.b64encode(self.inputs.codes).decode()
        return (json.dumps({**asdict(self), "inputs": inputs}, sort_keys=True) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """ValueError or TypeError unless this is a look."""
        raw = strict_json.parse(data)
        codes = base64.b64decode(raw["inputs"], validate=True)
        look = cls(
            ModelIdentity(**raw["model"]), raw["asked"], raw["samples"], raw["error"], raw["family"], tuple(raw["planned"]),
            Inputs(codes),
        )  # fmt: skip
        # A look adds to the error that is stated: a file from elsewhere must not be able to make it smaller, or not a number.
        for count, largest in ((look.family, 2**63 - 1), *((n, LARGEST_SAMPLE) for n in (look.samples, *look.planned))):
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= largest:
                raise ValueError("a count is not a positive whole number, or too large")
        if len(codes) % 8:
            raise ValueError("the inputs are cut off")
        if not isinstance(look.error, float) or not 0 < look.error < 2:
            raise ValueError("the error is not a probability")
        if not isinstance(look.asked, str) or not isinstance(strict_json.parse(look.asked.encode()), dict):
            raise ValueError("what was asked is not a mapping")
        if not all(isinstance(text, str) for text in asdict(look.model).values()):
            raise ValueError("the model's identity is not a text")
        return look


def look_of_original(model: ModelIdentity, settings: Settings, digests: Iterable[str]) -> Look:
    """`certify(at=...)`. It is the same look for any number of samples: to go on costs no error. With other votes that choose it is another."""
    asked = {"method": OF_ORIGINAL, "certificate": settings.certificate, "at": settings.at, "alpha": settings.alpha}
    text = json.dumps({**asked, "family": settings.family}, sort_keys=True)
    return Look(model, text, settings.selection_samples, settings.error, settings.family, (), Inputs.of(digests))


def all_together(look: Look, known: Sequence[Look], sizes: int) -> Together:
    """What holds for a look and those before it. `sizes`: at how many sizes the cache was looked at, any of which may be reported."""
    each = list({**{other.name: other for other in known}, look.name: look}.values())
    each = [other for other in each if other.of_original == look.of_original]
    overlapping = [other for other in each if other.inputs.overlaps(look.inputs)]
    of_model = [other for other in overlapping if other.model == look.model]
    families = [other for other in each if other.model == look.model and other.family > 1]
    return Together(
        looks=len(of_model), looks_error=sizes * _error(of_model), models=len({other.model for other in overlapping}),
        models_error=sizes * _error(overlapping), families_error=sizes * _error(families, of_families=True),
    )  # fmt: skip


def _error(looks: Sequence[Look], *, of_families: bool = False) -> float:
    """The sum of all errors; looks that were planned together count with all that were planned, whether taken or not."""
    # Each planned look has the same share of alpha, so that one of them gives the error of the whole plan.
    alone = [(look.error, look) for look in looks if not look.planned]
    plans = {look.plan: (look.error * len(look.planned), look) for look in looks if look.planned}
    return sum(error * (look.family if of_families else 1) for error, look in (*alone, *plans.values()))


class Looks:
    """The looks at one cache."""

    def __init__(self, directory: Directory | None, context: str) -> None:
        self._directory, self._context = directory, context

    def known(self) -> list[Look]:
        """All looks so far, those of this process too where they could not be stored."""
        names = [] if self._directory is None else [name for name in self._directory.names() if _is_look(name)]
        if len(names) > _MOST:
            raise CorruptCache(f"expected at most {_MOST} looks in {self._directory}, got {len(names)}; remove some")
        stored = {name: self._read(name) for name in names}
        return list({**_of_this_process.get(self._context, {}), **stored}.values())

    def add(self, look: Look) -> None:
        """Record a look. Where the store cannot be written it counts in this process only, and a warning says so."""
        if not has_a_name(look.model):
            return
        # In memory even if there is a store: where it cannot be written, the look still counts in this process.
        _remember(_of_this_process, self._context, {look.name: look})
        if self._directory is None:
            return
        try:
            if self._directory.url.startswith(("http://", "https://")):  # fsspec would send the file to the web server
                raise OSError("a web server is only read from")
            self._directory.write(look.name, look.to_json())
        except (
            Exception
        ) as error:  # of any kind of storage: a result must not be lost because its record cannot be written
            warnings.warn(
                f"this look could not be recorded with the cache, so that it counts in this process only: {error}",
                stacklevel=3,
            )

    def copy_to(self, directory: Directory) -> None:
        """Write all looks to another store of the same context."""
        for look in self.known():
            directory.write(look.name, look.to_json())

    def _read(self, name: str) -> Look:
        assert self._directory is not None
        try:
            look = Look.from_json(self._directory.read(name, _LARGEST))
        except (ValueError, TypeError, KeyError, binascii.Error) as error:
            raise CorruptCache(
                f"{name} in {self._directory} cannot be read ({str(error)[:80]!a}); restore it, or remove it: what it tells of an "
                "earlier look is then not counted"
            ) from None
        if look.name != name:
            raise CorruptCache(
                f"{name} in {self._directory} is not the look that it is named for; restore or remove it"
            )
        return look


def has_a_name(model: ModelIdentity) -> bool:
    """Whether the model can be distinguished from others: functions without a name cannot."""
    return model.nameless is None


@dataclass(frozen=True)
class Size:
    """With how many votes some inputs were certified: those that bound, and those that choose."""

    samples: int
    selection_samples: int
    inputs: Inputs
    plan: str = ""
    """By which the votes that bound were shared out; empty if every input had as many."""


def note_size(context: str, size: Size) -> None:
    """Note that votes of this context were looked at in this process, with so many of them."""
    _remember(_sizes_of_this_process, context, {size: size})


def sizes_seen(context: str, inputs: Inputs) -> tuple[int, ...]:
    """The numbers of votes with which any of these inputs were certified in this process."""
    known = _sizes_of_this_process.get(context, {})
    seen = {(size.samples, size.selection_samples, size.plan) for size in known if size.inputs.overlaps(inputs)}
    return tuple(sorted(samples for samples, _, _ in seen))


def _remember(record: dict[str, dict[Any, Any]], context: str, entries: dict[Any, Any]) -> None:
    """Add entries of a context, which moves to the end; the oldest contexts are removed."""
    record[context] = {**record.pop(context, {}), **entries}
    while len(record) > _MOST_CONTEXTS:
        del record[next(iter(record))]


def _is_look(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)
