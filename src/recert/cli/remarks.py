"""When the command was started, and what the library remarks while it works: what compiling costs, say."""

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recert.cli.output import say

STARTED = time.monotonic()
"""Of this process, but for what Python itself takes to start."""


SHOWN_OTHERWISE = ("recert.sampling.work", "recert.sampling.sampler", "recert.caching", "recert.certification")
"""What these note of their work, progress and tables of commands say as well; but not their warnings."""


class _Said(logging.Handler):
    """Prints remarks on stderr, beside progress."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or record.name not in SHOWN_OTHERWISE:
            say(record.getMessage(), markup=False)


PACKAGE = Path(__file__).parents[1]
_with_place = warnings.formatwarning


def _as_remark(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning for users as one line, without the place in our program that it came from."""
    if issubclass(category, UserWarning) and PACKAGE in Path(filename).parents:
        return f"warning: {' '.join(str(message).split())}\n"
    return _with_place(message, category, filename, lineno, line)


@contextmanager
def remarks_said() -> Iterator[None]:
    """Within it, what the library logs for users is printed, and what it warns of reads alike."""
    log, handler = logging.getLogger("recert"), _Said(logging.INFO)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    before, warnings.formatwarning = warnings.formatwarning, _as_remark
    try:
        yield
    finally:
        warnings.formatwarning = before
        log.removeHandler(handler)
        log.setLevel(level)
