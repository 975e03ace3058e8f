"""Progress of long work, drawn on stderr."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from recert.cli.output import say
from recert.cli.remarks import STARTED

if TYPE_CHECKING:
    from recert.sampling import Progress as Event
    from recert.sampling import ProgressCallback


SECONDS_PER_LINE = 30.0
"""Often enough to see that a job is alive, seldom enough for the log of a run that takes a day."""


def _lines() -> "ProgressCallback":
    """Without a terminal: a plain line now and then, for logs."""
    began: dict[str, float] = {}
    last = time.monotonic()

    def write(event: "Event") -> None:
        nonlocal last
        now = time.monotonic()
        taken = now - began.setdefault(event.task, now)
        if now - last > SECONDS_PER_LINE and taken > 0:
            last, rate = now, event.done / taken
            left = (event.total - event.done) / rate if rate else float("inf")
            say(
                f"{event.task}: {event.done:,} of {event.total:,} forward passes after {taken:,.0f} s, {rate:,.0f}/s, about {left:,.0f} s left"
            )

    return write


class _FirstVote:
    """Passes events on, and remembers when the first votes came."""

    def __init__(self, show: "ProgressCallback") -> None:
        self._show = show
        self.at: float | None = None

    def __call__(self, event: "Event") -> None:
        if self.at is None and event.done:
            self.at = time.monotonic()
        self._show(event)


@contextmanager
def drawn_progress() -> Iterator["ProgressCallback"]:
    """A callback that draws a bar with rate and time left for every task that is reported to it.

    At the end a line says when the first votes came, and when all was done, since the command was started.
    """
    with _shown() as show:
        first = _FirstVote(show)
        yield first
    if first.at is not None:
        say(
            f"first votes {first.at - STARTED:.1f} s after the start, all done after {time.monotonic() - STARTED:.1f} s"
        )


@contextmanager
def _shown() -> Iterator["ProgressCallback"]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("forward passes, {task.fields[rate]}/s,"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(event: "Event") -> None:
            if event.task not in tasks:
                tasks[event.task] = bars.add_task(event.task, total=event.total, rate="-")
            task = bars.tasks[bars.task_ids.index(tasks[event.task])]
            speed = event.done / task.elapsed if task.elapsed else 0.0
            bars.update(tasks[event.task], completed=event.done, total=event.total, rate=f"{speed:,.0f}")

        yield show
