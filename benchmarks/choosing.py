"""`select` against certifying every candidate from scratch: the winner of both, and the forward passes of both.

    python benchmarks/choosing.py VOTES.npz --model digits --data digits --count 100 --samples 2000
    python benchmarks/choosing.py VOTES.npz --metric accuracy:0.5 --tolerance 0.02

The first call draws the votes of the original and of every candidate (each certified from scratch, in stores beside VOTES.npz, so that
a killed run continues) and keeps them; when the file is there, nothing is drawn. `select` then runs on the recorded votes, and is
charged for those that it looks at.
"""

import argparse
from pathlib import Path

import numpy as np
from torch import nn

import recert
from recert.choosing import Chosen
from recert.choosing.costs import stored_bytes
from recert.data import Dataset, load_data
from recert.noise import Stream, input_digest

CANDIDATES = (
    "int8,bf16,prune:0.1,prune:0.2,prune:0.3,prune:0.4,prune:0.5,prune:0.6,prune:0.7,prune:0.8,prune:0.9,prune:0.5+int8"
)
SELECTION = 100
ALPHA = 0.002
"""Of the candidates; the original has half of it, and so has the first finalist."""


def made(model: nn.Module, spec: str, data: Dataset, options: argparse.Namespace) -> nn.Module:
    from recert.approximations import Calibration, approximate

    noise = recert.Gaussian(options.sigma)
    calibration = Calibration(load_data(options.data, split="train", count=256).inputs, noise=noise)
    return approximate(model, spec, calibration=calibration, example_input=data.inputs[:2]).model


def draw(path: Path, options: argparse.Namespace) -> None:
    """Certify the original and every candidate from scratch, and keep the votes and the costs."""
    from recert.models import load_model

    data = load_data(options.data, every=options.every, count=options.count)
    original = load_model(options.model).model.to(options.device)
    kept: dict[str, np.ndarray] = {"labels": np.asarray(data.labels), "sigma": np.array(options.sigma)}
    for spec in ("original", *options.candidates.split(",")):
        model = original if spec == "original" else made(original, spec, data, options)
        cache = recert.certify(
            model, data.inputs, noise=recert.Gaussian(options.sigma), samples=options.samples, selection_samples=SELECTION,
            store=path.with_suffix("") / spec.replace(":", "-"), batch_size=options.batch_size,
        )  # fmt: skip
        digests = [input_digest(x) for x in data.inputs]
        for stream in (Stream.SELECTION, Stream.ESTIMATION):
            kept[f"{spec}|{stream.name}"] = np.stack([cache.votes(digest, stream) for digest in digests])
        kept[f"{spec}|bytes"] = np.array(stored_bytes(model))
        print(f"drew {spec}", flush=True)
    np.savez_compressed(path, **kept)


def stored(data: "np.lib.npyio.NpzFile", spec: str) -> recert.StoredVotes:
    estimation, selection = (
        data[f"{spec}|{stream.name}"].astype(int) for stream in (Stream.ESTIMATION, Stream.SELECTION)
    )
    classes = 1 + max(int(v[v < 255].max()) for v in (estimation, selection))
    votes = (np.where(v == 255, -1, v) for v in (estimation, selection))
    return recert.StoredVotes(next(votes), selection=next(votes), classes=classes)


def compare(path: Path, metric: str, tolerance: float, samples: int | None) -> None:
    data = np.load(path)
    labels, noise = data["labels"], recert.Gaussian(float(data["sigma"]))
    names = [key.removesuffix("|bytes") for key in data if key.endswith("|bytes") and not key.startswith("original|")]
    n = data["original|ESTIMATION"].shape[1]
    candidates = {name: stored(data, name) for name in names}
    cache = recert.certify(
        stored(data, "original"), None, noise=noise, samples=n, selection_samples=SELECTION, alpha=ALPHA / 2
    )
    costs = {name: float(data[f"{name}|bytes"]) for name in names}
    chosen = recert.select(
        candidates, None, cache, labels, metric=metric, tolerance=tolerance, cost=costs, alpha=ALPHA, samples=samples
    )

    original = cache.certificates
    reached = original.radius >= (0.0 if metric == "acr" else float(metric.partition(":")[2]))
    right = original.certified & (original.prediction == labels) & reached

    def scratch(name: str, alpha: float, *, only_right: bool = False) -> float:
        """From scratch; or counting only inputs that count for the original: re-certification finds hardly any others."""
        result = recert.certify(
            candidates[name], None, noise=noise, samples=n, selection_samples=SELECTION, alpha=alpha
        ).certificates
        known = np.where(right, labels, -2) if only_right else labels
        if metric == "acr":
            return result.average_certified_radius(known)
        return float(result.certified_accuracy(known, float(metric.partition(":")[2])))

    print(f"{len(labels)} inputs, n = {n}, {metric}: original {chosen.base:.4f}, target {chosen.target:.4f}")
    print(
        f"{'candidate':16}{'bytes':>10}{'scratch':>10}{'no gains':>10}{'predicted':>11}{'certified':>11}{'race':>7}{'final':>7}  status"
    )
    exact = {name: scratch(name, ALPHA) for name in names}
    kept = {name: scratch(name, ALPHA, only_right=True) for name in names}
    for e in chosen.entries:
        certified = "-" if e.certified is None else f"{e.certified:.4f}"
        passes = f"{e.race_passes / len(labels):7.0f}{e.final_passes / len(labels):7.0f}"
        print(
            f"{e.name:16}{e.cost:10.0f}{exact[e.name]:10.4f}{kept[e.name]:10.4f}{e.predicted:11.4f}{certified:>11}{passes}  {e.status.value}"
        )
    summarise(chosen, exact, kept, {name: scratch(name, ALPHA / len(names)) for name in names})


def summarise(chosen: Chosen, exact: dict[str, float], kept: dict[str, float], divided: dict[str, float]) -> None:
    order = [entry.name for entry in chosen.entries]

    def winner(scores: dict[str, float]) -> str | None:
        return next((name for name in order if scores[name] >= chosen.target - 1e-9), None)

    each = chosen.exhaustive_passes // len(order)
    until = each * (1 + order.index(winner(exact) or order[-1]))
    print(
        f"winner: {chosen.winner}; from scratch: {winner(exact)}; without gains on inputs that do not count for the original: {winner(kept)}; from scratch at alpha / {len(order)}: {winner(divided)}"
    )
    print(
        f"forward passes: {chosen.passes:,}; all from scratch {chosen.exhaustive_passes:,} ({chosen.passes / chosen.exhaustive_passes:.2%} of that); "
        f"from scratch in order of cost until one is good {until:,} ({chosen.passes / until:.2%})"
    )
    total = chosen.passes + chosen.base_passes
    print(
        f"with the original's {chosen.base_passes:,} on both sides: {total / (chosen.exhaustive_passes + chosen.base_passes):.2%}; on our side alone: "
        f"{total / chosen.exhaustive_passes:.2%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("votes", type=Path)
    parser.add_argument("--model", default="digits")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument(
        "--samples", type=int, default=2_000, help="votes per input, of the original and of each candidate"
    )
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--device", default="cpu", help="on a GPU, int8-twin stands for int8")
    parser.add_argument("--candidates", default=CANDIDATES)
    parser.add_argument("--metric", default="accuracy:0.5")
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--final-samples", type=int, help="forward passes per input of a finalist")
    options = parser.parse_args()
    if not options.votes.exists():
        draw(options.votes, options)
    compare(options.votes, options.metric, options.tolerance, options.final_samples)


if __name__ == "__main__":
    main()
