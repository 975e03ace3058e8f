"""Progress of long work, drawn on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from recert.sampling import Progress as Event
    from recert.sampling import ProgressCallback


@contextmanager
def drawn_progress() -> Iterator["ProgressCallback"]:
    """A callback that draws a bar with rate and time left for every task that it hears of."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("forward passes, {task.fields[rate]}/s,"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(event: "Event") -> None:
            if event.task not in tasks:
                tasks[event.task] = bars.add_task(event.task, total=event.total, rate="-")
            task = bars.tasks[bars.task_ids.index(tasks[event.task])]
            speed = event.done / task.elapsed if task.elapsed else 0.0
            bars.update(tasks[event.task], completed=event.done, total=event.total, rate=f"{speed:,.0f}")

        yield show
