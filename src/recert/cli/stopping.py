"""SIGTERM and SIGHUP stop a command as Ctrl-C does: in order, with what was drawn written."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from recert.interrupts import STOPPING

SECONDS_TO_STOP = 2.0
"""So long further signals are passed over, as they come from an impatient hand or with a closed terminal; later ones are heard."""
INTERRUPTED = 130


class Stop:
    """Which signal came first, if any."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._at = 0.0

    def __call__(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal is not None and now - self._at < SECONDS_TO_STOP:
            return
        self.signal, self._at = self.signal or number, now
        raise KeyboardInterrupt

    def code(self, code: int) -> int:
        """The exit code, with the signal's number in it (143 for SIGTERM, 129 for SIGHUP) if that is what ended the command."""
        return 128 + self.signal if code == INTERRUPTED and self.signal is not None else code


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Within it, every signal that asks to stop is a KeyboardInterrupt. Signals that are ignored (nohup) stay so."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in STOPPING}
    heard = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in heard:
        signal.signal(number, stop)
    try:
        yield stop
    finally:
        for number in heard:
            signal.signal(number, before[number])
