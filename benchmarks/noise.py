"""What each noise costs: values per second of the noise alone, and samples per second with a network behind it, beside plain Gaussian noise.

    python benchmarks/noise.py --device cuda --network cifar-resnet20
    python benchmarks/noise.py --device cpu --rounds 5

All noises are measured in turn, in one process, and the whole is repeated; a ratio is the median of those of the rounds. The network
has random weights. On a GPU the noise is timed by events, so that the host's share is not in it.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch

import recert
from recert.models.registry import build_model
from recert.noise import Stream
from recert.noise.stream import NoisyRows, perturb, perturb_into
from recert.sampling import Sampler, Work
from recert.votes import count_votes

NOISES: list[recert.Noise] = [
    recert.Gaussian(0.5), recert.Gaussian(0.5, grid=1 / 255), recert.Gaussian(0.5, grid=1 / 1024),
    recert.Laplace(0.35), recert.Uniform(0.87), recert.Splitting(0.87),
]  # fmt: skip
SHAPE = (3, 32, 32)


def noise_alone(noise: recert.Noise, device: str, batch: int, repeats: int) -> float:
    """Values per second, straight into a batch that is there already."""
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (8, 3072)).astype(np.float32) / np.float32(255)).to(
        device
    )
    if noise.spec.endswith("1/1024"):
        x = torch.round(x * 1024) / 1024
    rows = NoisyRows(np.arange(batch) % 8, np.arange(batch), np.full(batch, int(Stream.ESTIMATION)))
    keys = np.arange(1, 9, dtype=np.uint64)
    if device == "cpu":
        return _rate(lambda: perturb(x, keys, rows, noise), batch * 3072, repeats)
    out = torch.empty((batch, *SHAPE), device=device, memory_format=torch.channels_last)
    columns = [torch.from_numpy(c).to(device) for c in (rows.rows, keys.view(np.int64), rows.samples, rows.streams)]
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        perturb_into(out, x, *columns, noise)
    begin.record()
    for _ in range(repeats):
        perturb_into(out, x, *columns, noise)
    end.record()
    torch.cuda.synchronize()
    return batch * 3072 * repeats / (begin.elapsed_time(end) / 1e3)


def _rate(run: Callable[[], object], values: int, repeats: int) -> float:
    run()
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    return values * repeats / (time.perf_counter() - started)


def sampler(noise: recert.Noise, options: argparse.Namespace) -> Sampler:
    torch.manual_seed(0)
    model = build_model(options.network).eval().to(options.device)
    images = np.random.default_rng(0).integers(0, 256, (4, *SHAPE)).astype(np.float32) / np.float32(255)
    if noise.spec.endswith("1/1024"):
        images = np.round(images * 1024).astype(np.float32) / np.float32(1024)
    return Sampler(model, images, noise=noise, seed=0, batch_size=options.batch_size)


def samples_per_second(drawing: Sampler, samples: int) -> float:
    started, counts = time.perf_counter(), 0
    for chunk in drawing.draw([Work(i, Stream.ESTIMATION, range(samples // 4)) for i in range(4)]):
        counts += int(count_votes(chunk.votes, drawing.classes).sum())
    assert counts == samples // 4 * 4
    return samples / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", default="cifar-resnet20")
    parser.add_argument("--batch-size", type=int, help="of the network (2,048 on a GPU, 128 on a CPU)")
    parser.add_argument("--samples", type=int, help="with the network, in a round (400,000 on a GPU, 2,048 on a CPU)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    on_gpu = options.device != "cpu"
    options.batch_size = options.batch_size or (2_048 if on_gpu else 128)
    options.samples = options.samples or (400_000 if on_gpu else 2_048)
    samplers = [sampler(noise, options) for noise in NOISES]
    for each in samplers:
        samples_per_second(each, 4 * options.batch_size)
    rounds = []
    for _ in range(options.rounds):
        alone = [noise_alone(noise, options.device, options.batch_size, 50 if on_gpu else 4) for noise in NOISES]
        behind = [samples_per_second(each, options.samples) for each in samplers]
        rounds.append((alone, behind))
    found = np.array(rounds)
    for i, noise in enumerate(NOISES):
        # Time of this noise over that of plain Gaussian noise, round by round.
        ratio, whole = (float(np.median(found[:, part, 0] / found[:, part, i])) for part in (0, 1))
        print(json.dumps({
            "noise": noise.spec, "values per second": f"{np.median(found[:, 0, i]):.3g}", "time over gaussian": round(ratio, 3),
            "samples per second": round(float(np.median(found[:, 1, i]))), "time with the network over gaussian": round(whole, 3),
        }))  # fmt: skip


if __name__ == "__main__":
    main()
