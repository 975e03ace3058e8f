"""Samples per second: ours, the bare network on a ready batch, the loop of locuslab/smoothing, and ART where installed.

    python benchmarks/throughput.py --device cuda --networks cifar-resnet20,cifar-resnet110,resnet50 --json throughput.json
    python benchmarks/throughput.py --device cpu --networks cifar-resnet20

All arms run in turn, in one process, with random weights: only their ratios are of use elsewhere. `bare` is the same
(compiled) module on a batch that lies ready on the device, at our batch size; `loop` is the public code's: one image,
contiguous float32, noise by randn_like, a copy back and a Python count per batch, in strict float32 and with torch's
defaults (TF32 convolutions), which is what a user has today.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from recert.models.inference import PRECISIONS, prepare, tf32_flags
from recert.models.locuslab import ARCHITECTURES
from recert.models.registry import build_model
from recert.noise import Gaussian, Stream
from recert.sampling import Sampler, Work
from recert.votes import count_votes

NOISE = Gaussian(0.5)


def network(name: str, device: str) -> tuple[nn.Module, tuple[int, ...], int]:
    """A network with random weights, the shape of its inputs, and the batch size of the public scripts for it."""
    torch.manual_seed(0)
    if name == "resnet50":
        return ARCHITECTURES["resnet50"].build().eval().to(device), (3, 224, 224), 400
    return build_model(name).eval().to(device), (3, 32, 32), 1_000


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def rate(run: Callable[[int], int], device: str, seconds: float) -> float:
    """Samples per second of `run(samples)`, which returns how many it drew, over about so many seconds."""
    samples, taken = 1, 0.0
    while True:  # until one run is long enough to be timed; the first warm up
        synchronize(device)
        started = time.perf_counter()
        drawn = run(samples)
        synchronize(device)
        taken = time.perf_counter() - started
        if taken > 0.7 * seconds:
            return drawn / taken
        samples = int(drawn * min(50.0, max(1.2, seconds / max(taken, 1e-4))))


def ours(sampler: Sampler) -> Callable[[int], int]:
    def run(samples: int) -> int:
        whole = -(-samples // sampler.batch_size) * sampler.batch_size
        inputs = len(sampler.inputs)
        shares = [whole // inputs + (i < whole % inputs) for i in range(inputs)]
        works = [Work(i, Stream.ESTIMATION, range(share)) for i, share in enumerate(shares)]
        counts = np.zeros(sampler.classes, dtype=np.int64)
        for chunk in sampler.draw(works):
            counts += count_votes(chunk.votes, sampler.classes)
        assert counts.sum() <= whole
        return whole

    return run


def bare(model: nn.Module, batch: torch.Tensor) -> Callable[[int], int]:
    def run(samples: int) -> int:
        passes = -(-samples // len(batch))
        with torch.inference_mode():
            for _ in range(passes):
                model(batch)
        return passes * len(batch)

    return run


def loop(model: nn.Module, image: torch.Tensor, batch_size: int, classes: int) -> Callable[[int], int]:
    """As in the public code: smoothing's `_sample_noise`."""

    def run(samples: int) -> int:
        passes = -(-samples // batch_size)
        counts = np.zeros(classes, dtype=int)
        with torch.no_grad():
            for _ in range(passes):
                batch = image.repeat((batch_size, 1, 1, 1))
                noise = torch.randn_like(batch, device=image.device) * NOISE.sigma
                predictions = model(batch + noise).argmax(1)
                for predicted in predictions.cpu().numpy():
                    counts[predicted] += 1
        return passes * batch_size

    return run


def art(model: nn.Module, image: np.ndarray, classes: int, device: str, batch_size: int = 256) -> Callable[[int], int]:
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    smoothed = PyTorchRandomizedSmoothing(
        model=model, loss=nn.CrossEntropyLoss(), input_shape=image.shape[1:], nb_classes=classes, scale=NOISE.sigma,
        alpha=0.001, sample_size=100, device_type="gpu" if device.startswith("cuda") else "cpu",
    )  # fmt: skip

    def run(samples: int) -> int:
        smoothed.certify(image, n=max(samples, 100), batch_size=batch_size)
        return max(samples, 100) + 100

    return run


def with_tf32(allowed: bool, run: Callable[[int], int]) -> Callable[[int], int]:
    """Under torch's flags for convolutions; products stay strict, as by default."""

    def under(samples: int) -> int:
        before = tf32_flags()[0]
        torch.backends.cudnn.allow_tf32 = allowed
        try:
            return run(samples)
        finally:
            torch.backends.cudnn.allow_tf32 = before

    return under


def arms_of(name: str, options: argparse.Namespace) -> dict[str, Callable[[int], int]]:
    model, shape, loop_batch = network(name, options.device)
    images = np.random.default_rng(0).random((options.images, *shape), dtype=np.float32)
    image = torch.from_numpy(images[:1]).to(options.device)
    with torch.inference_mode():
        classes = model(image).shape[1]
    arms: dict[str, Callable[[int], int]] = {"loop fp32": with_tf32(False, loop(model, image, loop_batch, classes))}
    if options.device.startswith("cuda"):
        arms["loop defaults"] = with_tf32(True, loop(model, image, loop_batch, classes))
    if importlib.util.find_spec("art") and not options.no_art:
        arms["ART"] = art(model, images[:1], classes, options.device)
    for precision in options.precision.split(","):
        prepared = prepare(model, precision=precision, compile=options.compile)
        started = time.perf_counter()
        sampler = Sampler(prepared, images, noise=NOISE, seed=0, batch_size=options.batch_size)
        ready = time.perf_counter() - started
        print(f"{name} {precision}: batch {sampler.batch_size}, ready after {ready:.0f} s", flush=True)
        batch = torch.rand(sampler.batch_size, *shape, device=options.device, dtype=PRECISIONS[precision])
        batch = batch.to(memory_format=torch.channels_last)
        arms[f"bare {precision}"] = bare(prepared, batch)
        arms[f"ours {precision}"] = ours(sampler)
    return arms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="cifar-resnet20")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default=None, help="fp32,tf32,bf16,fp16; by default those of the device")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--no-art", action="store_true")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0, help="per arm and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    cuda = options.device.startswith("cuda")
    options.precision = options.precision or ("fp32,tf32,bf16,fp16" if cuda else "fp32,bf16")
    results = {}
    for name in options.networks.split(","):
        arms = arms_of(name, options)
        rates = {arm: [] for arm in arms}
        for _ in range(options.rounds):
            for arm, run in arms.items():
                rates[arm].append(rate(run, options.device, options.seconds))
        medians = {arm: float(np.median(values)) for arm, values in rates.items()}
        results[name] = {"samples per second": medians, "rounds": rates}
        report(name, medians)
    if options.json:
        machine = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
        with open(options.json, "w") as file:
            json.dump(
                {"machine": machine, "torch": torch.__version__, **vars(options), "results": results}, file, indent=1
            )


def report(name: str, rates: dict[str, float]) -> None:
    print(f"\n{name}\n| arm | samples/s | of bare | of loop fp32 | of loop defaults |\n|---|---|---|---|---|")
    for arm, value in rates.items():
        kind, _, precision = arm.partition(" ")
        cells = [f"{value / rates[f'bare {precision}']:.3f}" if kind == "ours" else ""]
        cells += [f"{value / rates[base]:.2f}" if base in rates else "" for base in ("loop fp32", "loop defaults")]
        print(f"| {arm} | {value:,.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
