"""Seconds from the start of a process to its first vote and to its certificates, and what each second is.

    python benchmarks/start.py
    python benchmarks/start.py --device cuda --model cifar-resnet20 --images 64 --precision tf32 --compile --rounds 3

A cache is certified first, in a process of its own. Then a changed network is re-certified in fresh processes, by a Python script and
by the command line. The first round of each finds nothing kept: no machine code of numba, no code of torch.compile. Later rounds find
what the first has kept. Times are wall clock since before Python was started; `cpu` is user and system time.
"""

import argparse
import importlib
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

STARTED = "RECERT_BENCHMARK_STARTED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="digits")
    parser.add_argument("--change", default="prune:0.1")
    parser.add_argument("--data", default=None, help="random images unless given, or digits for the digits network")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--cached", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--precision", default=None)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--child", choices=("certify", "recertify"), default=None, help=argparse.SUPPRESS)
    parser.add_argument("--store", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.data = options.data or ("digits" if options.model.startswith("digits") else None)
    if options.child:
        print(json.dumps(child(options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        results = measured(options, Path(folder))
    show(results)
    if options.json:
        options.json.write_text(json.dumps({"options": {**vars(options), "json": None}, "seconds": results}, indent=1))


def measured(options: argparse.Namespace, folder: Path) -> dict[str, list[dict[str, float]]]:
    """Rounds of every way to start, each a mapping from what was waited for to seconds."""
    if options.data is None:
        options.data = str(random_images(options.model, options.images, folder))
    store = str(folder / "store")
    results: dict[str, list[dict[str, float]]] = {"certify": [], "recertify": [], "command": []}
    for way, rounds in results.items():
        # Nothing is kept from other ways, or from before.
        kept = {"NUMBA_CACHE_DIR": str(folder / way / "numba"), "TORCHINDUCTOR_CACHE_DIR": str(folder / way / "torch")}
        for _ in range(options.rounds + 1):
            if way == "certify":
                shutil.rmtree(store, ignore_errors=True)
            shutil.rmtree(f"{store}.replays", ignore_errors=True)
            call = command(options, store) if way == "command" else [sys.executable, __file__, *again(options), "--child", way, "--store", store]  # fmt: skip
            rounds.append(run(call, kept, way == "command"))
            print(f"{way}: {rounds[-1]}", file=sys.stderr, flush=True)
    return results


def run(call: list[str], kept: dict[str, str], is_command: bool) -> dict[str, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run(call, env={**os.environ, **kept, STARTED: repr(started)}, capture_output=True, text=True)
    wall, after = time.time() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if is_command:
        said = re.search(r"first votes ([\d.]+) s", done.stderr)
        parts = {"first vote": float(said[1])} if said else {}
    else:
        parts = json.loads(done.stdout.splitlines()[-1])
    return {**parts, "process": round(wall, 3), "cpu": round(cpu, 3)}


def command(options: argparse.Namespace, store: str) -> list[str]:
    precision = ["--precision", options.precision] if options.precision else []
    return [
        sys.executable, "-m", "recert", "recertify", "--store", store, "--model", options.model, "--approximation", options.change,
        "--data", options.data, "--count", str(options.images), "--samples", str(options.samples), "--device", options.device,
        *precision, *(["--compile"] if options.compile else []),
    ]  # fmt: skip


def again(options: argparse.Namespace) -> list[str]:
    """The options, for a child."""
    names = ("device", "model", "change", "data", "images", "cached", "samples", "precision")
    given = [part for name in names if getattr(options, name) is not None for part in (f"--{name}", str(getattr(options, name)))]  # fmt: skip
    return [*given, *(["--compile"] if options.compile else [])]


def random_images(model: str, count: int, folder: Path) -> Path:
    import numpy as np

    from recert.models.registry import ENTRIES

    name = model.partition(":")[0].partition("@")[0]
    shape = ENTRIES[name].input_shape if name in ENTRIES else (3, 224, 224)
    images = np.random.default_rng(0).random((count, *shape), dtype=np.float32)
    path = folder / "images.npz"
    np.savez(path, inputs=images)
    return path


class Clock:
    """Seconds of one step after another, since before the process was started; and of functions inside of steps."""

    def __init__(self) -> None:
        self._last = float(os.environ[STARTED])
        self._began = self._last
        self.seconds: dict[str, float] = {}
        self.step("python")

    def step(self, name: str) -> None:
        now = time.time()
        self.seconds[name] = round(now - self._last, 3)
        self._last = now

    def mark(self, name: str) -> None:
        """When something happened for the first time."""
        self.seconds.setdefault(name, round(time.time() - self._began, 3))

    def watch(self, owner: Any, name: str, label: str) -> None:
        """Sum up what the calls of a function take."""
        function: Callable[..., Any] = getattr(owner, name)

        @wraps(function)
        def timed(*args: Any, **keywords: Any) -> Any:
            started = time.time()
            try:
                return function(*args, **keywords)
            finally:
                self.seconds[label] = round(self.seconds.get(label, 0.0) + time.time() - started, 3)

        setattr(owner, name, timed)


def child(options: argparse.Namespace) -> dict[str, float]:
    """One process: imports, then reading, then the verb. What is watched lies inside of other steps."""
    clock = Clock()
    for name in ("numpy", "pyarrow.parquet", "scipy.special"):
        importlib.import_module(name)
        clock.step(f"import {name.partition('.')[0]}")
    import numba.core.base
    import numba.core.caching

    clock.step("import numba")
    import torch

    clock.step("import torch")
    import recert
    import recert.recertification.run as steps
    from recert.approximations import approximate
    from recert.data import load_data
    from recert.models.loading import load_model
    from recert.sampling import sampler

    clock.step("import recert")
    clock.watch(numba.core.base.BaseContext, "refresh", "of which numba's registries")
    clock.watch(numba.core.caching.Cache, "load_overload", "of which machine code, registries included")
    clock.watch(sampler, "probe", "of which probing the network")
    clock.watch(steps, "choose", "of which planning")

    def progress(event: recert.Progress) -> None:
        if event.done:
            clock.mark("first vote")

    data = load_data(options.data, count=options.images)
    network = load_model(options.model).model.to(options.device)
    if options.device != "cpu":
        torch.cuda.synchronize()
    clock.step("read data and model")
    execution = recert.Execution(precision=options.precision, compile=options.compile, progress=progress)
    if options.child == "certify":
        recert.certify(
            network, data.inputs, noise=recert.Gaussian(0.5), samples=options.cached, store=options.store, execution=execution
        )  # fmt: skip
    else:
        cache = recert.Cache.open(options.store)
        clock.step("open the cache")
        changed = approximate(network, options.change, example_input=data.inputs[:2]).model
        clock.step("change the network")
        recert.recertify(changed, data.inputs, cache, samples=options.samples, execution=execution)
    clock.step(options.child)
    clock.mark("certificates")
    return clock.seconds


def show(results: dict[str, list[dict[str, float]]]) -> None:
    for way, rounds in results.items():
        print(f"\n{way}: nothing kept | median of {len(rounds) - 1} | fastest")
        for name in rounds[0]:
            later = [each[name] for each in rounds[1:] if name in each] or [float("nan")]
            print(f"  {name:45} {rounds[0][name]:8.2f} {statistics.median(later):8.2f} {min(later):8.2f}")


if __name__ == "__main__":
    main()
