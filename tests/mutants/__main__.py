"""Change the library in small ways and see whether a test notices: python -m tests.mutants --help."""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from difflib import unified_diff
from pathlib import Path

from tests.mutants import explained
from tests.mutants.changes import Change
from tests.mutants.report import Found, keys_in
from tests.mutants.suites import REPOSITORY, SUITES, Suite, changes_in


def main() -> int:
    options = _options()
    mutants = {suite: changes_in(suite) for suite in SUITES}
    every = {change.key: change.line for changes in mutants.values() for change in changes}
    written = explained.read()
    reasons = explained.for_each(written, every)
    chosen = _chosen(mutants, options, reasons)
    if options.list:
        return _list(mutants, chosen)
    if options.show is not None:
        print(_difference([change for changes in mutants.values() for change in changes][options.show]))
        return 0
    logs = Path(options.logs or tempfile.mkdtemp(prefix="mutants-"))
    logs.mkdir(parents=True, exist_ok=True)
    results = _run(chosen, options.workers, logs.resolve())
    found = Found(results, every, reasons)
    found.write(Path(options.report))
    print(found.table())
    for key in explained.stale(written, every):
        print(f"stale, no such mutant: {key}")
    for key in set(found.explained_yet_killed) & set(written):
        print(f"explained, yet killed: {key}")
    if len(results) < len(chosen):
        print(f"broken off: {len(chosen) - len(results)} mutants were not run")
    print(f"{len(found.unexplained)} survivors without an explanation: see {options.report}; logs in {logs}")
    return 1 if found.unexplained or found.having("error") or len(results) < len(chosen) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="PREFIX",
        action="append",
        help="mutants of files below src/recert that begin so; may be repeated",
    )
    parser.add_argument("--sample", metavar="N", type=int, help="so many of them, drawn at random")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="of that draw")
    parser.add_argument("--again", metavar="FILE", help="only mutants that an earlier report lists")
    parser.add_argument(
        "--unexplained", action="store_true", help="leave out mutants that explained_survivors/*.txt explain"
    )
    parser.add_argument("--workers", metavar="N", type=int, default=2, help="mutants at a time")
    parser.add_argument("--list", action="store_true", help="name the mutants and count them; run none")
    parser.add_argument("--show", metavar="N", type=int, help="what the mutant of this number changes; run none")
    parser.add_argument("--report", metavar="FILE", default="mutants-report.txt", help="where survivors are listed")
    parser.add_argument("--logs", metavar="FOLDER", help="where every mutant's test output is kept")
    return parser.parse_args()


def _chosen(
    mutants: dict[Suite, list[Change]], options: argparse.Namespace, reasons: dict[str, str]
) -> dict[str, Suite]:
    """Names of the mutants to run, with their suites."""
    chosen = {change.key: suite for suite, changes in mutants.items() for change in changes}
    chosen = {key: suite for key, suite in chosen.items() if key.startswith(tuple(options.only or [""]))}
    if options.again:
        again = set(keys_in(Path(options.again)))
        chosen = {key: suite for key, suite in chosen.items() if key in again}
    if options.unexplained:
        chosen = {key: suite for key, suite in chosen.items() if key not in reasons}
    if options.sample is not None and options.sample < len(chosen):
        drawn = random.Random(options.seed).sample(sorted(chosen), options.sample)
        chosen = {key: chosen[key] for key in drawn}
    return chosen


def _list(mutants: dict[Suite, list[Change]], chosen: dict[str, Suite]) -> int:
    every = [change for changes in mutants.values() for change in changes]
    for number, change in enumerate(every):
        if change.key in chosen:
            print(f"{number:>5} {change.key}  # line {change.line}")
    for package, count in Counter(key.split()[0].split("/")[0] for key in chosen).items():
        print(f"{package:<18}{count:>6}")
    print(f"{'all':<18}{len(chosen):>6}")
    return 0


def _difference(change: Change) -> str:
    """Lines that the mutant changes, of source as Python writes it."""
    before = ast.unparse(change.tree).splitlines()
    with change.made() as tree:
        after = ast.unparse(tree).splitlines()
    lines = list(unified_diff(before, after, change.file, change.file, lineterm="", n=2))
    return "\n".join([f"{change.key}  # line {change.line}", *lines])


def _run(chosen: dict[str, Suite], workers: int, logs: Path) -> dict[str, str]:
    """Results by mutant: suites that need compiled code in one process, those that must not have it in another."""
    file = logs / "results.jsonl"
    file.unlink(missing_ok=True)
    for compiled in (True, False):
        keys = [key for key, suite in chosen.items() if suite.compiled is compiled]
        if not keys:
            continue
        suites = sorted({chosen[key].name for key in keys})
        job = {"keys": keys, "suites": suites, "workers": workers, "logs": str(logs), "results": str(file)}
        environment = {**os.environ, "NUMBA_DISABLE_JIT": str(int(not compiled)), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.mutants.phase"]
        # What a phase that breaks off has found is reported all the same; the rest is missing, so the run fails.
        subprocess.run(command, input=json.dumps(job), text=True, cwd=REPOSITORY, env=environment, check=False)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {line["key"]: line["result"] for line in map(json.loads, lines)}


if __name__ == "__main__":
    sys.exit(main())
