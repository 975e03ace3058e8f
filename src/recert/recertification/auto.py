"""Of several methods, for each input the one that promises most."""

from dataclasses import dataclass
from typing import ClassVar

from recert.recertification.joint import Joint
from recert.recertification.method import Method, Option, Strategy
from recert.recertification.scratch import ScratchCached
from recert.recertification.series import FewFlips, Series


@dataclass(frozen=True)
class Auto(Strategy):
    """Series, series for few flips, joint or fresh votes, judged by an input's selection votes and by flips on other inputs."""

    name: ClassVar[str] = "auto"
    methods: ClassVar[tuple[Method, ...]] = (Series(), FewFlips(), Joint(), ScratchCached())

    def options(self, certificate: str) -> tuple[Option, ...]:
        return tuple(option for method in self.methods for option in method.options(certificate))

    def most_passes(self, cached_samples: int) -> int:
        """Each has a limit of its own: replays half of the cache, fresh votes none."""
        return max(method.most_passes(cached_samples) for method in self.methods)
