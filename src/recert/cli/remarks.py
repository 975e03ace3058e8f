"""When the command was started, and what the library remarks while it works: what compiling costs, say."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from recert.cli.output import say

STARTED = time.monotonic()
"""Of this process, but for what Python itself takes to start."""


class _Said(logging.Handler):
    """Prints remarks on stderr, beside progress."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), markup=False)


@contextmanager
def remarks_said() -> Iterator[None]:
    """Within it, what the library logs for users is printed."""
    log, handler = logging.getLogger("recert"), _Said(logging.INFO)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
