"""What many inputs with few votes cost: the store on disk, opening and verifying it, and re-certifying from it.

    python benchmarks/load.py [--inputs 20000] [--samples 300] [--passes 50] [--store FOLDER]

The model is a tiny linear one, so that what is measured is the library. Seconds are of this process (user and system, all threads).
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import nn

import recert

T = TypeVar("T")
FEATURES = 8


def network(classes: int, change: float = 0.0) -> nn.Module:
    """A linear classifier; with a change, all its weights are moved a little."""
    torch.manual_seed(0)
    model = nn.Linear(FEATURES, classes).eval()
    with torch.no_grad():
        model.weight += change * torch.randn_like(model.weight)
    return model


def timed(what: str, do: Callable[[], T]) -> T:
    """The result, after a line with wall and CPU seconds and the largest memory so far."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = do()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{what}: {time.perf_counter() - wall:.1f} s, {time.process_time() - cpu:.1f} CPU s, peak {memory:.0f} MB",
        flush=True,
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--passes", type=int, default=50, help="forward passes of the re-certification, per input")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--store", help="where the store is kept; one that is there is used")
    options = parser.parse_args()
    inputs = np.random.default_rng(0).normal(size=(options.inputs, FEATURES)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        measure(options, inputs, Path(options.store or folder) / "store")


def measure(options: argparse.Namespace, inputs: np.ndarray, store: Path) -> None:
    noise, model = recert.Gaussian(0.5), network(options.classes)
    timed("certify", lambda: recert.certify(model, inputs, noise=noise, samples=options.samples, store=store))
    parts = list(store.glob("part-*"))
    size = sum(part.stat().st_size for part in parts)
    manifest = recert.Cache.open(store).manifest
    votes = len(inputs) * (manifest.samples + manifest.selection_samples)
    print(f"store: {len(parts)} parts, {size / 1e6:.1f} MB, {size / votes:.2f} bytes a vote")
    cache = timed("open", lambda: recert.Cache.open(store))
    timed("verify", cache.verify)
    timed("recertify", lambda: recert.recertify(network(options.classes, 0.02), inputs, cache, samples=options.passes))


if __name__ == "__main__":
    main()
