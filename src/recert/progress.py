"""Progress of long work, on stderr: a bar in a terminal, a bar in a notebook, lines in a log. Short work is silent."""

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol

from recert.sampling.work import Progress, ProgressCallback, ShowProgress

SECONDS_OF_SHORT_WORK = 2.0
"""Nothing is shown of work that takes no longer, unless it is asked for."""
SECONDS_PER_LINE = 30.0
"""Often enough to see that a job is alive, seldom enough for the log of a run that takes a day."""
SECONDS_PER_UPDATE = 0.25
"""Of a notebook, where each update is a message to the browser."""
SECONDS_PER_FRAME = 0.1
"""Of a terminal."""
BAR = 12
"""Characters."""


class Display(Protocol):
    """Something that shows how far tasks are."""

    def show(self, event: Progress, rate: float | None) -> None: ...

    def close(self) -> None: ...


@contextmanager
def shown(
    progress: ShowProgress = None, *, say: Callable[[str], None] | None = None
) -> Iterator[ProgressCallback | None]:
    """What is to be called with progress; None if nobody is to hear of it.

    None shows it where somebody looks, in a terminal or a notebook, once the work takes more than two seconds; True from the
    beginning, and as lines where there is neither (said by `say`, else printed on stderr); False never. A function is called itself.
    """
    if progress is False or callable(progress):
        yield progress or None
        return
    make = _notebook_bar if _in_notebook() else _TerminalBar if _in_terminal() else None
    if make is None and progress is None:
        yield None
        return
    late = _Late(make or (lambda: _Lines(say or _print)), 0.0 if progress else SECONDS_OF_SHORT_WORK)
    try:
        yield late
    finally:
        late.close()


def about(what: str, show: ProgressCallback | None) -> ProgressCallback | None:
    """The same, with what tasks are about before their names: "2 of 5, bf16: re-certifying"."""
    if show is None or not what:
        return show
    return lambda event: show(replace(event, task=f"{what}: {event.task}"))


def part_of(number: int, total: int, name: str) -> str:
    """Which of how many.

    >>> part_of(2, 5, "bf16"), part_of(1, 1, "bf16")
    ('2 of 5, bf16', 'bf16')
    """
    return f"{number} of {total}, {name}" if total > 1 else name


class _Late:
    """Makes a display when there is something to show for long enough, and tells it how fast tasks go."""

    def __init__(self, make: Callable[[], Display], after: float) -> None:
        self._make, self._after, self._began = make, after, time.monotonic()
        self._display: Display | None = None
        self._first: dict[str, tuple[float, int]] = {}

    def __call__(self, event: Progress) -> None:
        now = time.monotonic()
        since, done = self._first.setdefault(event.task, (now, event.done))
        if event.done < done:  # a task of the same name that begins anew
            since, done = self._first[event.task] = now, event.done
        if now - self._began < self._after:
            return
        with suppress(OSError):  # nobody looks any more; the work goes on
            if self._display is None:
                self._display = self._make()
            self._display.show(event, (event.done - done) / (now - since) if now > since else None)

    def close(self) -> None:
        if self._display is not None:
            with suppress(OSError):
                self._display.close()


class _TerminalBar:
    """A bar for the task that is done now, which disappears at the end. No name and no number is cut: where a line is too short for
    all, the name has one of its own."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._drawn = -SECONDS_PER_FRAME
        self._live.start()

    def show(self, event: Progress, rate: float | None) -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        if now - self._drawn < SECONDS_PER_FRAME and event.done < event.total:
            return
        self._drawn = now
        name, numbers = Text(event.task), Text(f"{event.done:,} of {event.total:,} passes{_speed(event, rate)}")
        bar = ProgressBar(total=event.total, completed=event.done, width=BAR)
        together = name.cell_len + BAR + numbers.cell_len + 2 < self._console.width
        row = Table.grid(padding=(0, 1))
        row.add_row(*([name] if together else []), bar, numbers)
        self._live.update(row if together else Group(name, row), refresh=True)

    def close(self) -> None:
        self._live.stop()


class _NotebookBar:
    """One line with a bar, for the task that is done now. At the end it says what was done, and how long it was shown."""

    def __init__(self, display: Callable[..., Any], as_html: Callable[[str], Any]) -> None:
        self._handle = display(as_html(""), display_id=True)
        self._as_html = as_html
        self._updated, self._began, self._tasks = 0.0, time.monotonic(), dict[str, None]()

    def show(self, event: Progress, rate: float | None) -> None:
        now, self._tasks[event.task] = time.monotonic(), None
        if now - self._updated < SECONDS_PER_UPDATE and event.done < event.total:
            return
        self._updated = now
        self._update(
            f'{html.escape(event.task)} <progress value="{event.done}" max="{event.total}"></progress> '
            f"{event.done:,} of {event.total:,} forward passes{_speed(event, rate)}"
        )

    def close(self) -> None:
        self._update(f"{html.escape(', '.join(self._tasks))}: {_clock(time.monotonic() - self._began)}")

    def _update(self, line: str) -> None:
        if self._handle is not None:
            self._handle.update(self._as_html(line))


class _Lines:
    """A plain line now and then, for logs."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._last = say, time.monotonic()
        self._began: dict[str, float] = {}

    def show(self, event: Progress, rate: float | None) -> None:
        now = time.monotonic()
        taken = now - self._began.setdefault(event.task, now)
        if now - self._last <= SECONDS_PER_LINE or not rate:
            return
        self._last = now
        self._say(
            f"{event.task}: {event.done:,} of {event.total:,} forward passes after {taken:,.0f} s, {rate:,.0f}/s, "
            f"about {(event.total - event.done) / rate:,.0f} s left"
        )

    def close(self) -> None:
        pass


def _in_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False


def _in_notebook() -> bool:
    """Whether this process is a kernel, which alone has IPython loaded before us."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


def _notebook_bar() -> Display:
    from IPython.display import HTML, display

    return _NotebookBar(display, HTML)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _speed(event: Progress, rate: float | None) -> str:
    """How fast it goes and how long it will take, as the end of a line."""
    return "" if not rate else f", {rate:,.0f}/s, {_clock((event.total - event.done) / rate)} left"


def _clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> _clock(125.4)
    '2:05'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
