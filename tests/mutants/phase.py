"""One phase of a run, in a process of its own: imports and collects once, then tests every mutant in a forked child."""

import doctest
import gc
import importlib
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.mutants.changes import Change
from tests.mutants.forks import CRASHED, run_forked
from tests.mutants.live import Live, NotApplicable, NotComputable
from tests.mutants.progress import Progress
from tests.mutants.suites import PACKAGE, SUITES, Suite, changes_in, paths_of_tests
from tests.mutants.testing import Known, Reports, first_failure, learn

SURVIVED, KILLED, NOT_APPLICABLE = 0, 1, 3
TIMEOUTS = (-signal.SIGPROF, -signal.SIGALRM)
OPTIONS = [
    "-q", "-s", "--no-header", "--no-summary", "--timeout=0", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:faulthandler",
]  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change, and the suite that is to find it."""

    suite: Suite
    change: Change


class Phase:
    """A pytest plugin that runs mutants in place of the tests that were collected."""

    def __init__(self, mutants: list[Mutant], workers: int, logs: Path, results: Path) -> None:
        self.mutants, self.workers, self.logs, self.results = mutants, workers, logs, results
        self.reports = Reports()
        self.began: dict[int, float] = {}
        self.kills: Counter[tuple[str, str]] = Counter()
        self.numbers = {id(mutant): i for i, mutant in enumerate(mutants)}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        session.config.pluginmanager.register(self.reports)
        suites = list(dict.fromkeys(mutant.suite for mutant in self.mutants))
        self.items = [item for item in session.items if any(suite.has(item.nodeid) for suite in suites)]
        self.live = Live(PACKAGE, "recert")
        if suites[0].compiled:
            self._load_compiled()
        self.live.forget()
        gc.collect()
        gc.freeze()  # so that children share the parent's memory
        self.known = self._learned()
        self._introduce(suites)
        self._run()
        return True

    def _load_compiled(self) -> None:
        """Have numba read its compiled functions from the disk once, not in every child."""
        for name in [name for name in sys.modules if name.startswith("recert.bounds.")]:
            doctest.testmod(sys.modules[name])

    def _learned(self) -> dict[str, Known]:
        """Two runs at once: one watches what is called, which is slow; the other measures the time."""
        folder = Path(tempfile.mkdtemp(dir=self.logs))

        def work(watch: bool) -> int:
            os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.mkdtemp(dir=folder)
            found = learn(self.items, self.reports, self.live.forget, watch=watch)
            (folder / f"{watch}.pickle").write_bytes(pickle.dumps(found))
            return 0

        for watch, code in run_forked([True, False], work, lambda watch: self.logs / f"learning-{watch}.txt", 2):
            if code != 0:
                sys.exit(f"learning what the tests call failed ({code}): see {self.logs}/learning-{watch}.txt")
        watched, timed = (pickle.loads((folder / f"{watch}.pickle").read_bytes()) for watch in (True, False))
        shutil.rmtree(folder)
        return {
            name: Known(watched[name].passed and timed[name].passed, timed[name].seconds, watched[name].called)
            for name in timed
        }

    def _introduce(self, suites: list[Suite]) -> None:
        for suite in suites:
            mine = [known for name, known in self.known.items() if suite.has(name)]
            count = sum(mutant.suite is suite for mutant in self.mutants)
            seconds = sum(known.seconds for known in mine)
            print(f"{suite.name}: {count} mutants; unmutated, {len(mine)} tests take {seconds:.1f} s", flush=True)
        slowest = sorted(self.known.items(), key=lambda pair: -pair[1].seconds)
        lines = [f"{known.seconds:8.2f} s  {name}\n" for name, known in slowest]
        (self.logs / f"tests-{suites[0].name}.txt").write_text("".join(lines))
        for name, known in slowest:
            if not known.passed:
                print(f"left out, since it fails without a mutant: {name}", flush=True)

    def _run(self) -> None:
        progress = Progress(len(self.mutants), self.workers)
        with open(self.results, "a", encoding="utf-8") as file:
            children = run_forked(self._begun(), self._test, self._log, self.workers)
            for mutant, code in children:
                result = self._result(mutant, code)
                progress.add(result)
                seconds = round(time.monotonic() - self.began[id(mutant)], 2)
                file.write(json.dumps({"key": mutant.change.key, "result": result, "seconds": seconds}) + "\n")
                file.flush()
                shutil.rmtree(self._log(mutant).with_suffix(""), ignore_errors=True)

    def _begun(self) -> Iterator[Mutant]:
        for mutant in self.mutants:
            self.began[id(mutant)] = time.monotonic()
            yield mutant

    def _result(self, mutant: Mutant, code: int) -> str:
        killer = self._log(mutant).with_suffix(".killer")
        if killer.exists():
            self.kills[_owner(mutant.change), killer.read_text()] += 1
            killer.unlink()
        if code == SURVIVED:
            return "survived" if self._tests(mutant) else "not covered"
        if code in TIMEOUTS:
            return "timeout"
        return {NOT_APPLICABLE: "not applicable", CRASHED: "error"}.get(code, "killed")

    def _log(self, mutant: Mutant) -> Path:
        return self.logs / f"{mutant.suite.name}-{self.numbers[id(mutant)]}.txt"

    def _test(self, mutant: Mutant) -> int:
        """In the child: whether a test fails with the mutant in place."""
        print(mutant.change.key, flush=True)
        folder = self._log(mutant).with_suffix("")
        folder.mkdir()
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        items = self._tests(mutant)
        try:
            self.live.apply(mutant.change)
        except NotApplicable as reason:
            print("not applicable:", reason)
            return NOT_APPLICABLE
        except NotComputable as reason:
            print("the module could not be imported:", reason)
            return KILLED
        killer = first_failure(items, self.reports, lambda name: self.known[name].seconds)
        if killer is None:
            return SURVIVED
        self._log(mutant).with_suffix(".killer").write_text(killer)
        return KILLED

    def _tests(self, mutant: Mutant) -> list[pytest.Item]:
        """Tests of the suite that call the mutated function: quick ones, and those that killed its other mutants, first."""
        owner = _owner(mutant.change)
        names = {item.nodeid: self.known[item.nodeid] for item in self.items if mutant.suite.has(item.nodeid)}
        useful = {name for name, known in names.items() if known.passed and name in self._reached[owner]}
        weight = {name: names[name].seconds / (1 + self.kills[owner, name]) ** 2 for name in useful}
        return sorted((item for item in self.items if item.nodeid in useful), key=lambda item: weight[item.nodeid])

    @cached_property
    def _reached(self) -> dict[str, set[str]]:
        """Tests by the mutated function that they call; of a constant, by any function that reads it."""
        found = {}
        for owner, change in {_owner(mutant.change): mutant.change for mutant in self.mutants}.items():
            codes = self.live.codes(change)
            found[owner] = {name for name, known in self.known.items() if codes & known.called}
        return found


def _owner(change: Change) -> str:
    """What is mutated: an outermost function (by its line, since methods may share a name), or a constant."""
    return f"{change.file} {change.where if change.outer is None else change.outer.lineno}"


def _import(mutants: list[Mutant]) -> None:
    for file in dict.fromkeys(mutant.change.file for mutant in mutants):
        importlib.import_module(".".join(("recert", *Path(file).with_suffix("").parts)).removesuffix(".__init__"))


def main(job: dict[str, Any]) -> None:
    """Run a job: mutants by name, of suites that all need compiled code or that all must not have it."""
    suites = [suite for suite in SUITES if suite.name in job["suites"]]
    wanted = set(job["keys"])
    mutants = [Mutant(suite, change) for suite in suites for change in changes_in(suite) if change.key in wanted]
    # No examples are kept for others' runs or made smaller, and each run draws the same.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", database=None, derandomize=True, phases=phases)
    hypothesis.settings.load_profile("mutants")
    _import(mutants)
    phase = Phase(mutants, job["workers"], Path(job["logs"]), Path(job["results"]))
    code = pytest.main([*OPTIONS, *paths_of_tests(suites)], plugins=[phase])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"tests could not be collected ({code})")


if __name__ == "__main__":
    main(json.loads(sys.stdin.read()))
