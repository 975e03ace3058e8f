"""Progress of drawing, on stderr: bars in a terminal, else a plain line now and then, for logs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

import recert

SECONDS_PER_LINE = 30.0
COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    TextColumn("{task.completed:,} of {task.total:,} passes, {task.fields[rate]}/s,"),
    TimeRemainingColumn(),
)

Callback = Callable[[recert.Progress], None]


@contextmanager
def shown_progress() -> Iterator[Callback]:
    """A callback that shows how far each task is that it hears of."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(console).show
        return
    with Bars(*COLUMNS, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(event: recert.Progress) -> None:
            if event.task not in tasks:
                tasks[event.task] = bars.add_task(event.task, total=event.total, rate="-")
            task = bars.tasks[bars.task_ids.index(tasks[event.task])]
            speed = event.done / task.elapsed if task.elapsed else 0.0
            bars.update(tasks[event.task], completed=event.done, total=event.total, rate=f"{speed:,.0f}")

        yield show


class Lines:
    """Writes a line when the last one is long enough ago."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, time.monotonic()
        self._began: dict[str, float] = {}

    def show(self, event: recert.Progress) -> None:
        now = time.monotonic()
        taken = now - self._began.setdefault(event.task, now)
        if now - self._last <= SECONDS_PER_LINE or not taken or not event.done:
            return
        self._last, rate = now, event.done / taken
        self._console.print(
            f"{event.task}: {event.done:,} of {event.total:,} forward passes after {taken:,.0f} s, {rate:,.0f}/s, "
            f"about {(event.total - event.done) / rate:,.0f} s left",
            highlight=False,
        )
