"""CPU per input of the bounds behind re-certification, through the door that it uses itself: `Method.bound` on counts.

    python benchmarks/bounds.py [--cells 10000] [--methods joint] [--json new.json] [--before old.json]

Each input is a profile of class shares (Dirichlet). Its cached votes, and those of a modified network that votes anew on some
of the noises, are drawn from it, so that flips go into the class as often as out of it, and to every rival by its
share. Numbers of passes differ between inputs, as a plan makes them: those of its grid from a third to three times `replays`.
Inputs on which the original abstains are left out, and up to 64 inputs are bounded together, as re-certification does.
`count` is what choosing the noises and counting the votes takes. First of all four other inputs are bounded, untimed.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import recert
from recert import bounds
from recert.planning import Selected
from recert.planning.tables import passes_grid
from recert.recertification.auto import Auto
from recert.recertification.method import Bounds, Counts, Method, Terms

ALPHA = 0.002
SELECTION = 500
CONCENTRATION = {10: 1.0, 1_000: 3.0}
"""Of all classes together; with a total so small most of the votes are for one class, and a few rivals share the others."""
TOGETHER = 64
WARM_UP = 4
METHODS = {method.name: method for method in Auto.methods if method.name != "scratch-cached"}


@dataclass(frozen=True)
class Cell:
    """What is measured together."""

    samples: int
    classes: int
    replays: int
    flips: float
    sides: int
    method: str


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    for samples in options.cells:
        for classes in options.classes:
            for replays in options.replays:
                if replays > samples // 2:
                    continue
                for flips in options.flips:
                    for sides in options.sides:
                        for method in options.methods:
                            yield Cell(samples, classes, replays, flips, sides, method)


def profiles(cell: Cell, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Class shares of inputs on which the original is certain enough to be certified."""
    found: list[np.ndarray] = []
    while len(found) < wanted:
        shares = rng.dirichlet(np.full(cell.classes, CONCENTRATION.get(cell.classes, 2.0) / cell.classes))
        second, first = np.sort(shares)[-2:]
        error = ALPHA / cell.sides
        lower = bounds.clopper_pearson_lower(np.floor(first * cell.samples), cell.samples, error)
        rest = bounds.clopper_pearson_upper(np.ceil(second * cell.samples), cell.samples, error)
        if lower > (0.5 if cell.sides == 1 else min(rest, 1 - lower)):
            found.append(shares)
    return np.array(found)


def drawn(shares: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Votes from class shares."""
    votes = np.searchsorted(np.cumsum(shares)[:-1], rng.random(size), side="right")
    return votes.astype(np.uint8 if len(shares) <= 255 else np.uint16)


def counts_of(cell: Cell, wanted: int) -> tuple[list[Counts], Terms, float]:
    """Counts of so many inputs, and the CPU seconds that each took to count."""
    # The same inputs whatever their number, so that runs can be compared input by input.
    seeds = [cell.samples, cell.classes, cell.replays, round(1e4 * cell.flips), cell.sides]
    shares = profiles(cell, max(wanted, WARM_UP + TOGETHER), np.random.default_rng(seeds))
    # A vote that is drawn anew differs by chance from what it was: so often flips are as frequent as asked, in the mean.
    anew = min(1.0, cell.flips / float((1 - (shares**2).sum(axis=1)).mean()))
    largest = min(3 * cell.replays, cell.samples // 2)
    grid = passes_grid(cell.samples // 2)
    method: Method = METHODS[cell.method]
    terms = Terms(
        cell.samples, SELECTION, cell.classes, recert.Gaussian(1.0), ALPHA, ALPHA / 2,
        sides=cell.sides, flips=float(f"{anew:.1g}"), largest=largest,
    )  # fmt: skip
    found, seconds = [], 0.0
    for i, mine in enumerate(shares[:wanted]):
        rng = np.random.default_rng([*seeds, i])
        selection = rng.multinomial(SELECTION, mine)
        selected = Selected(selection, int(selection.argmax()), SELECTION)
        cached = drawn(mine, cell.samples, rng)
        changed = np.where(rng.random(cell.samples) < anew, drawn(mine, cell.samples, rng), cached)
        most = np.exp(rng.uniform(np.log(cell.replays / 3), np.log(largest)))
        passes = int(grid[max(0, np.searchsorted(grid, most, side="right") - 1)])
        if not found:
            method.noises(selected, cached, passes, terms)  # makes tables that all inputs share
        started = time.process_time()
        noises = method.noises(selected, cached, passes, terms)
        if noises is not None:
            found.append(method.count(noises, changed[noises.samples], terms))
        seconds += time.process_time() - started
    return found, terms, seconds / wanted


def bounded(method: Method, counts: Sequence[Counts], terms: Terms) -> list[Bounds]:
    blocks = [counts[start : start + TOGETHER] for start in range(0, len(counts), TOGETHER)]
    return [method.bound(block, terms) for block in blocks]


def measured(cell: Cell, inputs: int, seconds: float) -> dict[str, Any]:
    """Milliseconds per input, and what the bounds came to; fewer inputs where all would take longer than `seconds`."""
    counts, terms, counting = counts_of(cell, inputs + WARM_UP)
    method, warm, counts = METHODS[cell.method], counts[:WARM_UP], counts[WARM_UP:]
    method.bound(warm[:1], terms)
    started = time.process_time()
    bounded(method, warm[1:], terms)
    each = (time.process_time() - started) / max(1, len(warm) - 1)
    counts = counts[: max(4, int(seconds / max(each, 1e-9)))]
    started, at = time.process_time(), time.perf_counter()
    found = bounded(method, counts, terms)
    cpu, wall = time.process_time() - started, time.perf_counter() - at
    lower = np.concatenate([each.top_lower for each in found])
    upper = [1 - each.top_lower if each.runner_up_upper is None else each.runner_up_upper for each in found]
    return {
        "inputs": len(counts),
        "ms": 1000 * cpu / len(counts),
        "wall_ms": 1000 * wall / len(counts),
        "count_ms": 1000 * counting,
        "questions": float(np.mean([len(each.arguments) for each in counts])),
        "lower": lower.tolist(),
        "upper": np.minimum(np.concatenate(upper), 1 - lower).tolist(),
    }


def compared(row: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """What it took before, and what the bounds gained on the inputs that both runs had."""
    both = min(row["inputs"], before["inputs"])
    lower, upper = (np.array(row[end][:both]) - before[end][:both] for end in ("lower", "upper"))
    return [f"{before['ms']:.3f}", f"{before['ms'] / row['ms']:.1f}", f"{lower.mean():+.6f}", f"{-upper.mean():+.6f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="votes in the cache")
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 1_000])
    parser.add_argument("--replays", type=int, nargs="+", default=[100, 1_000, 5_000, 20_000])
    parser.add_argument("--flips", type=float, nargs="+", default=[0.001, 0.01, 0.06])
    parser.add_argument("--sides", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--inputs", type=int, default=TOGETHER)
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU of one cell; slower cells have fewer inputs")
    parser.add_argument("--cores", type=int, default=None, help="use no more than so many")
    parser.add_argument("--json", default=None)
    parser.add_argument("--before", default=None, help="the JSON of an earlier run, to compare with")
    options = parser.parse_args()
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    before = {}
    if options.before:
        with open(options.before) as file:
            before = {Cell(**row["cell"]): row for row in json.load(file)}
    # Compile, or load what was compiled.
    for name in options.methods:
        measured(Cell(1_000, 10, 100, 0.01, 2, name), 4, 1.0)
    heads = ("n", "classes", "replays", "flips", "sides", "method", "inputs", "questions", "CPU ms", "wall ms", "count ms", "lower", "upper")  # fmt: skip
    heads += ("before ms", "times", "lower gained", "upper gained") if before else ()
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    rows = []
    for cell in cells(options):
        row = measured(cell, options.inputs, options.seconds)
        rows.append({"cell": asdict(cell), **row})
        words = [f"{cell.samples:,}", f"{cell.classes:,}", f"{cell.replays:,}", f"{cell.flips:g}", str(cell.sides), cell.method]  # fmt: skip
        words += [
            f"{row['inputs']}",
            f"{row['questions']:.1f}",
            *(f"{row[k]:.3f}" for k in ("ms", "wall_ms", "count_ms")),
        ]
        words += [f"{np.mean(row['lower']):.5f}", f"{np.mean(row['upper']):.5f}"]
        if cell in before:
            words += compared(row, before[cell])
        print("| " + " | ".join(words) + " |", flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
