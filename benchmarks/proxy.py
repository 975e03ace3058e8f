"""Certifying a network directly against certifying it by proxy: wall time and average certified radius, in one run.

    python benchmarks/proxy.py --device cuda --model cifar-resnet110@FILE --noise gaussian:0.5 --data cifar10:DIR --count 12
    python benchmarks/proxy.py --device cpu --model cifar-resnet20:0.5 --noise gaussian:0.5 --data cifar10:DIR --count 4 --samples 20000

On a GPU: fp16 for strict float32 (and for TF32 with --direct fp32,tf32), every arm compiled and channels-last, after warm-up.
On a CPU: int8 in onnxruntime for float32 in torch, channels-last; and for float32 in onnxruntime.
"""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn

import recert
from recert.data import load_data
from recert.models.inference import prepare
from recert.models.loading import load_model
from recert.models.onnx_export import to_onnxruntime
from recert.noise import parse_noise
from recert.proxy import proxy_of


def arms(options: argparse.Namespace, inputs: np.ndarray) -> dict[str, tuple[nn.Module, nn.Module]]:
    """By name: the network that is certified, and its proxy."""
    network = load_model(options.model).model.to(options.device)
    noise = parse_noise(options.noise)
    if options.device.startswith("cuda"):
        stand_in = prepare(network, precision=options.proxy or "fp16", compile=True)
        return {name: (prepare(network, precision=name, compile=True), stand_in) for name in options.direct.split(",")}
    stand_in, _ = proxy_of(network, options.proxy or "int8", inputs, noise, 0)
    return {"torch": (prepare(network), stand_in), "onnxruntime": (to_onnxruntime(network, inputs[:2]), stand_in)}


def timed(
    model: nn.Module, inputs: np.ndarray, options: argparse.Namespace, **how: object
) -> tuple[float, recert.Certificates]:
    started = time.perf_counter()
    verb = recert.certify_by_proxy if how else recert.certify
    done = verb(
        model,
        inputs,
        noise=parse_noise(options.noise),
        samples=options.samples,
        alpha=0.001,
        selection_samples=options.selection_samples,
        **how,
    )
    return time.perf_counter() - started, done.certificates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--noise", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--direct", default="fp32", help="on a GPU: precision of the network that is certified")
    parser.add_argument("--proxy", default=None)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--selection-samples", type=int, default=500)
    parser.add_argument(
        "--transfer", default=None, help="own passes per input, several by commas; as usual if not given"
    )
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    data = load_data(options.data, split="test", every=10_000 // options.count, count=options.count)
    transfers = [None] if options.transfer is None else [int(each) for each in options.transfer.split(",")]
    rows = []
    for name, (model, stand_in) in arms(options, data.inputs).items():
        for network in (model, stand_in):  # compile, find batch sizes, compile the bounds
            recert.certify(network, data.inputs[:1], noise=parse_noise(options.noise), samples=1_000)
        timed(model, data.inputs[:1], argparse.Namespace(**{**vars(options), "samples": 2_000}), proxy=stand_in)
        direct_seconds, direct = timed(model, data.inputs, options)
        for transfer in transfers:
            seconds, by_proxy = timed(model, data.inputs, options, proxy=stand_in, transfer=transfer)
            acr = [r.average_certified_radius(data.labels) for r in (direct, by_proxy)]
            rows.append({
                "certified": name, "direct seconds": direct_seconds, "proxy seconds": seconds, "speed-up": direct_seconds / seconds,
                "direct ACR": acr[0], "proxy ACR": acr[1], "ACR ratio": acr[1] / acr[0], "own passes per input": by_proxy.mean_forward_passes,
                "flips": float(by_proxy.lost.sum() / max(1, (by_proxy.lost + by_proxy.kept).sum())),
                "direct radii": direct.radius.round(4).tolist(), "proxy radii": by_proxy.radius.round(4).tolist(),
            })  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({**vars(options), "torch": torch.__version__, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
