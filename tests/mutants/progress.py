"""A line now and then: how many mutants were killed, how many are left, and for how long."""

import time
from collections import Counter

EVERY = 20.0
"""Seconds between lines."""


class Progress:
    """Counts results and prints them from time to time."""

    def __init__(self, total: int, workers: int) -> None:
        self.total, self.workers = total, workers
        self.counts: Counter[str] = Counter()
        self.started = self.last = time.monotonic()

    def add(self, result: str) -> None:
        self.counts[result] += 1
        now, done = time.monotonic(), self.counts.total()
        if now - self.last >= EVERY or done == self.total:
            self.last = now
            left = (now - self.started) / done * (self.total - done)
            counts = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
            print(f"  {counts}; {self.total - done} left, about {left / 60:.0f} min", flush=True)
