"""Seconds of `recertify`, beside the bare network's for the same passes and beside certifying anew for the same ACR.

    python benchmarks/recertification.py --device cuda --networks cifar-resnet20 --data cifar10:DIR --json r20.json
    python benchmarks/recertification.py --device cuda --networks cifar-resnet110,resnet50 --cells 10000,prune:0.1,300 --data cifar10:DIR
    python benchmarks/recertification.py --device cuda --data random --cells 10000,prune:0.1,300 --most-anew 1 --rounds 5    (a minute)
    python benchmarks/recertification.py --device cpu --networks digits --data digits --count 40 --cells 1000,prune:0.1,100 --no-compile

A cell is VOTES IN THE CACHE,CHANGE,PASSES PER INPUT. Each is measured with the runner-up bounded (two sides) and without. Models
are compiled and batch sizes found before; another budget is re-certified first, so that what a process does once (loading
compiled bounds) is not timed. `first` is the first re-certification of a cell, which makes the tables of its plan;
`wall`, `drawing` and `CPU` are medians of later rounds. `bare` is the same module on a batch that lies ready, as often as
its passes need.

Scratch certifies the changed network anew, with 100 selection votes, at 250 votes, 500 and so on until it reaches the ACR; between
two of these runs its votes are interpolated by their logarithm and its seconds by a straight line. `x passes` and
`x seconds` say how many times fewer re-certification takes; `kept` is what part of the saving in passes is one in seconds.

Without weights (neither shipped nor given) a network is random, with batch statistics and a last layer fitted to groups of the
noisy images, which are the labels then: it is about seconds, and its ACR says nothing of a trained network.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import recert
from recert.approximations import approximate
from recert.data import load_data
from recert.models.inference import PRECISIONS, prepare
from recert.models.loading import load_model
from recert.models.locuslab import ARCHITECTURES
from recert.models.registry import ENTRIES, build_model
from recert.sampling import Sampler

USUAL = "10000,bf16-weights,300 10000,prune:0.1,300 10000,prune:0.1,1000 10000,prune:0.2,300 100000,bf16-weights,1000 100000,bf16-weights,5000"
LARGE = "resnet50"
SELECTION = 500
ALPHA = 0.002
CERTIFICATES = {1: "one-sided", 2: "two-sided"}
FITTED_ON = 8
"""Noisy copies of each image that the last layer of a random network is fitted on."""


@dataclass(frozen=True)
class Cell:
    """Votes in the cache, what is changed, and passes per input."""

    cached: int
    change: str
    passes: int

    @classmethod
    def parse(cls, text: str) -> "Cell":
        cached, change, passes = text.split(",")
        return cls(int(cached), change, int(passes))


@dataclass(frozen=True)
class Images:
    """What is certified."""

    inputs: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Anew:
    """Certifying the changed network from scratch."""

    samples: int
    seconds: float
    radius: dict[int, float]
    """ACR by sides."""


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def images_for(name: str, options: argparse.Namespace) -> Images:
    if name != LARGE:
        if options.data == "random":
            return random_images(options.count, 32, 10)
        data = load_data(options.data, split="test")
    elif options.large_data:
        data = load_data(options.large_data)
    else:
        return random_images(options.large_count, 224, 1_000)
    count = options.large_count if name == LARGE else options.count
    chosen = np.arange(count) * (len(data.labels) // count)
    return Images(data.inputs[chosen], np.asarray(data.labels)[chosen])


def random_images(count: int, size: int, classes: int) -> Images:
    """Smooth ones, with labels in turn."""
    coarse = torch.rand(count, 3, max(4, size // 16), max(4, size // 16), generator=torch.Generator().manual_seed(0))
    fine = nn.functional.interpolate(coarse, size=size, mode="bicubic").clamp(0, 1).numpy()
    return Images(fine, np.arange(count) * 7 % classes)


def network_for(name: str, images: Images, options: argparse.Namespace) -> tuple[nn.Module, Images]:
    """The network, and the images with the labels that it is scored by."""
    weights = dict(each.split("=", 1) for each in options.weights)
    if name in weights:
        known = name in ENTRIES and weights[name].endswith(".safetensors")
        return load_model(f"{name}@{weights[name]}" if known else weights[name]).model.to(options.device), images
    if name in ENTRIES and any(float(sigma) == options.sigma for sigma in ENTRIES[name].sigmas):
        return load_model(f"{name}:{options.sigma}").model.to(options.device), images
    torch.manual_seed(0)
    network = (ARCHITECTURES[name].build() if name in ARCHITECTURES else build_model(name)).to(options.device)
    print(f"{name}: random weights", flush=True)
    return fitted(network, images, options)


def fitted(network: nn.Module, images: Images, options: argparse.Namespace) -> tuple[nn.Module, Images]:
    """A random network with batch statistics, and a last layer that tells groups of images apart which it finds alike.

    These groups are the labels, so that votes are about as split as a trained network's.
    """
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    seen: list[torch.Tensor] = []
    hook = last.register_forward_hook(lambda _, given, __: seen.append(given[0].double().cpu()))
    generator = torch.Generator().manual_seed(0)
    inputs = torch.from_numpy(images.inputs)

    def run(some: torch.Tensor) -> None:
        network((some + torch.randn(some.shape, generator=generator) * options.sigma).to(options.device))

    with torch.no_grad():
        network.train()
        for _ in range(30):  # running statistics have a momentum of .1
            run(inputs[:100])
        network.eval()
        seen.clear()
        for part in inputs.split(50):
            run(part.repeat_interleave(FITTED_ON, 0))
        hook.remove()
        features = torch.cat(seen)
        mean, scale = features.mean(0), features.std(0) + 1e-6
        scaled = (features - mean) / scale
        labels = groups(scaled.unflatten(0, (-1, FITTED_ON)).mean(1), min(last.out_features, 1 + len(inputs) // 12, 10))
        wanted = nn.functional.one_hot(labels.repeat_interleave(FITTED_ON), last.out_features).double()
        ridge = 1e-3 * len(scaled) * torch.eye(scaled.shape[1], dtype=torch.float64)
        solved = torch.linalg.solve(scaled.T @ scaled + ridge, scaled.T @ (wanted - wanted.mean(0))) / scale[:, None]
        last.weight.copy_(solved.T)
        last.bias.copy_(wanted.mean(0) - mean @ solved)
    return network, Images(images.inputs, labels.numpy())


def groups(points: torch.Tensor, number: int) -> torch.Tensor:
    """Which of so many groups of points each is in (k-means)."""
    centres = points[:: len(points) // number][:number].clone()
    for _ in range(20):
        nearest = torch.cdist(points, centres).argmin(1)
        for group in nearest.unique():
            centres[group] = points[nearest == group].mean(0)
    return nearest


class Bench:
    """One network: its caches, its changed networks and what certifying these anew costs."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.options, self.name = options, name
        self.noise = recert.Gaussian(options.sigma)
        self.network, self.images = network_for(name, images_for(name, options), options)
        self.source, _ = self._source(self.network, None)
        self.caches: dict[int, recert.Cache] = {}
        self.changed: dict[str, tuple[Sampler, nn.Module]] = {}
        self.anew: dict[str, list[Anew]] = {}

    def _source(self, network: nn.Module, batch_size: int | None) -> tuple[Sampler, nn.Module]:
        """Votes of a network, and the network as it is run."""
        options = self.options
        ready = prepare(network, precision=options.precision, compile=options.compile)
        return Sampler(ready, self.images.inputs, noise=self.noise, seed=0, batch_size=batch_size), ready

    def cache(self, samples: int) -> recert.Cache:
        if samples not in self.caches:
            started = time.perf_counter()
            self.caches[samples] = recert.certify(
                self.source, self.images.inputs, noise=self.noise, seed=0, samples=samples, selection_samples=SELECTION,
                alpha=ALPHA / 2, certificate="two-sided",
            )  # fmt: skip
            print(f"{self.name}: a cache of {samples:,} votes in {time.perf_counter() - started:.1f} s", flush=True)
        return self.caches[samples]

    def changed_to(self, change: str) -> tuple[Sampler, nn.Module]:
        if change not in self.changed:
            started = time.perf_counter()
            changed = approximate(self.network, change, example_input=self.images.inputs[:2]).model
            self.changed[change] = self._source(changed, self.source.batch_size)
            print(f"{self.name}: {change} ready after {time.perf_counter() - started:.1f} s", flush=True)
        return self.changed[change]

    def measured(self, cell: Cell, sides: int) -> dict[str, Any]:
        """Re-certification: the first time, and the median of later ones."""
        rounds = [self._once(cell, sides) for _ in range(self.options.rounds + 1)]
        later = {key: float(np.median([each[key] for each in rounds[1:]])) for key in rounds[0]}
        return {"first": rounds[0]["wall"], **later, "rounds": rounds}

    def _once(self, cell: Cell, sides: int) -> dict[str, float]:
        cache, source, device = self.cache(cell.cached), self.changed_to(cell.change)[0], self.options.device
        synchronize(device)
        started, cpu = time.perf_counter(), time.process_time()
        result = recert.recertify(
            source, self.images.inputs, cache, samples=cell.passes, alpha=ALPHA, certificate=CERTIFICATES[sides]
        )
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
        passes = int(result.forward_passes.sum())
        return {
            "wall": wall,
            "drawing": float(result.seconds.sum()),
            "CPU": cpu,
            "bare": self._bare(cell.change, passes),
            "passes": passes / len(self.images.labels),
            "ACR": result.average_certified_radius(self.images.labels),
        }

    def _bare(self, change: str, passes: int) -> float:
        options, (source, network) = self.options, self.changed_to(change)
        shape = (source.batch_size, *self.images.inputs.shape[1:])
        batch = torch.rand(shape, device=options.device, dtype=PRECISIONS[options.precision])
        batch = batch.to(memory_format=torch.channels_last)
        with torch.inference_mode():
            network(batch)
            synchronize(options.device)
            started = time.perf_counter()
            for _ in range(-(-passes // source.batch_size)):
                network(batch)
            synchronize(options.device)
        return time.perf_counter() - started

    def warm_up(self, cell: Cell) -> None:
        """Another budget, of all kinds of certificates: loads what is compiled, and makes no table of the cell's own plan."""
        for certificate in CERTIFICATES.values():
            recert.recertify(
                self.changed_to(cell.change)[0], self.images.inputs, self.cache(cell.cached), samples=max(40, cell.passes // 7),
                alpha=ALPHA * 0.9, certificate=certificate,
            )  # fmt: skip

    def scratch(self, change: str, radius: float, sides: int) -> dict[str, float]:
        """Votes and seconds that certifying anew needs for an ACR; nan if the largest run does not reach it."""
        runs = self.anew.setdefault(change, [])
        samples = 2 * runs[-1].samples if runs else 250
        while (not runs or runs[-1].radius[sides] < radius) and samples <= self.options.most_anew:
            runs.append(self._certified_anew(change, samples))
            samples *= 2
        reached = [i for i, run in enumerate(runs) if run.radius[sides] >= radius]
        if not reached or reached[0] == 0:
            return {"scratch n": runs[0].samples if reached else np.nan, "scratch s": runs[0].seconds if reached else np.nan}  # fmt: skip
        below, above = runs[reached[0] - 1], runs[reached[0]]
        share = (radius - below.radius[sides]) / (above.radius[sides] - below.radius[sides])
        needed = below.samples * (above.samples / below.samples) ** share
        part = (needed - below.samples) / (above.samples - below.samples)
        return {"scratch n": needed, "scratch s": below.seconds + part * (above.seconds - below.seconds)}

    def _certified_anew(self, change: str, samples: int) -> Anew:
        source, _ = self.changed_to(change)
        if not self.anew[change]:  # once without a clock
            recert.certify(source, self.images.inputs, noise=self.noise, samples=100, selection_samples=100)
        started = time.perf_counter()
        cache = recert.certify(
            source, self.images.inputs, noise=self.noise, seed=0, samples=samples, selection_samples=100, alpha=ALPHA,
            certificate="two-sided",
        )  # fmt: skip
        seconds = time.perf_counter() - started
        by_sides = {sides: cache.certify(alpha=ALPHA, certificate=kind) for sides, kind in CERTIFICATES.items()}
        radius = {sides: each.average_certified_radius(self.images.labels) for sides, each in by_sides.items()}
        return Anew(samples, seconds, radius)


def row_of(bench: Bench, cell: Cell, sides: int) -> dict[str, Any]:
    row = {"network": bench.name, **asdict(cell), "sides": sides, "batch": bench.source.batch_size}
    measured = bench.measured(cell, sides)
    scratch = bench.scratch(cell.change, measured["ACR"], sides)
    of_passes = (scratch["scratch n"] + 100) / (measured["passes"] or np.nan)
    of_seconds = scratch["scratch s"] / measured["wall"]
    row |= {"asked": cell.passes, **measured, **scratch, "of bare": measured["wall"] / (measured["bare"] or np.nan)}
    return {**row, "x passes": of_passes, "x seconds": of_seconds, "kept": of_seconds / of_passes}


HEADS = {
    "network": "", "cached": ",", "change": "", "asked": ",", "sides": "", "passes": ",.0f", "first": ".2f", "wall": ".2f",
    "drawing": ".2f", "CPU": ".1f", "bare": ".2f", "of bare": ".2f", "ACR": ".4f", "scratch n": ",.0f", "scratch s": ".2f",
    "x passes": ".2f", "x seconds": ".2f", "kept": ".2f",
}  # fmt: skip


def line(row: dict[str, Any]) -> str:
    return "| " + " | ".join(format(row[head], form) for head, form in HEADS.items()) + " |"


def cells_of(name: str, options: argparse.Namespace) -> Sequence[Cell]:
    """Those asked for; of larger networks, by default, only those with the smallest cache."""
    cells = [Cell.parse(text) for text in options.cells or USUAL.split()]
    smallest = min(cell.cached for cell in cells)
    return cells if options.cells or name == "cifar-resnet20" else [cell for cell in cells if cell.cached == smallest]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="cifar-resnet20", help="cifar-resnet20,cifar-resnet110,resnet50,digits")
    parser.add_argument("--weights", nargs="*", default=[], metavar="NETWORK=FILE")
    parser.add_argument("--cells", nargs="*", default=None, metavar="CACHED,CHANGE,PASSES")
    parser.add_argument("--sides", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--data", default="cifar10:data", help="or random: then ACR says nothing")
    parser.add_argument("--large-data", default=None, help="224 x 224 images; random ones if not given")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--large-count", type=int, default=120)
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default=None, help="tf32 on a GPU, fp32 on a CPU, unless given")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--rounds", type=int, default=2, help="after the first")
    parser.add_argument("--most-anew", type=int, default=128_000, help="votes of the largest run from scratch")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    cuda = options.device.startswith("cuda")
    options.precision = options.precision or ("tf32" if cuda else "fp32")
    rows = []
    for name in options.networks.split(","):
        bench = Bench(name, options)
        print(f"{name}: batches of {bench.source.batch_size}", flush=True)
        here = []
        for cell in cells_of(name, options):
            bench.warm_up(cell)
            for sides in options.sides:
                here.append(row_of(bench, cell, sides))
                print(line(here[-1]), flush=True)
                rows.append({**here[-1], "anew": [asdict(run) for run in bench.anew[cell.change]]})
                if options.json:
                    machine = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
                    with open(options.json, "w") as file:
                        about = {"machine": machine, "torch": torch.__version__, **vars(options)}
                        json.dump({**about, "rows": rows}, file, indent=1)
        print("\n| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
        print("\n".join(map(line, here)) + "\n", flush=True)


if __name__ == "__main__":
    main()
