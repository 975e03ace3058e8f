"""Runs collected tests in this process: first to learn what each calls and how long it takes, then against mutants."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType

import pytest

TIMES, FEWEST_SECONDS, IDLE = 4, 10.0, 6
"""A test may take so many times its usual processor time, at least some; and so many times more on the clock."""


@dataclass(frozen=True)
class Known:
    """What is known of a test: whether it passes, its seconds, and the ids of all codes that it called."""

    passed: bool
    seconds: float
    called: frozenset[int]


class Reports:
    """Collects the reports of the test that runs."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} ({report.when})\n{report.longreprtext}")


def run_test(item: pytest.Item, reports: Reports, following: pytest.Item | None) -> bool:
    """Whether a test passes. Fixtures that the following test does not share are torn down."""
    reports.failed = []
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return not reports.failed


def learn(
    items: Iterable[pytest.Item], reports: Reports, before: Callable[[], None], *, watch: bool
) -> dict[str, Known]:
    """Run every test on its own, with all its fixtures, and `before` ahead of each."""
    known = {}
    for item in items:
        before()
        called: set[int] = set()
        started = time.perf_counter()
        if watch:
            _watch(called)
        passed = run_test(item, reports, None)
        if watch:
            _watch(None)
        known[item.nodeid] = Known(passed, time.perf_counter() - started, frozenset(called))
        print("\n".join(reports.failed))
    return known


def _watch(called: set[int] | None) -> None:
    """Note the id of every code that is called, in threads as well."""

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            called.add(id(frame.f_code))

    profile = None if called is None else note
    sys.setprofile(profile)
    threading.setprofile(profile)


def first_failure(items: list[pytest.Item], reports: Reports, seconds: Callable[[str], float]) -> str | None:
    """The node id of the first test that fails. A test that takes far too long ends the process by a signal."""
    for item, following in zip(items, [*items, None][1:], strict=True):
        limit = max(FEWEST_SECONDS, TIMES * seconds(item.nodeid))
        signal.setitimer(signal.ITIMER_PROF, limit)
        signal.setitimer(signal.ITIMER_REAL, IDLE * limit)
        if not run_test(item, reports, following):
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            print(*reports.failed, sep="\n")
            return item.nodeid
    return None
