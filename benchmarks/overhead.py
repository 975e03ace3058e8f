"""What certify costs on top of the bare network: one run, one machine, the two measured in turn.

    python benchmarks/overhead.py [--samples 20480] [--rounds 3] [--threads 2]

Prints the wall time of `certify` over that of the network alone on ready batches of the same total size and shape.
"""

import argparse
import json
import time

import numpy as np
import torch

import recert
from recert.models.registry import build_model


def bare_seconds(model: torch.nn.Module, batch: torch.Tensor, batches: int) -> float:
    """The network alone on a batch that is ready, as often as certify needs it."""
    started = time.perf_counter()
    with torch.inference_mode():
        for _ in range(batches):
            model(batch)
    return time.perf_counter() - started


def certify_seconds(model: torch.nn.Module, image: np.ndarray, samples: int, batch_size: int, seed: int) -> float:
    started = time.perf_counter()
    recert.certify(
        model,
        image,
        noise=recert.Gaussian(0.5),
        samples=samples - 100,
        selection_samples=100,
        batch_size=batch_size,
        seed=seed,
    )
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="cifar-resnet20")
    parser.add_argument("--samples", type=int, default=20_480)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = build_model(options.model).eval()
    batch = torch.rand(options.batch_size, 3, 32, 32)
    image = np.random.default_rng(0).random((1, 3, 32, 32), dtype=np.float32)
    batches = -(-options.samples // options.batch_size)
    bare_seconds(model, batch, 2)
    certify_seconds(model, image, 2 * options.batch_size, options.batch_size, 0)
    rounds = []
    for number in range(options.rounds):
        bare = bare_seconds(model, batch, batches)
        ours = certify_seconds(model, image, options.samples, options.batch_size, number)
        rounds.append({"bare": bare, "certify": ours, "ratio": ours / bare})
        print(f"bare {bare:.2f} s, certify {ours:.2f} s, ratio {ours / bare:.3f}")
    median = float(np.median([r["ratio"] for r in rounds]))
    print(json.dumps({**vars(options), "median ratio": median, "rounds": rounds}))


if __name__ == "__main__":
    main()
