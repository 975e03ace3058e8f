"""Runs each job in a forked child of this process, a few at a time."""

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Job = TypeVar("Job")
CRASHED = 70
ROOM = 6 * 2**30
"""Bytes that a child may take beyond what it begins with: a mutant may ask for absurd arrays."""


def run_forked(
    jobs: Iterable[Job], work: Callable[[Job], int], log: Callable[[Job], Path], workers: int
) -> Iterator[tuple[Job, int]]:
    """Each job with the exit code of its child; minus the signal's number if one ended it. Output goes to the log.

    Jobs are taken one by one as children become free.
    """
    running: dict[int, Job] = {}
    left = iter(jobs)
    try:
        while True:
            while len(running) < workers and (job := next(left, None)) is not None:
                running[_fork(job, work, log(job))] = job
            if not running:
                return
            pid, status = os.wait()
            if pid in running:
                _end_group(pid)  # what the child's tests may have left behind
                yield running.pop(pid), os.waitstatus_to_exitcode(status)
    finally:
        for pid in running:
            _end_group(pid)


def _fork(job: Job, work: Callable[[Job], int], log: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = CRASHED
    try:
        os.setsid()
        with open(log, "w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        _limit_memory()
        code = work(job)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without the parent's clean-up


def _limit_memory() -> None:
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
