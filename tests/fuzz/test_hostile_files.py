"""Checkpoints and data files that are cut off, flipped, lying or huge: an error of ours, or what they hold; nothing is run."""

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from recert.data import load_data
from recert.errors import RecertError
from recert.models import load_model

FLIPS, CUTS = 60, 12
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "caches.md"
SAFETENSORS = safetensors.torch.save(load_model("digits").model.state_dict())


def checkpoint() -> bytes:
    sink = io.BytesIO()
    torch.save(load_model("digits").model.state_dict(), sink)
    return sink.getvalue()


def arrays(**given: Any) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, **given)
    return sink.getvalue()


def header(raw: object, body: bytes = b"\0" * 64, length: int | None = None) -> bytes:
    text = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def npy(description: str, body: bytes = b"") -> bytes:
    text = description.encode().ljust(118 - 10) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def zipped(**members: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return sink.getvalue()


def flips(data: bytes, count: int = FLIPS) -> list[bytes]:
    rng, changed = np.random.default_rng(0), []
    for _ in range(count):
        at = int(rng.integers(min(len(data), 2000)) if rng.random() < 0.7 else rng.integers(len(data)))
        changed.append(data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :])
    return changed


def cuts(data: bytes) -> list[bytes]:
    return [data[: len(data) * i // CUTS] for i in range(CUTS)]


def tensor(**changed: Any) -> dict[str, Any]:
    return {"conv1.weight": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]} | changed}


LYING_SAFETENSORS = [
    header({}, length=2**63), header({}, length=2**40), header({}, length=0), header(b"[" * 50_000), header(b'{"a":' * 50_000), header(b"NaN"),
    header(tensor(shape=[2**62, 4])), header(tensor(shape=[-1])), header(tensor(shape="x")), header(tensor(dtype="X9")), header(tensor(data_offsets=[64, 0])),
    header(tensor(data_offsets=[0, 2**60])), header(tensor(data_offsets=[-8, 56])), header(b'{"a": 1, "a": 2}'), header(tensor(dtype=None)), header([]), b"", b"\0" * 8,
]  # fmt: skip
GOOD = np.zeros((2, 1, 8, 8), np.float32)
HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000), }"
LYING_ARRAYS = [
    arrays(inputs=np.array([object()], dtype=object)), arrays(inputs=GOOD, labels=np.array(["a", None], dtype=object)), arrays(inputs=GOOD[:0]),
    arrays(inputs=GOOD, labels=np.zeros(3, int)), arrays(inputs=GOOD, labels=np.array([0.5, 1])), arrays(inputs=np.full_like(GOOD, np.nan)), arrays(inputs=GOOD.astype(complex)),
    arrays(inputs=np.float32(1)), arrays(nothing=GOOD), arrays(), zipped(inputs=npy(HUGE.replace("<f4", "|O"))),
    zipped(inputs=npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }")), zipped(inputs=npy("__import__('os').system('touch ran')")),
    b"PK\x03\x04" + b"\0" * 50, b"", b"PK\x05\x06" + b"\0" * 18,
    zipped(inputs=npy(HUGE)), zipped(inputs=b"\0" * 10**6), zipped(inputs=npy("{'descr': '<f4', 'shape': " + "(" * 90)),
]  # fmt: skip

HOSTILE: dict[str, tuple[Callable[[str], Any], str, list[bytes]]] = {
    "safetensors cut off": (load_model, "digits@{}.safetensors", cuts(SAFETENSORS)),
    "safetensors with one bit flipped": (load_model, "digits@{}.safetensors", flips(SAFETENSORS)),
    "safetensors whose header is false": (load_model, "digits@{}.safetensors", LYING_SAFETENSORS),
    "checkpoint cut off": (load_model, "digits@{}.pt", cuts(checkpoint())),
    "checkpoint with one bit flipped": (load_model, "digits@{}.pt", flips(checkpoint())),
    "npz cut off": (load_data, "{}.npz", cuts(arrays(inputs=GOOD))),
    "npz with one bit flipped": (load_data, "{}.npz", flips(arrays(inputs=GOOD))),
    "npz whose header is false": (load_data, "{}.npz", LYING_ARRAYS),
}


def answer(load: Callable[[str], Any], spec: str) -> str:
    """The kind of refusal, or 'read'; anything else comes out and fails the test."""
    try:
        load(spec)
    except (RecertError, ValueError, OSError) as error:
        return type(error).__name__ if str(error) else "no words"
    return "read"


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    load, spec, contents = HOSTILE[kind]
    seen: dict[str, int] = {}
    wrong: dict[int, str] = {}
    for number, content in enumerate(contents):
        name = spec.format(f"file{number}")
        (tmp_path / name.partition("@")[2] if "@" in name else tmp_path / name).write_bytes(content)
        try:
            found = answer(load, name)
        except Exception as error:
            wrong[number] = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        seen[found] = seen.get(found, 0) + 1
    print(f"{kind}: {seen}")
    assert wrong == {}
    assert not (tmp_path / "ran").exists()
    assert "no words" not in seen
    if "cut off" in kind:
        assert "read" not in seen
    table = dict(re.findall(r"^\| (.+?) \| ([0-9]+) \|", DOCUMENTATION.read_text(), re.MULTILINE))
    assert int(table[kind]) == len(contents), "docs/caches.md states another number"
