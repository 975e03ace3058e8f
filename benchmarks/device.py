"""What re-certification adds to a device: wall clock and CPU of `recertify` with votes that come at a device's speed.

    python benchmarks/device.py
    python benchmarks/device.py --ahead 0                        (nothing is drawn while the plan is made)
    python benchmarks/device.py --per-second inf --cached 10000 100000 --samples 300 1000 --flips .005 .03 .06 --cores 1

Votes exist already; a source hands them out batch by batch, as a device would that computes so many a second, and sleeps until then.
So all that the host does is real, and nothing of it is the network's. The default speed and batch are those of ResNet-20 on an H200. Class
shares of inputs are drawn (Dirichlet), and a modified network votes anew on some of the noises, so that votes flip as often as asked.
The first call makes tables of plans and is shown alone; of the others the fastest counts.
`of drawing` is the wall clock as a multiple of what all batches take. `before`, `between` and `after` are milliseconds of wall clock in which nothing is
drawn: before the first vote, between the first inputs and the rest, after the last vote. `CPU` is that of the whole process, in
milliseconds per input; with `--per-second inf` it is nearly all bounds.
"""

import argparse
import itertools
import os
import time
from collections.abc import Iterator, Sequence

import numpy as np

import recert
from recert.sampling import VoteChunk, Work

ALPHA, SELECTION, FRESH = 0.002, 500, 2_000


class Device(recert.StoredVotes):
    """Votes that come batch by batch."""

    batch = passes_at_once = 8_192
    passes_ahead = 0
    seconds_per_batch = 0.0

    def draw(self, works: Sequence[Work], task: str, progress: object) -> Iterator[VoteChunk]:
        begun, done, batches = time.perf_counter(), 0, -(-sum(len(work.samples) for work in works) // self.batch)
        self.drawn.append((begun, batches))
        for chunk in super().draw(works, task, None):
            done += len(chunk.votes)
            here = min(batches, -(-done // self.batch))
            time.sleep(max(0.0, begun + here * self.seconds_per_batch - time.perf_counter()))
            yield chunk
        self.ended.append(time.perf_counter())

    def watched(self) -> "Device":
        self.drawn: list[tuple[float, int]] = []
        self.ended: list[float] = []
        return self


def votes(cached: int, flips: float, options: argparse.Namespace) -> tuple[recert.Cache, Device]:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(options.classes, 1.0 / options.classes), options.count)
    anew = min(1.0, flips / float((1 - (shares**2).sum(axis=1)).mean()))
    edges = np.cumsum(shares, axis=1)[:, :-1]
    draw = lambda size: np.stack(  # noqa: E731
        [np.searchsorted(edge, rng.random(size), side="right").astype(np.int16) for edge in edges]
    )
    original, other = draw(cached), draw(cached)
    changed = np.where(rng.random(original.shape, dtype=np.float32) < anew, other, original)
    known = recert.StoredVotes(original, selection=draw(SELECTION), classes=options.classes)
    kind = "one-sided" if options.sides == 1 else "two-sided"
    cache = recert.certify(
        known, None, noise=recert.Gaussian(0.5), samples=cached, selection_samples=SELECTION, alpha=ALPHA / 2,
        certificate=kind,
    )  # fmt: skip
    return cache, Device(changed, fresh=draw(FRESH), classes=options.classes)


def measured(cache: recert.Cache, source: Device, samples: int) -> dict[str, float]:
    source.watched()
    started, cpu = time.perf_counter(), time.process_time()
    result = recert.recertify(source, None, cache, samples=samples, alpha=ALPHA)
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    begun = [at for at, _ in source.drawn]
    between = sum(later - ended for later, ended in zip(begun[1:], source.ended, strict=False))
    return {
        "wall": 1e3 * wall, "drawing": 1e3 * source.seconds_per_batch * sum(number for _, number in source.drawn), "before": 1e3 * (begun[0] - started),
        "between": 1e3 * between, "after": 1e3 * (started + wall - source.ended[-1]), "CPU": 1e3 * cpu / len(source),
        "passes": float(result.forward_passes.mean()), "ACR": float(result.radius.mean()),
    }  # fmt: skip


HEADS = ("wall", "drawing", "of drawing", "before", "between", "after", "CPU", "first CPU", "passes", "ACR")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cached", type=int, nargs="+", default=[10_000])
    parser.add_argument("--samples", type=int, nargs="+", default=[300])
    parser.add_argument("--flips", type=float, nargs="+", default=[0.005, 0.03])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--sides", type=int, default=2, choices=(1, 2))
    parser.add_argument("--per-second", type=float, default=540_000.0, help="votes of the device")
    parser.add_argument("--ahead", type=int, default=160_000, help="votes that it computes unasked")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=None, help="use no more than so many")
    options = parser.parse_args()
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    print("| n | flips | n_p | " + " | ".join(HEADS) + " |\n|" + "---|" * (3 + len(HEADS)), flush=True)
    for cached, flips in itertools.product(options.cached, options.flips):
        cache, source = votes(cached, flips, options)
        source.seconds_per_batch, source.passes_ahead = source.batch / options.per_second, options.ahead
        for samples in options.samples:
            rounds = [measured(cache, source, samples) for _ in range(options.rounds + 1)]
            best = min(rounds[1:], key=lambda each: each["wall"])
            best |= {"of drawing": best["wall"] / best["drawing"] if best["drawing"] else np.nan, "first CPU": rounds[0]["CPU"]}  # fmt: skip
            best["CPU"] = min(each["CPU"] for each in rounds[1:])
            cells = [format(best[head], ".4f" if head == "ACR" else ".3f" if "CPU" in head or "of" in head else ".0f") for head in HEADS]  # fmt: skip
            print(f"| {cached:,} | {flips:g} | {samples:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
