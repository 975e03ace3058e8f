"""Milliseconds of one core per input, for the bounds behind re-certification: python benchmarks/bounds.py [--inputs 20]."""

import argparse
import os
import time
from collections.abc import Callable

import numpy as np

from recert.bounds.joint import joint_lower
from recert.bounds.paired import paired_losses_lower, paired_lower
from recert.bounds.series import series_lower

ALPHA = 0.002
SIZES = ((1_000, 100), (10_000, 1_000), (100_000, 5_000), (1_000_000, 50_000))
FLIP_RATE = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20, help="distinct inputs per size")
    inputs = parser.parse_args().inputs
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # Compile, or load what was compiled.
    series_lower(8, 10, 4, 5, ALPHA), paired_lower(8, 10, 1, 5, 1, 2, ALPHA), joint_lower(80, 100, 1, 50, 1, 20, ALPHA)
    print(f"{'bound':<22}{'samples':>10}{'replays':>9}{'mean ms':>10}{'worst ms':>10}{'first ms':>10}")
    for samples, replays in SIZES:
        rng = np.random.default_rng(0)
        shares = rng.uniform(0.5, 0.999, size=inputs)
        top = rng.binomial(samples, shares)
        of_top = np.minimum(top, np.round(0.8 * replays).astype(int))
        of_other = np.minimum(samples - top, replays - of_top)
        lost, gained = rng.binomial(of_top, FLIP_RATE), rng.binomial(of_other, FLIP_RATE * 4)
        kept = replays - rng.binomial(replays, FLIP_RATE, size=inputs)
        _report("series_lower", samples, replays, series_lower, top, kept, np.full(inputs, replays))
        _report("paired_lower", samples, replays, paired_lower, top, lost, of_top, gained, of_other)
        _report("joint_lower", samples, replays, joint_lower, top, lost, of_top, gained, of_other)
        _report("paired_losses_lower", samples, replays, paired_losses_lower, top, lost, of_top)


def _report(name: str, samples: int, replays: int, bound: Callable[..., float], *counts: np.ndarray) -> None:
    milliseconds = []
    for top, *others in zip(*counts, strict=True):
        start = time.process_time()
        bound(top, samples, *others, ALPHA)
        milliseconds.append(1000 * (time.process_time() - start))
    first, *rest = milliseconds
    print(f"{name:<22}{samples:>10,}{replays:>9,}{np.mean(rest):>10.2f}{np.max(rest):>10.2f}{first:>10.2f}")


if __name__ == "__main__":
    main()
