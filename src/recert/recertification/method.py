"""What a method of re-certification is: a few facts and four pure functions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recert.certificates import Outcome
from recert.noise import Noise, Stream
from recert.planning import ChancePredictor, RadiusPredictor, Selected
from recert.planning.chances import ExpectedChances
from recert.planning.tables import Circumstances
from recert.recertification.questions import Questions, SelectedInputs
from recert.votes import Votes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Terms:
    """What all inputs share, as far as choices may know it: there is no vote in it."""

    samples: int
    """Cached estimation votes of every input."""
    selection_samples: int
    classes: int
    noise: Noise
    alpha: float
    """Error of one input's claim."""
    cache_alpha: float
    """Error of one claim about the original, as the cache was made."""
    sides: int = 1
    """2 if the runner-up is bounded as well as the class: each then has half of alpha."""
    flips: float = 0.0
    """Flips that are to be expected, from other inputs: see `Circumstances`."""
    largest: int = 0
    """The most forward passes that any input of the same draw is given."""

    @property
    def circumstances(self) -> Circumstances:
        """What predictions of one bound depend on."""
        return Circumstances(self.samples, self.alpha / self.sides, self.noise, self.flips)


@dataclass(frozen=True)
class Noises:
    """Which noises of one input are drawn, and what is known of them beforehand."""

    top: int
    """The class that the claim is about."""
    stream: Stream
    samples: range | Ints
    top_votes: int = 0
    """How many of all cached votes are for the class."""
    questions: Questions | None = None
    before: Votes | None = None
    """How the original voted on these noises, where that is compared one by one."""


@dataclass(frozen=True)
class Inputs:
    """Some inputs of one option, whose noises are to be chosen."""

    chosen: SelectedInputs
    passes: Ints
    cached: Sequence[Votes]
    """Cached votes of each; empty if the method does not read them."""
    counts: Ints
    """The same by class, inputs x classes."""


@dataclass(frozen=True)
class Counts:
    """What the votes of one input amount to: columns of its certificate, and what its bounds are computed from."""

    top_votes: int
    samples: int
    replayed: int = 0
    kept: int = 0
    lost: int = 0
    gained: int = 0
    arguments: Sequence[Sequence[int]] | Ints = ()
    """Counts for each bound, a row each, the one about the class first; in which order is up to the method."""
    abstention: Outcome = Outcome.TRANSFER_TOO_WEAK
    """How the input fared if the bounds certify nothing."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of many inputs, which hold jointly for each. Without one on the runner-up it has what the class leaves."""

    top_lower: Floats
    runner_up_upper: Floats | None = None


@dataclass(frozen=True)
class Strategy(ABC):
    """What `recertify` takes as a method: facts about it, and what the plan chooses from. Fields of a subclass are its knobs."""

    name: ClassVar[str]
    certificates: ClassVar[tuple[str, ...]] = ("one-sided", "two-sided")
    usual_plan: ClassVar[str] = "acr"
    largest_share: ClassVar[float] = 0.5
    """Of the cached votes, how many an input may be given at most."""
    baseline: ClassVar[bool] = False
    """Whether it stands for what certifying without a cache costs."""

    @abstractmethod
    def options(self, certificate: str) -> "tuple[Option, ...]":
        """What the plan chooses from for each input."""

    def votes_to_choose(self) -> int:
        """Votes of the modified model that choose the class of every input. With 0 the class is the cached one, and inputs
        on which the original abstained are skipped."""
        return 0

    def alpha_to_skip(self, terms: Terms) -> float:
        """The error at which the original must be certified, or an input is skipped."""
        return terms.alpha

    def error(self, terms: Terms) -> float:
        """What is proved for the error of one claim."""
        return terms.alpha

    def knobs(self, terms: Terms) -> dict[str, Any]:
        """Settings of its own, by which one look at a cache differs from another: all fields, if not said otherwise."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def most_passes(self, cached_samples: int) -> int:
        """How many forward passes an input is given at most."""
        return int(min(self.largest_share * cached_samples, 2**31))


@dataclass(frozen=True)
class Method(Strategy):
    """A way to certify the modified model f^p from cached votes of the original f: four pure functions.

    `noises` may choose numbers of replays by the selection votes alone; which noises these are may depend on the cached
    votes. `bound` makes the claim. `expected_radius` and `chance` only guide the plan.
    """

    streams: ClassVar[frozenset[Stream]] = frozenset({Stream.ESTIMATION})
    """Streams that it cannot do without: where a source has no votes of them, a choice of methods leaves it out."""
    reads_cached_votes: ClassVar[bool] = True
    """Whether `noises` looks at the cached votes; where it does not they are not read, and it is given none."""

    def options(self, certificate: str) -> "tuple[Option, ...]":
        """With the runner-up, an input may still be bounded by its class alone if that promises more: both are Theorem 1."""
        return (Option(self, 1), Option(self, 2)) if certificate == "two-sided" else (Option(self, 1),)

    @abstractmethod
    def noises(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> Noises | None:
        """Which noises to draw for one input; None if the cache has too few of a kind, so that no claim is made."""

    def noises_of(self, inputs: Inputs, terms: Terms) -> list[Noises | None]:
        """`noises` of many inputs; a method may have a faster way."""
        return [
            self.noises(inputs.chosen.one(i), cached, passes, terms)
            for i, (cached, passes) in enumerate(zip(inputs.cached, inputs.passes.tolist(), strict=True))
        ]

    @abstractmethod
    def count(self, noises: Noises, votes: Votes, terms: Terms) -> Counts:
        """What the modified model's votes on these noises amount to."""

    def without_flips(self, counts: Counts, top: int, cached: Ints) -> Counts | None:
        """The same counts had the modified model voted as the original did, whose votes are `cached` by class; the counts
        themselves where nothing flipped, and None if that is not known. They tell what the change cost, and make no claim."""
        return None

    def for_comparison(self) -> "Method":
        """The method itself, or one whose bounds are as good as its own to tell what a change cost, sooner, but prove nothing."""
        return self

    @abstractmethod
    def bound(self, counts: Sequence[Counts], terms: Terms) -> Bounds:
        """Bounds of many inputs from their counts, with error `terms.alpha` for each input."""

    @abstractmethod
    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        """The radius that may be expected with up to `largest` forward passes."""

    def chance(self, terms: Terms, largest: int, radius: float) -> ChancePredictor:
        """The chance that a radius is reached, for plans that count inputs; certain or impossible, by the expected radius, unless said."""
        return ExpectedChances(radius, self.expected_radius(terms, largest))


@dataclass(frozen=True)
class Option:
    """A method with the class alone (one side), or with the runner-up as well (two)."""

    method: Method
    sides: int
