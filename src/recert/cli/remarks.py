"""When the command was started, and what the library remarks while it works: what compiling costs, say."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
