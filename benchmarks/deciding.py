"""Votes per second while inputs are decided one by one and drop out, beside the bare network on a ready batch.

    python benchmarks/deciding.py --device cuda --network cifar-resnet110 --images 500 --at 0.5 --precision bf16 --json deciding.json
    python benchmarks/deciding.py --device cpu --network cifar-resnet20 --images 60 --no-compile
    python benchmarks/deciding.py --pretend 102000 --batch-size 16384          (no device: batches take as long as on one)

The network is computed on every noise, with random weights. What it would vote is taken from a law: so inputs are decided after as many votes as
those of a trained network, with no weights and no data. Shares of the class are spread over inputs as those of a ResNet-20 that was trained with
sigma = 0.5 (a beta law with its mean and variance), and a changed network loses and gains 1% of what is not unanimous.

Arms run in turn. `from scratch` is certify(at=...), `from a cache` recertify(at=...); `fixed` draws as many votes, equally many for every input. Each has two
figures: votes per second of the whole call, and of the time in which votes are drawn, both divided by the rows per second of the bare network.
That is timed before each arm; on a CPU, which is seldom equally fast for long, in turns with it: a quarter of a second each, with clocks stopped.

With `--pretend` the network is replaced by a queue that is done with a batch when its rows would be, at so many a second, one batch after the other and
without the host: all that the host does is real.
"""

import argparse
import json
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

import recert
from benchmarks.throughput import bare, network, rate
from recert.models.inference import PRECISIONS, prepare
from recert.noise import Gaussian, Stream
from recert.noise.stream import NoisyRows
from recert.sampling import Sampler
from recert.sampling.begun import Draw, Steps
from recert.sampling.device_lane import MOST_AHEAD, SECONDS_AHEAD
from recert.sampling.host_lane import Ticket
from recert.sampling.work import VoteChunk, Work

NOISE = Gaussian(0.5)
SHARES = (2.15, 0.67)
"""Of the beta law."""
FLIPS = 0.01
ALPHA = 0.001
TURN = 0.25


class Replaced:
    """Samples of a network, whose votes are those of a law: a source of votes. The time in which a draw is under way is measured."""

    def __init__(self, sampler: Sampler, *, changed: bool, turns: "Turns | None" = None) -> None:
        self._sampler, self._changed, self.turns = sampler, changed, turns
        self.seconds, self.drawn = 0.0, 0
        self._under_way, self._since = 0, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def draw(self, works: Sequence[Work], task: str = "sampling", progress: Any = None) -> Draw:
        return Draw(self._draw(works, task, progress))

    def _draw(self, works: Sequence[Work], task: str, progress: Any) -> Steps:
        if not self._under_way:
            self._since = self.clock()
        self._under_way += 1
        chunks = self._sampler.draw(works, task, progress)
        chunks.begin()
        yield None
        for chunk in chunks:
            samples = np.asarray(chunk.work.samples)[chunk.start : chunk.start + len(chunk.votes)]
            self.drawn += len(chunk.votes)
            if self.turns is not None:
                self.turns.take()
            votes = law(chunk.work.position, chunk.work.stream, samples, changed=self._changed)
            yield VoteChunk(chunk.work, chunk.start, votes.astype(chunk.votes.dtype), chunk.seconds)
        self._under_way -= 1
        if not self._under_way:
            self.seconds += self.clock() - self._since

    def clock(self) -> float:
        return time.perf_counter() - (0.0 if self.turns is None else self.turns.seconds)


class Turns:
    """The bare network, in turns with something else."""

    def __init__(self, run: Callable[[int], int]) -> None:
        self._run, self._rows, self._last = run, 1, time.perf_counter()
        self.seconds, self.rows = 0.0, 0

    def take(self) -> None:
        started = time.perf_counter()
        if started - self._last < TURN:
            return
        rows = self._run(self._rows)
        self._last = time.perf_counter()
        taken = self._last - started
        self._rows, self.rows, self.seconds = max(1, int(rows / taken * TURN)), self.rows + rows, self.seconds + taken

    def rate(self) -> float:
        return self.rows / self.seconds


Before = Callable[[], tuple[float | None, Turns | None]]
"""Called before an arm: rows per second of the bare network, or what times it in turns with the arm."""


class Unsampled(Replaced):
    """The votes alone."""

    def _draw(self, works: Sequence[Work], task: str, progress: Any) -> Steps:
        yield None
        for work in works:
            votes = law(work.position, work.stream, np.asarray(work.samples), changed=self._changed)
            yield VoteChunk(work, 0, votes.astype(np.uint8), 0.0)


@cache
def share_of(position: int) -> float:
    return float(np.random.default_rng(position).beta(*SHARES))


def law(position: int, stream: Stream, samples: np.ndarray, *, changed: bool) -> np.ndarray:
    """0 is the class, 1 the rival. A uniform number for each sample, by hashing; the changed network's differs near the border."""
    share = share_of(position)
    x = (samples.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x ^= np.uint64((position * 7 + stream.value) * 0x632BE59BD9B4E019 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    uniform = ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) / 2.0**53
    votes = (uniform >= share).astype(np.int64)
    if changed:
        votes[np.abs(uniform - share) < FLIPS * share * (1 - share)] ^= 1
    return votes


class Queue:
    """In place of a lane: a device that computes batches one after the other, at a given speed."""

    def __init__(self, batch_size: int, per_second: float) -> None:
        self._batch_size, self._each, self._free_at = batch_size, batch_size / per_second, 0.0
        self.depth = max(2, min(MOST_AHEAD, math.ceil(SECONDS_AHEAD / self._each)))

    def submit(self, rows: NoisyRows) -> Ticket:
        self._free_at = done_at = max(time.perf_counter(), self._free_at) + self._each
        return lambda: self._read(done_at)

    def _read(self, done_at: float) -> tuple[np.ndarray, float]:
        time.sleep(max(0.0, done_at - time.perf_counter()))
        return np.zeros(self._batch_size, dtype=np.uint8), self._each


def timed(source: Replaced, run: Any, before: Before) -> dict[str, float]:
    source.seconds, source.drawn = 0.0, 0
    rate, source.turns = before()
    started = source.clock()
    result = run(source)
    seconds = source.clock() - started
    found = {"votes": source.drawn, "seconds": seconds, "drawing": source.seconds, "bare": rate or source.turns.rate()}
    if isinstance(result, recert.Certificates):
        found |= {"certified": float(result.certified.mean()), "passes per input": result.mean_forward_passes}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="cifar-resnet20")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=sorted(PRECISIONS))
    parser.add_argument("--pretend", type=float, default=None, help="rows per second of a device that is not there")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--at", type=float, default=0.5)
    parser.add_argument("--samples", type=int, default=10_000, help="most votes of an input, from scratch")
    parser.add_argument("--most", type=int, default=1_000, help="most replays of an input, from a cache")
    parser.add_argument("--cached", type=int, default=10_000, help="votes in the cache")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    sampler, before = pretended(options) if options.pretend else real(options)
    votes_of_original = cached(options, sampler)
    source, changed = Replaced(sampler, changed=False), Replaced(sampler, changed=True)
    arms = {
        "from scratch": (
            source,
            lambda s: recert.certify(
                s, None, noise=NOISE, at=options.at, samples=options.samples, alpha=ALPHA, progress=False
            ),
        ),
        "from a cache": (
            changed,
            lambda s: recert.recertify(
                s, None, votes_of_original, at=options.at, samples=options.most, alpha=2 * ALPHA, progress=False
            ),
        ),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in (*arms, "fixed")}
    for _ in range(options.rounds):
        for name, (votes, run) in arms.items():
            found[name].append(timed(votes, run, before))
        each = round(found["from scratch"][-1]["votes"] / options.images)
        works = [Work(i, Stream.ESTIMATION, range(each)) for i in range(options.images)]
        found["fixed"].append(timed(source, lambda s, works=works: deque(s.draw(works), 0), before))
    print(
        f"{options.network} {options.precision} on {options.device}, batches of {sampler.batch_size}, {options.images} images"
        if not options.pretend
        else f"{options.pretend:,.0f} rows a second, batches of {sampler.batch_size}, {options.images} images"
    )
    for name, rounds in found.items():
        whole, drawing = (sorted(r["votes"] / r[part] / r["bare"] for r in rounds) for part in ("seconds", "drawing"))
        about = "".join(
            f", {key} {rounds[-1][key]:.4g}" for key in ("certified", "passes per input") if key in rounds[-1]
        )
        print(
            f"{name}: {whole[len(whole) // 2]:.3f} ({whole[0]:.3f} to {whole[-1]:.3f}) of the bare network, while drawing "
            f"{drawing[len(drawing) // 2]:.3f} ({drawing[0]:.3f} to {drawing[-1]:.3f}); {rounds[-1]['votes']:.0f} votes, {sorted(r['seconds'] for r in rounds)[len(rounds) // 2]:.2f} s{about}"
        )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"options": vars(options), "batch size": sampler.batch_size, "rounds": found}, file, indent=1)


def real(options: argparse.Namespace) -> tuple[Sampler, Before]:
    """A network, and what times the bare one."""
    model, shape, _ = network(options.network, options.device)
    prepared = prepare(model, precision=options.precision, compile=options.compile)
    images = np.random.default_rng(0).random((options.images, *shape), dtype=np.float32)
    sampler = Sampler(prepared, images, noise=NOISE, seed=0, batch_size=options.batch_size)
    batch = torch.rand(sampler.batch_size, *shape, device=options.device, dtype=PRECISIONS[options.precision])
    ready = bare(prepared, batch.to(memory_format=torch.channels_last))
    if options.device == "cpu":
        return sampler, lambda: (None, Turns(ready))
    return sampler, lambda: (rate(ready, options.device, 1.0), None)


def pretended(options: argparse.Namespace) -> tuple[Sampler, Before]:
    images = np.random.default_rng(0).random((options.images, 4), dtype=np.float32)
    sampler = Sampler(nn.Linear(4, 10).eval(), images, noise=NOISE, seed=0, batch_size=options.batch_size or 8_192)
    sampler._lane = Queue(sampler.batch_size, options.pretend)
    return sampler, lambda: (float(options.pretend), None)


def cached(options: argparse.Namespace, sampler: Sampler) -> recert.Cache:
    """Votes of the original, by the same law, with no network."""
    return recert.certify(
        Unsampled(sampler, changed=False), None, noise=NOISE, samples=options.cached, selection_samples=500, alpha=ALPHA, progress=False
    )  # fmt: skip


if __name__ == "__main__":
    main()
