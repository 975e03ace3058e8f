"""What consistency brings a shipped network, at the same number of epochs: accuracy under noise, average certified radius, certified accuracy.

    python benchmarks/consistency.py --network cifar-resnet20 --data cifar10:DIR --sigma 0.5 --epochs 40 --strengths 0,10 --device cuda
    python benchmarks/consistency.py --network digits --data digits --sigma 0.5 --epochs 100 --strengths 0,1,2,5,10

A row for each strength (lambda of Jeong and Shin, 2020; 0: without). Certificates are two-sided, of evenly spread test images, from n votes, alpha .001. A training
that was stopped goes on when the same is run again with the same --out; a row that is there is not made again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import recert
from recert.data import load_data
from recert.training import RECIPES

RADII = (0.25, 0.5, 1.0)
HEADERS = ("consistency", "accuracy under noise", "ACR", *(f"right at {radius:g}" for radius in RADII), "seconds")


def row(wanted: argparse.Namespace, strength: float) -> dict[str, Any]:
    noise, out = recert.Gaussian(wanted.sigma), wanted.out / f"consistency-{strength:g}"
    trained = recert.train(
        wanted.network, wanted.data, noise, test=wanted.data, epochs=wanted.epochs, consistency=strength, device=wanted.device, out=out,
        progress=True,
    )  # fmt: skip
    every = max(1, len(load_data(wanted.data)) // wanted.images)
    test = load_data(wanted.data, every=every, count=wanted.images)
    precision = "tf32" if wanted.device.startswith("cuda") else None
    network = recert.prepare(trained.model, precision=precision)
    found = recert.certify(
        network, test.inputs, noise=noise, samples=wanted.samples, selection_samples=100
    ).certificates
    shares = found.certified_accuracy(test.labels, RADII)
    return {
        "consistency": f"{strength:g}",
        "accuracy under noise": f"{trained.card.noisy_test_accuracy:.1%}",
        "ACR": f"{found.average_certified_radius(test.labels):.3f}",
        **{f"right at {radius:g}": f"{share:.1%}" for radius, share in zip(RADII, shares, strict=True)},
        "seconds": f"{trained.card.seconds:.0f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=sorted(RECIPES), default="digits")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--strengths", default="0,10")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("runs/consistency"))
    wanted = parser.parse_args()
    asked = {name: str(value) for name, value in vars(wanted).items() if name not in ("strengths", "out", "device")}
    print(f"| {' | '.join(HEADERS)} |\n|{'---|' * len(HEADERS)}", flush=True)
    for strength in map(float, wanted.strengths.split(",")):
        file = wanted.out / f"consistency-{strength:g}" / "row.json"
        made = json.loads(file.read_text()) if file.exists() else {}
        if made.get("asked") != asked:
            made = {"asked": asked, "row": row(wanted, strength)}
            file.write_text(json.dumps(made, indent=1) + "\n")
        print(f"| {' | '.join(made['row'][name] for name in HEADERS)} |", flush=True)


if __name__ == "__main__":
    main()
