"""What every method of re-certification is given."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache, Manifest
from recert.certificates import Certificates, Settings
from recert.noise import Stream
from recert.planning import Beliefs, Objective
from recert.recertification.background import Background
from recert.sampling import Drawn, ProgressCallback, VoteSource, Work, collect_each
from recert.votes import Votes

Ints = NDArray[np.int64]


def usual_alpha(manifest: Manifest) -> float:
    """The total error unless told: twice what the cache was made with, as in the paper."""
    return 2 * manifest.alpha * manifest.family


@dataclass(frozen=True)
class Task:
    """A modified model to certify. Row i is an input: `positions[i]` in the source, `cache.digests[i]` in the cache."""

    source: VoteSource
    positions: Ints
    cache: Cache
    samples: int
    alpha: float
    certificate: str = "one-sided"
    objective: Objective | None = None
    selection_samples: int = 100
    reuse_threshold: float = 0.99
    irs_form: str = "paper"
    family: int = 1
    progress: ProgressCallback | None = None
    background: Background = field(default_factory=Background)

    @classmethod
    def of(cls, source: VoteSource, cache: Cache, **settings: Any) -> Self:
        """For the inputs of a source, equal ones once."""
        first: dict[str, int] = {}
        for position, digest in enumerate(source.digests):
            first.setdefault(digest, position)
        return cls(source, np.array(list(first.values())), cache.about(list(first)), **settings)

    @property
    def sigma(self) -> float:
        return self.cache.manifest.gaussian.scale

    @property
    def cached_samples(self) -> int:
        return self.cache.manifest.samples

    @property
    def two_sided(self) -> bool:
        return self.certificate == "two-sided"

    @cached_property
    def selection(self) -> Ints:
        """Selection votes of the original: rows x classes. They make every choice."""
        return self.cache.counts(Stream.SELECTION)

    @cached_property
    def selected(self) -> list[int]:
        """How many of an input's selection votes were for any class."""
        return [int(votes) for votes in self.selection.sum(axis=1)]

    @cached_property
    def beliefs(self) -> Beliefs:
        """What the selection votes say about every row."""
        return Beliefs.from_votes(self.selection, self.classes)

    @cached_property
    def estimation(self) -> Ints:
        """Estimation votes of the original: rows x classes. They make every claim."""
        return self.cache.counts(Stream.ESTIMATION)

    @cached_property
    def classes(self) -> Ints:
        """The class that each certificate is about: the original's most frequent among the selection votes."""
        return np.asarray(self.selection.argmax(axis=1))

    def base(self, alpha: float) -> Certificates:
        """Certificates of the original at this error: what cannot be exceeded, and which inputs to skip."""
        return self.cache.certify(alpha=alpha, certificate=self.certificate)

    def cached_votes(self, row: int) -> Votes:
        return self.cache.votes(self.cache.digests[row])

    def works(self, rows: Ints, stream: Stream, samples: Sequence[range | Ints]) -> list[Work]:
        """Some noises of a stream for each row."""
        return [Work(int(self.positions[row]), stream, wanted) for row, wanted in zip(rows, samples, strict=True)]

    def draw(self, works: Sequence[Work]) -> Iterator[Drawn]:
        """Votes of the modified model, work by work as they are drawn."""
        streams = " and ".join(stream.name.lower() for stream in sorted({work.stream for work in works}))
        return collect_each(self.source, works, f"re-certifying ({streams} noise)", self.progress)

    def for_every_input(self, result: Certificates) -> Certificates:
        """Rows for all inputs of the source, from those of its distinct inputs."""
        row = {digest: i for i, digest in enumerate(self.cache.digests)}
        return result.take([row[digest] for digest in self.source.digests])

    def settings(self, method: str, *, error: float | None = None) -> Settings:
        """Settings of a result: the cache's noise and seed, the modified model's identity and numerics."""
        settings = self.cache.settings(method=method, certificate=self.certificate, alpha=self.alpha, error=error)
        if method == "scratch":  # owes nothing to the cache
            settings = replace(settings, selection_samples=self.selection_samples, looks=())
        return replace(
            settings,
            cache_numerics=None if method == "scratch" else settings.numerics,
            samples=self.samples,
            model=asdict(self.source.identity),
            numerics=self.source.numerics,
            family=self.family,
            claims=0,  # those of the cache's own family are about the original
        )
