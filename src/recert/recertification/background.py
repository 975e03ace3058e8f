"""Bounds are computed while the next votes are drawn: both take their time, and neither needs the other."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Entry = TypeVar("Entry")
BLOCK = 64
"""Entries that are bounded together: enough to keep threads busy, few enough to begin early."""


class Background:
    """One thread that takes blocks of entries in order. What it raises is raised by `finish`."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recert-bounds")
        self._blocks: list[Future[None]] = []

    def bound(self, entries: Iterable[Entry], bound: Callable[[list[Entry]], None]) -> None:
        """Hand entries on in blocks as they come; they may be drawn while earlier blocks are bounded."""
        block: list[Entry] = []
        for entry in entries:
            block.append(entry)
            if len(block) == BLOCK:
                self._blocks.append(self._thread.submit(bound, block))
                block = []
        if block:
            self._blocks.append(self._thread.submit(bound, block))

    def finish(self) -> None:
        """Wait for all blocks."""
        for block in self._blocks:
            block.result()

    def stop(self) -> None:
        """Begin no further block."""
        self._thread.shutdown(wait=False, cancel_futures=True)
