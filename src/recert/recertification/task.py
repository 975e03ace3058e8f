"""What every method of re-certification is given."""

from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache
from recert.certificates import Settings
from recert.noise import Stream
from recert.sampling import Drawn, ProgressCallback, VoteSource, Work, collect


@dataclass(frozen=True)
class Task:
    """A modified model to certify. Row i is an input: `positions[i]` in the source, `cache.digests[i]` in the cache."""

    source: VoteSource
    positions: NDArray[np.int64]
    cache: Cache
    samples: int
    alpha: float
    certificate: str = "one-sided"
    selection_samples: int = 100
    reuse_threshold: float = 0.99
    irs_form: str = "paper"
    progress: ProgressCallback | None = None

    @property
    def sigma(self) -> float:
        return self.cache.manifest.gaussian.sigma

    def draw(self, rows: NDArray[np.int64], stream: Stream, samples: int) -> list[Drawn]:
        """Votes of the modified model on the first `samples` noises of a stream, for some rows."""
        works = [Work(int(self.positions[row]), stream, range(samples)) for row in rows]
        return collect(self.source, works, f"re-certifying ({stream.name.lower()} noise)", self.progress)

    def settings(self, method: str, *, error: float | None = None) -> Settings:
        """Settings of a result: the cache's noise and seed, the modified model's identity and numerics."""
        return replace(
            self.cache.settings(method=method, certificate=self.certificate, alpha=self.alpha, error=error),
            samples=self.samples,
            model=asdict(self.source.identity),
            numerics=self.source.numerics,
        )
