"""How often an approximation votes differently from the network it was made of, on the same noise.

    python benchmarks/flips.py --model digits --data digits
    python benchmarks/flips.py --model cifar-resnet20:0.5 --data cifar10:DIR --device cuda

Up to 500 test inputs, evenly spread, under the noise that the network was trained with. Prints the share of samples
whose votes differ with its one-sided 99.9% upper bound, the accuracy of single votes, and that of the majority of an
input's votes. Votes of `int8` come from the CPU and are fewer; they are also compared with its twin's.
"""

import argparse
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from recert import Gaussian
from recert.approximations import Calibration, approximate
from recert.bounds import clopper_pearson_upper
from recert.data import Dataset, load_data
from recert.models import load_model
from recert.noise import Stream
from recert.sampling import Sampler, Work, collect

APPROXIMATIONS = "fp16,bf16,fp16-weights,bf16-weights,prune:0.05,prune:0.1,prune:0.2,int8-twin,int8"
ALPHA = 0.001
INPUTS = 500
CALIBRATION_INPUTS = 256


def some_inputs(spec: str) -> Dataset:
    return load_data(spec, every=max(1, len(load_data(spec)) // INPUTS))


def votes(model: torch.nn.Module, data: Dataset, noise: Gaussian, samples: int) -> np.ndarray:
    """Votes as (input, sample)."""
    sampler = Sampler(model, data.inputs, noise=noise, seed=0)
    works = [Work(position, Stream.ESTIMATION, range(samples)) for position in range(len(data))]
    return np.stack([drawn.votes for drawn in collect(sampler, works, "flips")])


def compared(name: str, of: np.ndarray, against: str, reference: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """How two models' votes differ on the samples that both were asked for."""
    differing = int((of != reference[:, : of.shape[1]]).sum())
    majority = np.array([np.bincount(row).argmax() for row in of])
    return {
        "model": name, "against": against, "samples": of.size, "differing": differing, "share": differing / of.size,
        "upper": float(clopper_pearson_upper(differing, of.size, ALPHA)),
        "accuracy": float(np.mean(of == labels[:, None])), "majority": float(np.mean(majority == labels)),
    }  # fmt: skip


def show(row: Mapping[str, Any]) -> None:
    print(
        f"{row['model']:<14}{row['against']:<11}{row['samples']:>8}{row['differing']:>11}{row['share']:>10.4%}"
        f"{row['upper']:>10.4%}{row['accuracy']:>10.2%}{row['majority']:>10.1%}", flush=True,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a shipped network, NAME[:SIGMA]")
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--samples", type=int, default=100, help="per input")
    parser.add_argument("--int8-samples", type=int, default=20, help="per input, of int8 on the CPU")
    parser.add_argument("--approximations", default=APPROXIMATIONS)
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    loaded = load_model(options.model)
    noise = Gaussian(float(loaded.name.rpartition("-")[2]))
    model, data = loaded.model.to(options.device), some_inputs(options.data)
    assert data.labels is not None
    calibration = Calibration(load_data(options.data, split="train", count=CALIBRATION_INPUTS).inputs, noise)
    print(
        f"{options.model} on {len(data)} inputs of {data.name}, {noise.spec}, {options.device}, torch {torch.__version__}"
    )
    print(f"{'model':<14}{'against':<11}{'samples':>8}{'differing':>11}{'share':>10}{'upper':>10}{'accuracy':>10}{'majority':>10}")  # fmt: skip
    drawn = {"float32": votes(model, data, noise, options.samples)}
    rows = [compared("float32", drawn["float32"], "float32", drawn["float32"], data.labels)]
    show(rows[0])
    for spec in options.approximations.split(","):
        samples = min(options.samples, options.int8_samples) if spec == "int8" else options.samples
        drawn[spec] = votes(approximate(model, spec, calibration=calibration).model, data, noise, samples)
        references = ["float32", "int8-twin"] if spec == "int8" and "int8-twin" in drawn else ["float32"]
        for reference in references:
            rows.append(compared(spec, drawn[spec], reference, drawn[reference], data.labels))
            show(rows[-1])
    print(json.dumps({**vars(options), "noise": noise.spec, "inputs": len(data), "alpha": ALPHA, "rows": rows}))


if __name__ == "__main__":
    main()
