"""Fresh votes of the modified model bound the class, as if there were no cache: the baselines, and a choice for auto."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Outcome, claim_one_sided, claim_two_sided
from recert.noise import Stream
from recert.noise.keys import LARGEST_SAMPLE
from recert.planning import ChancePredictor, RadiusPredictor, Selected
from recert.planning.chances import FreshVotesChances
from recert.planning.tables import fresh_votes_table
from recert.recertification.method import Bounds, Counts, Method, Noises, Option, Terms
from recert.votes import Votes, count_votes

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ScratchCached(Method):
    """A baseline that is given the cached class and skips what the original abstained on."""

    name: ClassVar[str] = "scratch-cached"
    usual_plan: ClassVar[str] = "uniform"
    largest_share: ClassVar[float] = np.inf
    baseline: ClassVar[bool] = True
    streams: ClassVar[frozenset[Stream]] = frozenset({Stream.FRESH})
    reads_cached_votes: ClassVar[bool] = False
    stream: ClassVar[Stream] = Stream.FRESH
    """Noises on which the votes are drawn."""

    def options(self, certificate: str) -> tuple[Option, ...]:
        return (Option(self, 2 if certificate == "two-sided" else 1),)

    def noises(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> Noises | None:
        return Noises(selected.top, self.stream, range(passes))

    def count(self, noises: Noises, votes: Votes, terms: Terms) -> Counts:
        return count_fresh(noises, votes, terms)

    def without_flips(self, counts: Counts, top: int, cached: Ints) -> Counts | None:
        return fresh_as_cached(counts, top, cached)

    def bound(self, counts: Sequence[Counts], terms: Terms) -> Bounds:
        return bound_fresh(counts, terms, terms.alpha)

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        return fresh_votes_table(terms.alpha / terms.sides, terms.noise, largest).radius(terms.sides)

    def chance(self, terms: Terms, largest: int, radius: float) -> ChancePredictor:
        return FreshVotesChances(radius, self.expected_radius(terms, largest))


@dataclass(frozen=True)
class Scratch(ScratchCached):
    """Cohen's baseline: ignores the cache; its own selection votes choose the class of every input, and are charged."""

    selection_samples: int = 100

    name: ClassVar[str] = "scratch"

    def __post_init__(self) -> None:
        if (
            not isinstance(self.selection_samples, int | np.integer)
            or not 1 <= self.selection_samples <= LARGEST_SAMPLE
        ):
            raise ValueError(
                f"expected at least 1 selection sample, as a whole number, got {self.selection_samples!r}; a usual value is 100"
            )

    def votes_to_choose(self) -> int:
        return int(self.selection_samples)

    def knobs(self, terms: Terms) -> dict[str, Any]:
        return {"selection samples": int(self.selection_samples)}


@dataclass(frozen=True)
class OwnVotes(ScratchCached):
    """Fresh votes on the first cached noises: whatever the original says there, nothing of it is used."""

    name: ClassVar[str] = "scratch"
    streams: ClassVar[frozenset[Stream]] = frozenset({Stream.ESTIMATION})
    stream: ClassVar[Stream] = Stream.ESTIMATION


def count_fresh(noises: Noises, votes: Votes, terms: Terms) -> Counts:
    """Votes for the class, and for the largest rival."""
    counts = count_votes(votes, terms.classes)
    top_votes = int(counts[noises.top])
    counts[noises.top] = 0
    abstention = Outcome.RUNNER_UP_TOO_CLOSE if terms.sides == 2 else Outcome.NO_MAJORITY
    return Counts(top_votes, len(votes), arguments=((top_votes, int(counts.max())),), abstention=abstention)


def fresh_as_cached(counts: Counts, top: int, cached: Ints) -> Counts | None:
    """As many votes, divided as the original's cached ones are: how it would vote on these very noises is not known."""
    if (total := int(cached.sum())) == 0:
        return None
    rivals = cached.copy()
    rivals[top] = 0
    of_class, of_rival = (round(int(votes) * counts.samples / total) for votes in (cached[top], rivals.max()))
    return replace(counts, top_votes=of_class, arguments=((of_class, of_rival),))


def bound_fresh(counts: Sequence[Counts], terms: Terms, alpha: float) -> Bounds:
    """Clopper-Pearson, as in certifying from scratch."""
    top_votes, rival_votes = np.array([each.arguments[0] for each in counts]).T
    samples = np.array([each.samples for each in counts])
    classes = np.zeros_like(samples)  # bounds do not depend on which class it is
    if terms.sides == 1:
        claims = claim_one_sided(classes, top_votes, samples, alpha, terms.noise)
    else:
        claims = claim_two_sided(classes, top_votes, rival_votes, samples, alpha, terms.noise)
    return Bounds(claims.top_lower, claims.runner_up_upper)
