"""What the Ray engine costs on one machine, and what votes take on disk: one run, the engines measured in turn.

    python benchmarks/engines.py [--model cifar-resnet20] [--samples 20480] [--workers 2] [--rounds 3]
    python benchmarks/engines.py --storage

Prints the wall time of the same draws by this process (with all its threads) and by Ray workers (with one each), the
seconds that Ray needs to start, and the cost of one job, from a network that does next to nothing. With --storage: bytes per
vote of parts of 1000 classes, for inputs whose top class has 95, 80 or 50 of 100 votes and the rest falls off as 1/rank.
"""

import argparse
import json
import os
import time

import numpy as np
import torch

import recert
from recert.cache import parts
from recert.engines import schedule
from recert.engines.ray_source import RaySource
from recert.models.registry import build_model
from recert.noise import Stream
from recert.sampling import VoteSource, Work, collect, open_source
from recert.votes import count_votes

JOBS = 400


def seconds(source: VoteSource, works: list[Work]) -> float:
    started = time.perf_counter()
    collect(source, works, "drawing")
    return time.perf_counter() - started


def compare_engines(options: argparse.Namespace) -> dict[str, object]:
    """The same votes by both engines, in turn."""
    torch.manual_seed(0)
    model = build_model(options.model).eval()
    x = np.random.default_rng(0).random((4, 3, 32, 32), dtype=np.float32)
    given = {"noise": recert.Gaussian(0.5), "seed": 0, "batch_size": options.batch_size}
    works = [Work(i, Stream.ESTIMATION, range(options.samples // 4)) for i in range(4)]
    local = open_source(model, x, **given)
    started = time.perf_counter()
    with RaySource(model, x, **given, workers=options.workers) as remote:
        warm = [Work(0, Stream.FRESH, range(8 * options.batch_size))]
        seconds(remote, warm)
        start = time.perf_counter() - started
        seconds(local, warm)
        rounds = [{"local": seconds(local, works), "ray": seconds(remote, works)} for _ in range(options.rounds)]
    ratio = float(np.median([r["ray"] / r["local"] for r in rounds]))
    return {"start and first jobs": start, "rounds": rounds, "median ray / local": ratio}


class Trivial(torch.nn.Module):
    """Two logits from the first element."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        first = batch.flatten(1)[:, 0]
        return torch.stack([first, -first], dim=1)


def cost_of_a_job(workers: int, batch_size: int = 64) -> dict[str, float]:
    """Wall time per job when a job is one batch of a network that costs nothing."""
    given = {"noise": recert.Gaussian(0.5), "seed": 0, "batch_size": batch_size}
    x = np.zeros((1, 4), np.float32)
    works = [Work(0, Stream.ESTIMATION, range(JOBS * batch_size))]
    schedule.SECONDS_PER_JOB = 0.0  # one batch per job
    local = open_source(Trivial().eval(), x, **given)
    with RaySource(Trivial().eval(), x, **given, workers=workers) as remote:
        for source in (local, remote):
            seconds(source, works)
        measured = {
            name: min(seconds(source, works) for _ in range(5)) / JOBS
            for name, source in (("local", local), ("ray", remote))
        }
    return {f"ms per {batch_size} trivial samples, {name}": 1e3 * value for name, value in measured.items()}


def storage(classes: int = 1000, inputs: int = 25, samples: int = 100_000) -> dict[str, float]:
    """Bytes per vote of a part, as written to disk."""
    rng = np.random.default_rng(0)
    tail = 1 / np.arange(1, classes)
    sizes = {}
    for top in (0.95, 0.8, 0.5):
        rows = []
        for i in range(inputs):
            chance = np.concatenate([[top], (1 - top) * tail / tail.sum()])
            votes = rng.permutation(classes)[rng.choice(classes, size=samples, p=chance)].astype(np.uint16)
            counts = count_votes(votes, classes)
            rows.append(parts.Row(f"{i:064x}", Stream.ESTIMATION, 0, samples, counts, 0.0, votes))
        sizes[f"bytes per vote, top class {top:.0%}"] = len(parts.encode(rows, classes, "synthetic")[1]) / (
            inputs * samples
        )
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="cifar-resnet20")
    parser.add_argument("--samples", type=int, default=20_480)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--storage", action="store_true")
    options = parser.parse_args()
    if options.storage:
        print(json.dumps(storage(), indent=1))
        return
    result = {"load before": os.getloadavg()[0], **compare_engines(options), **cost_of_a_job(options.workers)}
    print(json.dumps({**vars(options), **result, "load after": os.getloadavg()[0]}, indent=1))


if __name__ == "__main__":
    main()
