"""Small stores, and stores whose files say something else than what was written."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import recert
from recert import Cache, Gaussian
from recert.cache import parts
from recert.cache.manifest import MANIFEST
from recert.noise import Stream
from recert.votes import count_votes

OPTIONS: dict[str, Any] = {"noise": Gaussian(0.5), "samples": 300, "selection_samples": 20, "seed": 1, "batch_size": 32}


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


def inputs(count: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)


def make(store: Path, rows: Any = slice(None), **options: Any) -> Cache:
    return recert.certify(network(), inputs()[rows], **{**OPTIONS, **options}, store=store)


def all_votes(cache: Cache) -> dict[tuple[str, str], bytes]:
    return {
        (digest, stream.name): cache.votes(digest, stream).tobytes()
        for digest in cache.manifest.inputs
        for stream in (Stream.SELECTION, Stream.ESTIMATION)
    }


def files(store: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(store.iterdir())}


def rewrite_manifest(store: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    file = store / MANIFEST
    file.write_text(json.dumps(change(json.loads(file.read_text()))))


def put_part(store: Path, data: bytes) -> None:
    """These bytes under their right name instead of the part that is there, named by the manifest."""
    for old in store.glob("part-*"):
        old.unlink()
    name = f"part-{hashlib.sha256(data).hexdigest()}.parquet"
    (store / name).write_bytes(data)
    rewrite_manifest(store, lambda m: m | {"parts": [name]})


def rewrite_rows(store: Path, change: Callable[[parts.Row], parts.Row]) -> None:
    """Every row changed, the rest of the store made to fit: what a forger does."""
    cache = Cache.open(store)
    rows = [change(row) for name in cache.part_names() for row in cache.part(name)[1]]
    put_part(store, parts.encode(rows, cache.manifest.classes, cache.manifest.context)[1])


def forge(store: Path, share: float, *, only: str | None = None, seed: int = 0) -> None:
    """A share of the votes changed to the next class, with counts that fit."""
    rng = np.random.default_rng(seed)

    def change(row: parts.Row) -> parts.Row:
        assert row.votes is not None
        if only is not None and row.digest != only:
            return row
        wrong = rng.random(row.length) < share
        votes = np.where(wrong, (row.votes + 1) % len(row.counts), row.votes).astype(row.votes.dtype)
        return replace(row, votes=votes, counts=count_votes(votes, len(row.counts)))

    rewrite_rows(store, change)
