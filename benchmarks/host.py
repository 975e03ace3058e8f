"""What re-certification costs the host beside the network and the bounds: CPU per input, with votes that exist already.

    python benchmarks/host.py --cached 10000 100000 --samples 300 1000 5000 --classes 10 1000

Which inputs were certified, noises and counts, two-sided, and hardly any planning: every input is given the same by one method
(`recert.draw_votes`, which bounds nothing). The first call fills the tables of plans and is not counted.
"""

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np

import recert


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cached", type=int, nargs="+", default=[10_000])
    parser.add_argument("--samples", type=int, nargs="+", default=[300])
    parser.add_argument("--classes", type=int, nargs="+", default=[10])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--flips", type=float, default=0.01)
    options = parser.parse_args()
    for cached, classes in itertools.product(options.cached, options.classes):
        votes, modified = (recert.StoredVotes(**drawn, classes=classes) for drawn in _votes(cached, classes, options))
        cache = recert.certify(votes, None, noise=recert.Gaussian(0.5), samples=cached, selection_samples=500)
        for samples in (each for each in options.samples if each <= cached // 10):
            asked = {"samples": samples, "method": "joint", "plan": "uniform"}
            recert.draw_votes(modified, None, cache, **asked)
            took = min(_seconds(lambda: recert.draw_votes(modified, None, cache, **asked)) for _ in range(3))  # noqa: B023
            per_input = 1e6 * took / options.count
            print(
                f"{cached:,} cached votes, {classes} classes, {samples} passes: {per_input:.0f} microseconds of CPU per input"
            )


def _votes(
    cached: int, classes: int, options: argparse.Namespace
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Votes of inputs that are mostly sure, and of a modification that votes anew on some noises."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(classes, 0.5 / classes), options.count) * 0.9 + 0.1 / classes
    draw = lambda size: np.stack([rng.choice(classes, size, p=p) for p in shares])  # noqa: E731
    estimation, selection, others, fresh = (draw(size) for size in (cached, 500, cached, cached))
    modified = np.where(rng.random(estimation.shape) < options.flips, others, estimation)
    return {"estimation": estimation, "selection": selection}, {"estimation": modified, "fresh": fresh}


def _seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
