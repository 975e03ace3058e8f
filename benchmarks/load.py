"""What many inputs with few votes cost (the store on disk, opening and verifying it, and re-certifying from it), and few with many.

    python benchmarks/load.py [--inputs 20000] [--samples 300] [--passes 50] [--parts 4000] [--votes 2000000] [--store FOLDER]

The model is a tiny linear one, so that what is measured is the library. Each stage is a process of its own: seconds are those of its
work (user and system, all threads) without importing, the peak of memory is that of the process.
"""

import argparse
import contextlib
import functools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import nn

import recert
import recert.cli
from recert.cache import writer
from recert.cache.size import expected_bytes
from recert.noise import Stream

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
    parser.add_argument("--parts", type=int, default=4_000, help="of the store with few votes in each part")
    parser.add_argument("--votes", type=int, default=2_000_000, help="of each of five inputs")
    parser.add_argument("--store", help="where the stores are kept; those that are there are used")
    parser.add_argument("--stage", choices=STAGES, help="only this one")
    options = parser.parse_args()
    if options.stage is not None:
        STAGES[options.stage](options, Path(options.store))
        return
    with tempfile.TemporaryDirectory() as folder:
        for stage in STAGES:
            arguments = [*sys.argv[1:], "--store", options.store or folder, "--stage", stage]
            subprocess.run([sys.executable, __file__, *arguments], check=True)


def inputs_of(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, FEATURES)).astype(np.float32)


def certify(options: argparse.Namespace, folder: Path) -> None:
    noise, model, store = recert.Gaussian(0.5), network(options.classes), folder / "store"
    inputs = inputs_of(options.inputs)
    cache = timed("certify", lambda: recert.certify(model, inputs, noise=noise, samples=options.samples, store=store))
    size = sum(file.stat().st_size for file in store.iterdir())
    each = cache.manifest.samples + cache.manifest.selection_samples
    votes = {Stream.SELECTION: cache.manifest.selection_samples, Stream.ESTIMATION: cache.manifest.samples}
    some = np.unique(np.linspace(0, len(inputs) - 1, 32).astype(int))
    tried = [cache.votes(cache.digests[i], Stream.SELECTION)[:64] for i in some]
    expected = expected_bytes(tried, options.classes, len(inputs), votes)
    print(
        f"store: {len(list(store.glob('part-*')))} parts, {size / 1e6:.1f} MB, {size / (len(inputs) * each):.2f} bytes a vote; "
        f"expected from 64 votes of 32 inputs {expected / 1e6:.1f} MB",
        flush=True,
    )


def show(options: argparse.Namespace, folder: Path) -> None:
    timed("cache show", lambda: command("show", str(folder / "store")))


def verify(options: argparse.Namespace, folder: Path) -> None:
    timed("cache verify", lambda: command("verify", str(folder / "store")))


def command(*words: str) -> None:
    """A command on caches, in this process."""
    with contextlib.suppress(SystemExit):
        recert.cli.app(["cache", *words])


def recertify(options: argparse.Namespace, folder: Path) -> None:
    changed, inputs = network(options.classes, 0.02), inputs_of(options.inputs)
    timed("recertify", lambda: recert.recertify(changed, inputs, folder / "store", samples=options.passes, keep=False))


def recertify_and_keep(options: argparse.Namespace, folder: Path) -> None:
    """In a process of its own: in that of the other, its peak of memory would be of both."""
    changed, inputs = network(options.classes, 0.02), inputs_of(options.inputs)
    timed("recertify, votes kept", lambda: recert.recertify(changed, inputs, folder / "store", samples=options.passes))


def many_parts(options: argparse.Namespace, folder: Path) -> None:
    # No run of ours writes a part for each input; older versions, and runs that were stopped often, did.
    recert.Cache.writing = functools.partialmethod(recert.Cache.writing, 0)
    writer.VALUES_PER_PART = 1
    votes = np.random.default_rng(0).integers(options.classes, size=(options.parts // 2, 30))
    drawn = recert.StoredVotes(votes[:, 10:], selection=votes[:, :10], classes=options.classes)
    recert.certify(
        drawn, None, noise=recert.Gaussian(0.5), samples=20, selection_samples=10, store=folder / "parts"
    )  # two parts each: one of the votes that choose, one of those that bound
    cache = timed(
        f"open {len(list((folder / 'parts').glob('part-*')))} parts", lambda: recert.Cache.open(folder / "parts")
    )
    timed("its certificates", lambda: cache.certificates)


def many_votes(options: argparse.Namespace, folder: Path) -> None:
    """Votes that exist, so that what is measured is planning and bounding."""
    rng, count = np.random.default_rng(0), options.votes
    votes = np.stack(
        [np.where(rng.random(count) < p, 1, rng.integers(2, 5, count)) for p in (0.6, 0.7, 0.75, 0.9, 0.99)]
    )
    changed = np.where(rng.random(votes.shape) < 0.01, rng.integers(0, 4, votes.shape), votes)

    def stored(votes: np.ndarray) -> recert.StoredVotes:
        return recert.StoredVotes(votes, selection=votes[:, :100], fresh=votes, classes=options.classes)

    def recertified(most: int, samples: int) -> recert.Certificates:
        cache = recert.certify(stored(votes[:, :most]), None, noise=recert.Gaussian(0.5), samples=most)
        source = stored(changed[:, :most])
        return timed(
            f"recertify 5 inputs of {most:,} votes", lambda: recert.recertify(source, None, cache, samples=samples)
        )

    recertified(3_000, 300)  # imports and compiles
    recertified(count, 1_000)


STAGES = {
    each.__name__: each for each in (certify, show, verify, recertify, recertify_and_keep, many_parts, many_votes)
}


if __name__ == "__main__":
    main()
