"""CPU microseconds per pass: ours, the loop of locuslab/smoothing and ART (if installed), each at several batch sizes.

    python benchmarks/cpu.py [--networks cifar-resnet20] [--threads 1] [--compile] [--json cpu.json]

Arms and batch sizes take turns, round after round, in one process with random weights. `CPU` is what all threads of the process used
(user and system), `wall` the clock's time; of each the median of the rounds. On a machine that others use, use one thread: threads
of torch that wait for each other count as working, for as long as another process keeps one of them from its core. The best batch size of an arm is compared with the best of others.

`loop` is the public code's loop: one image, contiguous float32, `randn_like`, a copy back and a count in Python per batch. `ART` is
`certify` of its PyTorchRandomizedSmoothing (numpy's noise). `torch` is ours as it runs without any choice; `onnxruntime`, `compiled`
and `bf16` are `--runtime onnxruntime`, `--compile` and `--precision bf16`. `noise` is our noise alone, and `network` each
network on a batch that lies ready. All are float32 but for bf16. `*` marks the batch size that is found by timing.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from throughput import NOISE, art, bare, loop, network, ours

from recert.models.inference import prepare
from recert.models.onnx_export import to_onnxruntime
from recert.noise import Stream
from recert.noise.stream import NoisyRows
from recert.sampling import Sampler

SIZES = {"loop": (50, 100, 200, 400, 1_000), "ART": (32, 64, 128, 256)}
OUR_SIZES = (16, 32, 64, 128, 256)
Run = Callable[[int], int]
"""Draws so many samples, or a few more, and returns how many."""


def arms_of(name: str, options: argparse.Namespace) -> dict[tuple[str, int], Run]:
    model, shape, _ = network(name, "cpu")
    images = np.random.default_rng(0).random((4, *shape), dtype=np.float32)
    image = torch.from_numpy(images[:1])
    with torch.inference_mode():
        classes = model(image).shape[1]
    arms: dict[tuple[str, int], Run] = {("loop", size): loop(model, image, size, classes) for size in SIZES["loop"]}
    if importlib.util.find_spec("art") and not options.no_art:
        arms |= {("ART", size): art(model, images[:1], classes, "cpu", size) for size in SIZES["ART"]}
    variants = {
        "torch": model,
        "onnxruntime": to_onnxruntime(model, images[:2]),
        "bf16": prepare(model, precision="bf16"),
    }
    if options.compile:
        variants["compiled"] = prepare(model, compile=True)
    for kind, prepared in variants.items():
        found = Sampler(prepared, images, noise=NOISE, seed=0).batch_size
        print(f"{name}, {kind}: batches of {found} were found fastest", flush=True)
        for size in sorted({*OUR_SIZES, found} if kind != "compiled" else {found}):  # each size is compiled anew
            sampler = Sampler(prepared, images, noise=NOISE, seed=0, batch_size=size)
            label = f"{kind} *" if size == found else kind
            arms[label, size] = ours(sampler)
            if size == found:
                arms[f"network of {kind}", size] = bare(prepared, ready(sampler))
                if kind == "torch":
                    arms["noise", size] = noise(sampler)
    return arms


def ready(sampler: Sampler) -> torch.Tensor:
    rows = np.arange(sampler.batch_size, dtype=np.int64)
    return sampler._lane.noisy(NoisyRows(rows * 0, rows, np.full_like(rows, Stream.CALIBRATION)))


def noise(sampler: Sampler) -> Run:
    def run(samples: int) -> int:
        batches = -(-samples // sampler.batch_size)
        for _ in range(batches):
            ready(sampler)
        return batches * sampler.batch_size

    return run


def measured(run: Run, passes: int) -> tuple[float, float]:
    """Microseconds per pass: CPU, wall."""
    wall, cpu = time.perf_counter(), time.process_time()
    drawn = run(passes)
    return 1e6 * (time.process_time() - cpu) / drawn, 1e6 * (time.perf_counter() - wall) / drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="cifar-resnet20")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--no-art", action="store_true")
    parser.add_argument("--passes", type=int, default=2_000, help="per arm and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default=None)
    parser.add_argument("--threads", type=int, default=None, help="torch's usual number unless given")
    options = parser.parse_args()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    results = {}
    for name in options.networks.split(","):
        arms = arms_of(name, options)
        rounds: dict[tuple[str, int], list[tuple[float, float]]] = {arm: [] for arm in arms}
        for run in arms.values():
            run(1)  # warms up
        for _ in range(options.rounds):
            for arm, run in arms.items():
                rounds[arm].append(measured(run, options.passes))
        results[name] = [
            {"arm": arm, "batch": size, "CPU": median(each, 0), "wall": median(each, 1), "rounds": each}
            for (arm, size), each in rounds.items()
        ]
        report(name, results[name])
    if options.json:
        about = {"threads": torch.get_num_threads(), "torch": torch.__version__, **vars(options)}
        with open(options.json, "w") as file:
            json.dump({**about, "results": results}, file, indent=1)


def median(rounds: list[tuple[float, float]], column: int) -> float:
    return float(np.median([each[column] for each in rounds]))


def report(name: str, rows: list[dict[str, object]]) -> None:
    print(f"\n{name}, {torch.get_num_threads()} threads\n| arm | batch | CPU us | wall us |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row['arm']} | {row['batch']} | {row['CPU']:,.0f} | {row['wall']:,.0f} |")
    kinds = dict.fromkeys(str(row["arm"]).removesuffix(" *") for row in rows)
    print(
        "\nbest against best\n| arm | CPU us | times as fast as loop | as ART | wall us | as loop | as ART |\n|"
        + "---|" * 7
    )
    best = {
        (kind, clock): min(float(row[clock]) for row in rows if str(row["arm"]).removesuffix(" *") == kind)  # type: ignore[arg-type]
        for kind in kinds
        for clock in ("CPU", "wall")
    }
    for kind in kinds:
        cells = [kind]
        for clock in ("CPU", "wall"):
            cells.append(f"{best[kind, clock]:,.0f}")
            cells += [f"{best[b, clock] / best[kind, clock]:.2f}" if b in kinds else "" for b in ("loop", "ART")]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
