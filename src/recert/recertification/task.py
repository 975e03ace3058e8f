"""What a re-certification is about: a modified model, a cache, a method, a budget."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache, Manifest
from recert.certificates import Certificates, Settings
from recert.noise import Stream
from recert.planning import Beliefs, Objective, Selection
from recert.recertification.everyone import ALL
from recert.recertification.method import Option, Strategy, Terms
from recert.sampling import Drawn, ProgressCallback, VoteSource, Work, collect_each
from recert.votes import SelectionCounts, Votes

Ints = NDArray[np.int64]


def usual_alpha(manifest: Manifest) -> float:
    """The total error unless given: twice what the cache was made with, as in the paper."""
    return 2 * manifest.alpha * manifest.family


@dataclass(frozen=True)
class Task:
    """A modified model to certify. Row i is an input: `positions[i]` in the source, `cache.digests[i]` in the cache."""

    source: VoteSource
    positions: Ints
    cache: Cache
    method: Strategy
    samples: int
    """Forward passes for each input, in the mean."""
    alpha: float
    certificate: str
    objective: Objective | None
    """What the budget is shared out for; None if every input is given the same."""
    family: int = 1
    progress: ProgressCallback | None = None
    everyone: bool = False
    """Whether the plan may leave no input out."""

    def __post_init__(self) -> None:
        self.cache.require_equal_votes("to re-certify from")

    @classmethod
    def of(cls, source: VoteSource, cache: Cache, method: Strategy, **settings: Any) -> Self:
        """For the inputs of a source, equal ones once."""
        first: dict[str, int] = {}
        for position, digest in enumerate(source.digests):
            first.setdefault(digest, position)
        return cls(source, np.array(list(first.values())), cache.about(list(first)), method, **settings)

    @cached_property
    def terms(self) -> Terms:
        m = self.cache.manifest
        return Terms(m.samples, m.selection_samples, self.source.classes, m.noise, self.alpha, m.alpha)

    @property
    def asked(self) -> dict[str, Any]:
        """By what one look at a cache differs from another: settings of the claim, but the budget."""
        return {
            "method": self.method.name,
            "certificate": self.certificate,
            "plan": repr(self.objective) + (ALL if self.everyone else ""),
            "alpha": self.alpha,
            **self.method.knobs(self.terms),
        }

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """What the plan chooses from; of several, only those whose noises the source has votes on."""
        options = self.method.options(self.certificate)
        possible = tuple(option for option in options if option.method.streams <= self.source.streams)
        return possible or options  # if none is possible, the source says what it lacks

    @cached_property
    def selection(self) -> Selection:
        """Selection votes of the original. They make every choice."""
        return Selection(SelectionCounts(self.cache.counts(Stream.SELECTION)))

    @cached_property
    def beliefs(self) -> Beliefs:
        """What the selection votes say about every row."""
        return Beliefs.from_votes(self.selection)

    def certified_before(self) -> NDArray[np.bool_]:
        """Which rows the original was certified on, at the method's error: others are skipped."""
        alpha = self.method.alpha_to_skip(self.terms)
        return self.cache.certified(alpha=alpha, certificate=self.certificate)

    @cached_property
    def cached_counts(self) -> Ints:
        """Estimation votes of the original by class, rows x classes. They make every claim."""
        return self.cache.counts(Stream.ESTIMATION)

    def cached_votes(self, rows: Sequence[int]) -> dict[int, Votes]:
        """Them one by one, by row. Those that belong to a stored part are copied, so that they do not keep all of it in memory."""
        votes = self.cache.each_votes([self.cache.digests[row] for row in rows])
        return {rows[i]: each if each.flags.writeable else each.copy() for i, each in votes}

    def draw(self, rows: Sequence[int], noises: Sequence[tuple[Stream, range | Ints]]) -> Iterator[Drawn]:
        """Votes of the modified model on some noises of each row, row by row as they are drawn."""
        works = [
            Work(int(self.positions[row]), stream, samples) for row, (stream, samples) in zip(rows, noises, strict=True)
        ]
        streams = " and ".join(stream.name.lower() for stream in sorted({stream for stream, _ in noises}))
        doing = "baseline" if self.method.baseline else "re-certifying"
        return collect_each(self.source, works, f"{doing} ({streams} noise)", self.progress)

    def for_every_input(self, result: Certificates) -> Certificates:
        """Rows for all inputs of the source, from those of its distinct inputs."""
        row = {digest: i for i, digest in enumerate(self.cache.digests)}
        return result.take([row[digest] for digest in self.source.digests])

    def settings(self) -> Settings:
        """Settings of the result: the cache's noise and seed, the modified model's identity and numerics."""
        own_selection = self.method.votes_to_choose()
        settings = self.cache.settings(
            method=self.method.name, certificate=self.certificate, alpha=self.alpha, error=self.method.error(self.terms)
        )
        if own_selection:  # owes nothing to the cache
            settings = replace(settings, selection_samples=own_selection, looks=(), same_models=())
        return replace(
            settings,
            cache_numerics=None if own_selection else settings.numerics,
            samples=self.samples,
            model=asdict(self.source.identity),
            numerics=self.source.numerics,
            family=self.family,
            claims=0,  # those of the cache's own family are about the original
        )
