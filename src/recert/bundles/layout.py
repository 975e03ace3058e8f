"""What a bundle holds, under which names, and the list of contents that all hashes are in."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from recert.cache import strict_json
from recert.errors import CorruptBundle

FORM = "recert bundle 1"
CONTENTS, SIGNATURE, REPORT = "bundle.json", "bundle.sig", "report.html"
MODEL, RESULT, CACHE, VOTES = "model", "result", "cache", "votes"
CONTENTS_BYTES = 2**26
MOST_FILES = 100_000

# Names that lead nowhere else on any system, with endings of files that nothing runs when it reads them.
_NAMES = {
    MODEL: r"[A-Za-z0-9_][A-Za-z0-9._-]{0,150}\.(onnx|safetensors)(\.json)?",
    RESULT: r"[A-Za-z0-9_][A-Za-z0-9._-]{0,150}\.parquet",
    CACHE: r"_?[A-Za-z0-9][A-Za-z0-9._-]{0,150}\.(json|parquet|sig)",
    VOTES: r"_?[A-Za-z0-9][A-Za-z0-9._-]{0,150}\.(json|parquet)",
}
_ALLOWED = re.compile(
    "|".join([*(f"{folder}/{name}" for folder, name in _NAMES.items()), *map(re.escape, (CONTENTS, SIGNATURE, REPORT))])
)


def is_allowed(name: str) -> bool:
    """Whether a bundle may hold a file of this name.

    >>> is_allowed("model/winner.onnx"), is_allowed("model/../../winner.onnx"), is_allowed("model/weights.pkl")
    (True, False, False)
    """
    return _ALLOWED.fullmatch(name) is not None and ".." not in name


def plain(name: str) -> str:
    """A file's name as a bundle may hold it.

    >>> plain("digits-prune:0.3.onnx")
    'digits-prune-0.3.onnx'
    """
    return re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._-]+", "-", name)).lstrip(".-")


@dataclass(frozen=True)
class Stored:
    """One file: its size and its hash."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Contents:
    """Which files there are, and what they are. What is signed is this."""

    model: str
    result: str
    whole_cache: bool
    made: str
    version: str
    files: Mapping[str, Stored] = field(default_factory=dict)

    def to_json(self) -> bytes:
        raw = {"form": FORM, **asdict(self)}
        return (json.dumps({**raw, "digest": _digest(raw)}, indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Contents":
        """CorruptBundle unless these are contents, every one of their fields in order."""
        try:
            raw = strict_json.parse(data)
            if not isinstance(raw, dict) or raw.get("form") != FORM:
                raise ValueError(f"it is not of the form {FORM!r}")
            if raw.pop("digest", None) != _digest(raw):
                raise ValueError("it was changed after it was written")
            del raw["form"]
            files = {name: Stored(**about) for name, about in raw.pop("files").items()}
            contents = cls(**raw, files=files)
            contents._check()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptBundle(
                f"{CONTENTS} cannot be read: {ascii(str(error))[1:-1][:200]}; get the bundle anew"
            ) from None
        return contents

    def _check(self) -> None:
        if len(self.files) > MOST_FILES:
            raise ValueError(f"more than {MOST_FILES} files")
        for name, stored in self.files.items():
            if not is_allowed(name) or name in (CONTENTS, SIGNATURE):
                raise ValueError(f"a bundle holds no file {name!r}")
            if type(stored.bytes) is not int or stored.bytes < 0 or not re.fullmatch("[0-9a-f]{64}", stored.sha256):
                raise ValueError(f"no size and hash of {name}")
        for name, folder in ((self.model, MODEL), (self.result, RESULT)):
            if name not in self.files or not name.startswith(f"{folder}/"):
                raise ValueError(f"it names no {folder}")
        if not all(isinstance(text, str) for text in (self.made, self.version)) or type(self.whole_cache) is not bool:
            raise ValueError("a field of another type")

    @property
    def strangers(self) -> list[str]:
        """Models and results beside the one of each, which nothing here is said about and somebody may take for it."""
        known = {self.model, f"{self.model}.json", self.result}
        return sorted(name for name in self.files if name.startswith((f"{MODEL}/", f"{RESULT}/")) and name not in known)

    @property
    def holds_cache(self) -> bool:
        return any(name.startswith(f"{CACHE}/") for name in self.files)

    @property
    def holds_votes(self) -> bool:
        return any(name.startswith(f"{VOTES}/") for name in self.files)


def _digest(raw: Mapping[str, Any]) -> str:
    """Of the list itself: it finds accidents. Against intent there is the signature."""
    return hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()
