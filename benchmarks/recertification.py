"""Wall time of `recertify` against the bare network on as many samples: drawing, planning and bounds, after warm-up.

    python benchmarks/recertification.py --device cuda --model cifar-resnet110@FILE --noise gaussian:0.5 --data cifar10:DIR --precision tf32

The changed network is pruned by 10% and runs in the same precision; the cache is made first and not timed.
"""

import argparse
import json
import time

import torch

import recert
import recert.sampling
from recert.approximations import approximate
from recert.data import load_data
from recert.models.inference import PRECISIONS, prepare
from recert.models.loading import load_model
from recert.noise import parse_noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--noise", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--cached", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    data = load_data(options.data, split="test", every=10_000 // options.count, count=options.count)
    network = load_model(options.model).model.to(options.device)
    changed = approximate(network, "prune:0.1", example_input=data.inputs[:2]).model
    base, changed = (prepare(m, precision=options.precision, compile=True) for m in (network, changed))
    cache = recert.certify(
        base, data.inputs, noise=parse_noise(options.noise), samples=options.cached, selection_samples=500
    )
    size = cache.manifest.batch_size
    assert size is not None
    batch = torch.rand(size, *data.inputs.shape[1:], device=options.device, dtype=PRECISIONS[options.precision])
    batch = batch.to(memory_format=torch.channels_last)
    rounds = []
    for number in range(options.rounds + 1):
        source = recert.sampling.Sampler(
            changed, data.inputs, noise=parse_noise(options.noise), seed=0, batch_size=size
        )
        torch.cuda.synchronize()
        started = time.perf_counter()
        result = recert.recertify(source, data.inputs, cache, samples=options.samples)
        ours = time.perf_counter() - started
        passes = int(result.forward_passes.sum())
        started = time.perf_counter()
        with torch.inference_mode():
            for _ in range(-(-options.samples * options.count // size)):
                changed(batch)
        torch.cuda.synchronize()
        bare = time.perf_counter() - started
        if number:  # the first warms up
            rounds.append(
                {
                    "recertify": ours,
                    "bare": bare,
                    "ratio": ours / bare,
                    "passes": passes,
                    "drawing": float(result.seconds.sum()),
                }
            )
            print(json.dumps(rounds[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({**vars(options), "batch": size, "rounds": rounds}, file, indent=1)


if __name__ == "__main__":
    main()
