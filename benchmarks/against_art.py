"""Wall time of recert against the Adversarial Robustness Toolbox on the same network, inputs, n and alpha, in one run.

python benchmarks/against_art.py [--count 10] [--samples 5000] [--rounds 3]
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

import recert
from recert.data import load_data
from recert.models import load_model


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--samples", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    model, data = load_model("digits").model, load_data("digits", count=options.count)
    art = PyTorchRandomizedSmoothing(
        model=model, loss=torch.nn.CrossEntropyLoss(), input_shape=(1, 8, 8), nb_classes=10, scale=0.5, alpha=0.001,
        sample_size=100, device_type="cpu",
    )  # fmt: skip
    noise = recert.Gaussian(0.5)
    recert.certify(model, data.inputs[:1], noise=noise, samples=100)  # compile the noise
    rounds = []
    for seed in range(options.rounds):
        ours = seconds(
            lambda seed=seed: (
                recert.certify(model, data.inputs, noise=noise, samples=options.samples, seed=seed).certificates
            )
        )
        np.random.seed(seed)  # noqa: NPY002 (ART draws from it)
        theirs = seconds(lambda: art.certify(data.inputs, n=options.samples, batch_size=4_096))
        rounds.append({"recert": ours, "art": theirs, "ratio": theirs / ours})
        print(f"recert {ours:.2f} s, ART {theirs:.2f} s, ratio {theirs / ours:.1f}")
    print(json.dumps({**vars(options), "rounds": rounds}))


if __name__ == "__main__":
    main()
