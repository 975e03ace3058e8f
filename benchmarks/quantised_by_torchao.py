"""Networks that torchao quantises: how often their votes differ from the original's, and what re-certification claims.

    python benchmarks/quantised_by_torchao.py

Needs `recert[demo,torchao]`. Prints the table of docs/your-own-model.md. Convolutions stay as they are: torchao changes linear layers.
"""

import copy
import time
from typing import Any

import numpy as np
import torch
from torchao import quantization
from torchao.quantization.granularity import PerGroup, PerTensor

import recert
from recert.choosing.costs import stored_bytes
from recert.data import load_data
from recert.models import load_model
from recert.sampling import Work, collect, open_source

INPUTS, CACHED, PASSES, COMPARED = 100, 10_000, 500, 500
NOISE = recert.Gaussian(0.5)

CONFIGURATIONS: dict[str, tuple[Any, int | None]] = {
    "Int8WeightOnlyConfig()": (quantization.Int8WeightOnlyConfig(), None),
    "Int8DynamicActivationInt8WeightConfig()": (quantization.Int8DynamicActivationInt8WeightConfig(), None),
    "the same, PerTensor()": (quantization.Int8DynamicActivationInt8WeightConfig(granularity=PerTensor()), 1),
    "IntxWeightOnlyConfig(int4, PerGroup(32))": (
        quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), None,
    ),
    "Int8DynamicActivationIntxWeightConfig(int4, PerGroup(32))": (
        quantization.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)), None,
    ),
    "Float8WeightOnlyConfig()": (quantization.Float8WeightOnlyConfig(), None),
}  # fmt: skip


def votes(model: torch.nn.Module, inputs: Any, batch_size: int | None) -> np.ndarray:
    """The first estimation votes of every input."""
    source = open_source(model, inputs, noise=NOISE, seed=0, batch_size=batch_size)
    works = [Work(i, recert.noise.Stream.ESTIMATION, range(COMPARED)) for i in range(len(inputs))]
    return np.stack([drawn.votes for drawn in collect(source, works, "comparing")])


def main() -> None:
    data = load_data("digits", count=INPUTS)
    assert data.labels is not None
    original = load_model("digits").model
    cache = recert.certify(original, data.inputs, noise=NOISE, samples=CACHED)
    before = votes(original, data.inputs, cache.manifest.batch_size)
    print(
        "| configuration | bytes | votes that differ | certified (cache) | radius (cache) | batch size | seconds |\n|---|---|---|---|---|---|---|"
    )
    for name, (configuration, batch_size) in {"the original": (None, None), **CONFIGURATIONS}.items():
        model = copy.deepcopy(original)
        if configuration is not None:
            quantization.quantize_(model, configuration)
        size = batch_size or cache.manifest.batch_size
        flips = float((votes(model, data.inputs, size) != before).mean())
        started = time.perf_counter()
        found = recert.recertify(model, data.inputs, cache, samples=PASSES, batch_size=size)
        seconds = time.perf_counter() - started
        claimed = cache.certificates
        print(
            f"| `{name}` | {stored_bytes(model):,} | {flips:.2%} | {found.certified.sum()} ({claimed.certified.sum()}) | "
            f"{found.average_certified_radius(data.labels):.3f} ({claimed.average_certified_radius(data.labels):.3f}) | {size} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
