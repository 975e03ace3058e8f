"""Makes `votes.npz` beside this file: votes of the shipped ResNet-20 (sigma 0.5) and of four changes of it.

    python tests/real_votes/make.py CIFAR10_DIR    (on a GPU; a minute)

64 test images of CIFAR-10, 10,000 noises of one stream each, the same for all networks. Tests take columns 0 to 499 as selection
votes, 500 to 8,999 as estimation votes and the last 1,000 as fresh ones.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from recert.approximations import Calibration, approximate
from recert.data import load_data
from recert.models import load_model
from recert.noise import Gaussian, Stream
from recert.sampling import Work, collect, open_source

SAMPLES, EVERY, COUNT = 10_000, 156, 64
CHANGES = {"fp32": None, "fp16": "fp16", "bf16": "bf16", "int8": "int8-twin", "prune20": "prune:0.2"}


def main(directory: str) -> None:
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    noise = Gaussian(0.5)
    data = load_data(f"cifar10:{directory}", count=COUNT, every=EVERY)
    others = load_data(f"cifar10:{directory}", count=10_000).inputs[50::EVERY]  # to calibrate the quantisation with
    votes = {}
    for name, change in CHANGES.items():
        network = load_model("cifar-resnet20:0.5").model
        calibration = Calibration(others, noise=noise, seed=1)
        model = network if change is None else approximate(network, change, calibration=calibration, example_input=data.inputs[:2]).model  # fmt: skip
        source = open_source(model.to("cuda"), data.inputs, noise=noise, seed=0, device="cuda", classes=10)
        works = [Work(i, Stream.ESTIMATION, range(SAMPLES)) for i in range(COUNT)]
        votes[name] = np.stack([drawn.votes for drawn in collect(source, works, name)]).astype(np.uint8)
        print(name, "differs on", float((votes[name] != votes["fp32"]).mean()))
    np.savez_compressed(Path(__file__).with_name("votes.npz"), labels=data.labels, idx=data.indices, **votes)


if __name__ == "__main__":
    main(sys.argv[1])
