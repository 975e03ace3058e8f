"""Progress of commands: as of the package, and when the first votes came and all was done."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recert.cli.output import say
from recert.cli.remarks import STARTED

if TYPE_CHECKING:
    from recert.sampling import Progress as Event
    from recert.sampling import ProgressCallback


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
def drawn_progress(*, timed: bool = True) -> Iterator["ProgressCallback"]:
    """A callback that draws a bar with rate and time left for every task that is reported to it; without a terminal, lines now and then.

    At the end a line says when the first votes came, and when all was done, since the command was started, unless it is not `timed`.
    """
    from recert.progress import shown

    with shown(True, say=say) as show:
        assert show is not None
        first = _FirstVote(show)
        yield first
    if timed and first.at is not None:
        say(
            f"first votes {first.at - STARTED:.1f} s after the start, all done after {time.monotonic() - STARTED:.1f} s"
        )
