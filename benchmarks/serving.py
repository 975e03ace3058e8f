"""Requests per second of `recert.Smoothed` beside the bare network, a few at a time and one by one.

    python benchmarks/serving.py
    python benchmarks/serving.py --networks digits --samples 100 --together 1 --http

Each round times all settings in turn, so that a busy moment of the machine hits all of them; medians of the rounds are shown. The bare
network answers the same requests without noise. `passes` is what share of the bare network's fastest pace (rows per second in
batches of 256) is reached while noise is made, votes are counted and bounds are computed. With `--http`, the example server is
asked by many clients at once.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import recert

SHAPES = {"digits": (1, 8, 8), "cifar-resnet20": (3, 32, 32)}
FULL = 256
LEAST_SECONDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(SHAPES))
    parser.add_argument("--samples", default="100,1000")
    parser.add_argument("--together", default="1,16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--http", action="store_true")
    options = parser.parse_args()
    print(
        f"{torch.get_num_threads()} threads, torch {torch.__version__.partition('+')[0]}, medians of {options.rounds} rounds\n"
    )
    print("| network | samples | at a time | bare, requests/s | Smoothed, requests/s | bare / Smoothed | passes |")
    print("|---|---|---|---|---|---|---|")
    for name in options.networks.split(","):
        show(name, numbers(options.samples), numbers(options.together), options.rounds)
    if options.http:
        script = Path(__file__).parent.parent / "examples" / "http_server.py"
        print(f"\n{subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout}")


def show(name: str, samples: list[int], together: list[int], rounds: int) -> None:
    """A row for every setting of one network."""
    model = recert.load_model(name).model
    settings: dict[tuple[int, int], Callable[[], object]] = {}
    for batch in together:
        x = np.random.default_rng(0).random((batch, *SHAPES[name])).astype(np.float32)
        settings[0, batch] = bare(model, x)
        for n in samples:
            smoothed = recert.Smoothed(model, recert.Gaussian(0.5), n, 0.001)
            settings[n, batch] = lambda smoothed=smoothed, x=x: smoothed(x)  # type: ignore[misc]
    settings[0, FULL] = bare(model, np.random.default_rng(0).random((FULL, *SHAPES[name])).astype(np.float32))
    pace = paces(settings, rounds)
    for n in samples:
        for batch in together:
            plain, ours = pace[0, batch] * batch, pace[n, batch] * batch
            share = ours * n / (pace[0, FULL] * FULL)
            print(
                f"| {name} | {n:,} | {batch} | {plain:,.0f} | {ours:,.2f} | {plain / ours:,.0f} | {share:.0%} |",
                flush=True,
            )


def bare(model: torch.nn.Module, x: np.ndarray) -> Callable[[], object]:
    batch = torch.from_numpy(x)

    def call() -> object:
        with torch.inference_mode():
            return model(batch).argmax(dim=1).numpy()

    return call


def paces(settings: dict[tuple[int, int], Callable[[], object]], rounds: int) -> dict[tuple[int, int], float]:
    """Calls per second of each."""
    found: dict[tuple[int, int], list[float]] = {key: [] for key in settings}
    for turn in range(rounds + 1):
        for key, call in settings.items():
            started, calls = time.perf_counter(), 0
            while not calls or time.perf_counter() - started < LEAST_SECONDS:
                call()
                calls += 1
            if turn:  # the first round allocates memory and compiles the making of noise
                found[key].append(calls / (time.perf_counter() - started))
    return {key: statistics.median(each) for key, each in found.items()}


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
