"""Signals that ask a process to stop wait while something is done that must not be left half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What is inside is done to its end; a Ctrl-C or a SIGTERM on the way takes effect after it."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in STOPPING}
    # Those that are ignored (nohup) stay so; those of other languages (None) cannot be put back.
    waiting = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    try:
        for number in waiting:
            signal.signal(number, lambda number, _: received.append(number))
        yield
    finally:
        for number in waiting:
            signal.signal(number, before[number])
        if received:
            signal.raise_signal(received[0])
