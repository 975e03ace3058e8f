"""How cost grows: seconds against samples, inputs and batch size, and memory against samples, with slope and constant.

    python benchmarks/scaling.py --network cifar-resnet20 --device cpu
    python benchmarks/scaling.py --network cifar-resnet110 --device cuda --precision tf32 --compile --unit 40000

A unit is the work of the smallest run. Seconds are of `draw` after warm-up; a straight line is fitted to seconds over samples.
"""

import argparse
import json
import resource
import time

import numpy as np
import torch

from recert.models.inference import prepare
from recert.models.registry import build_model
from recert.noise import Gaussian, Stream
from recert.sampling import Sampler, Work


def seconds(sampler: Sampler, inputs: int, samples: int) -> float:
    """Of drawing so many samples of each of so many inputs."""
    works = [Work(i, Stream.ESTIMATION, range(samples)) for i in range(inputs)]
    started = time.perf_counter()
    for _ in sampler.draw(works):
        pass
    return time.perf_counter() - started


def memory(device: str) -> float:
    """Peak so far, in MB: on the device, or of this process."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def line(samples: list[int], taken: list[float]) -> dict[str, float]:
    """Slope and constant of a least-squares line, and how far a point lies from it at most."""
    slope, constant = np.polyfit(samples, taken, 1)
    off = max(abs(slope * n + constant - t) / t for n, t in zip(samples, taken, strict=True))
    return {"us per sample": slope * 1e6, "constant ms": constant * 1e3, "largest deviation": off}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="cifar-resnet20")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default=None)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--unit", type=int, default=2_048)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = build_model(options.network).eval().to(options.device)
    if options.precision or options.compile:
        model = prepare(model, precision=options.precision, compile=options.compile)
    images = np.random.default_rng(0).random((64, 3, 32, 32), dtype=np.float32)
    sampler = Sampler(model, images, noise=Gaussian(0.5), seed=0)
    seconds(sampler, 1, options.unit)  # warm up
    result: dict[str, object] = {**vars(options), "batch size found": sampler.batch_size}

    by_samples = [options.unit * k for k in (1, 2, 4, 8, 16)]
    taken, peaks = [], []
    for n in by_samples:
        taken.append(seconds(sampler, 1, n))
        peaks.append(memory(options.device))
    result["by samples"] = {"samples": by_samples, "seconds": taken, "peak MB": peaks, **line(by_samples, taken)}

    total = by_samples[-1]
    by_inputs = [1, 4, 16, 64]
    same = [seconds(sampler, inputs, total // inputs) for inputs in by_inputs]
    result["by inputs, same total"] = {
        "inputs": by_inputs,
        "seconds": same,
        "slowest over fastest": max(same) / min(same),
    }

    batches = [size for k in range(-3, 3) if (size := int(sampler.batch_size * 2**k)) >= 1]
    rates = {}
    for size in batches:
        other = Sampler(model, images, noise=Gaussian(0.5), seed=0, batch_size=size)
        whole = -(-(total // 2) // size) * size
        seconds(other, 1, size)
        rates[other.batch_size] = whole / seconds(other, 1, whole)
    result["samples per second by batch"] = rates
    print(json.dumps(result, indent=1))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
