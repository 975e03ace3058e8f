"""How long a forward pass takes."""

import time


class Pace:
    """How fast votes come: on the whole, and in the fastest stretch of at least a second."""

    STRETCH = 1.0

    def __init__(self) -> None:
        self._started = self._since = time.perf_counter()
        self._recent = self.passes = 0
        self.seconds, self.fastest = 0.0, 0.0

    def add(self, passes: int) -> None:
        now = time.perf_counter()
        self.passes, self._recent, self.seconds = self.passes + passes, self._recent + passes, now - self._started
        if self._recent and now - self._since >= self.STRETCH:
            rate = (now - self._since) / self._recent
            self.fastest = min(self.fastest or rate, rate)
            self._since, self._recent = now, 0

    @property
    def mean(self) -> float:
        return self.seconds / self.passes if self.passes else 0.0
