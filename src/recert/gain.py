"""What a budget of re-certification may be expected to buy, from the cache alone. Nothing is drawn and nothing is claimed."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache
from recert.noise import Stream
from recert.planning import Beliefs, Objective, RadiusPredictor, Selection, equal_passes, plan_budget
from recert.recertification.limits import limited_by_samples
from recert.recertification.method import Option, Strategy, Terms
from recert.recertification.registry import method_named
from recert.recertification.run import MOST_OF_MEAN
from recert.recertification.scratch import Scratch
from recert.recertification.task import usual_alpha
from recert.votes import SelectionCounts

SHARES = (0.01, 0.02, 0.05, 0.1)
"""Of the cached votes of an input: the budgets that are usual."""
FLIPS = 0.05
"""Losses to expect of a changed network, per vote that is not unanimous (see `Circumstances`): about what int8 quantisation has."""


@dataclass(frozen=True)
class Expected:
    """What is expected of one budget. Radii are means over all inputs, an abstention counting 0."""

    passes: int
    """Forward passes per input, in the mean."""
    radius: float
    """Of re-certification."""
    anew: float
    """Of certifying anew with as many passes, of which 100 choose the class."""
    gain: float
    """How many times as many passes certifying anew takes for the radius of re-certification; infinity if more than there are cached votes."""
    limited: int
    """On so many inputs samples are the limit: (nearly) all votes agree, and no method can gain there."""
    left_out: int
    """So many of the inputs that could be certified are given nothing by the plan, which expects more of others."""


@dataclass(frozen=True, repr=False)
class ExpectedGain:
    """What `recertify` is expected to reach with a model that changed a little. Printed, it is a table."""

    inputs: int
    certified: int
    """Inputs that the cache certifies at `alpha`; the others cost nothing, and get nothing."""
    radius: float
    """The mean radius of the cache's own certificates, which no re-certification exceeds by much."""
    alpha: float
    certificate: str
    method: str
    rows: tuple[Expected, ...]

    def to_rows(self) -> list[dict[str, float | int | None]]:
        """A row for each budget, under names for people; no gain where certifying anew would need more than all cached votes."""
        return [
            {
                "passes per input": row.passes, "mean radius": row.radius, "anew": row.anew,
                "gain": None if row.gain == np.inf else round(row.gain, 2),
                "limited by samples": row.limited, "left out by the plan": row.left_out,
            }
            for row in self.rows
        ]  # fmt: skip

    def __repr__(self) -> str:
        lines = [
            f"{self.inputs:,} inputs, of which {self.certified:,} can be certified again; mean radius of the cache itself {self.radius:.3f}",
            "passes per input  mean radius  from scratch  times fewer  limited  left out",
        ]
        for row in self.rows:
            gain = "> all" if row.gain == np.inf else f"{row.gain:.1f}"
            lines.append(
                f"{row.passes:>16,}{row.radius:>13.3f}{row.anew:>14.3f}{gain:>13}{row.limited:>9,}{row.left_out:>10,}"
            )
        lines.append(
            "from scratch: the mean radius with as many passes; times fewer: for the same radius; limited: inputs where (nearly) all votes agree, so "
            "that only samples help; left out: inputs that the plan gives nothing."
        )
        lines.append(
            f"Expected of a mild change ({self.method}, alpha {self.alpha:g}), from the cache alone; nothing is claimed."
        )
        return "\n".join(lines)


def expected_gain(
    cache: Cache | str | os.PathLike[str],
    *,
    samples: int | Sequence[int] | None = None,
    alpha: float | None = None,
    method: str | Strategy = "auto",
    flips: float = FLIPS,
) -> ExpectedGain:
    """What budgets of re-certification may be expected to buy, from the cache alone: mean radius beside that of certifying anew.

    `samples` are mean forward passes per input, one number or several; 1%, 2%, 5% and 10% of the cached votes unless given. `alpha`
    is twice the cache's unless given. `flips` says how much the model changed: votes lost per cached vote of the class and
    per share of votes against it; 0 for the model itself, about 0.05 for int8 quantisation. Selection votes predict
    radii and gains, so a budget may be chosen by them; `limited` is counted in the estimation votes, and is there to explain. Nothing is drawn,
    nothing is claimed, and no look at the cache is recorded.
    """
    cache = cache if isinstance(cache, Cache) else Cache.open(cache)
    m, named = cache.manifest, method_named(method)
    if named.usual_plan == "uniform":
        raise ValueError(f"expected a method that plans its budget, such as auto, series or joint, got {named.name!r}")
    alpha = usual_alpha(m) if alpha is None else float(alpha)
    certificate = m.certificate if m.certificate in named.certificates else named.certificates[0]
    shares = [max(1, round(share * m.samples)) for share in SHARES]
    budgets = list(dict.fromkeys(shares)) if samples is None else np.atleast_1d(samples).tolist()
    if not budgets or not all(isinstance(budget, int) and budget > 0 for budget in budgets):
        raise ValueError(f"expected samples as whole numbers of at least 1, got {samples!r}")
    terms = Terms(m.samples, m.selection_samples, m.classes, m.noise, alpha, m.alpha, flips=flips)
    given = _Given.of(cache, terms, certificate)
    rows = tuple(given.expected(budget, named.options(certificate)) for budget in budgets)
    return ExpectedGain(
        len(given.certified), int(given.certified.sum()), float(cache.certificates.radius.mean()), alpha, certificate,
        named.name, rows,
    )  # fmt: skip


@dataclass(frozen=True)
class _Given:
    """What is known of the inputs of a cache."""

    terms: Terms
    beliefs: Beliefs
    certified: NDArray[np.bool_]
    top_votes: NDArray[np.int64]
    certificate: str

    @classmethod
    def of(cls, cache: Cache, terms: Terms, certificate: str) -> "_Given":
        selection = Selection(SelectionCounts(cache.counts(Stream.SELECTION)))
        top_votes = cache.counts(Stream.ESTIMATION)[np.arange(len(cache.digests)), selection.classes]
        certified = cache.certified(alpha=terms.alpha, certificate=certificate)
        return cls(terms, Beliefs.from_votes(selection), certified, top_votes, certificate)

    def expected(self, passes: int, options: Sequence[Option]) -> Expected:
        """What is expected if every input is given so many passes in the mean, shared out by the plan."""
        inputs, rows = len(self.certified), np.flatnonzero(self.certified)
        if not len(rows):
            return Expected(passes, 0.0, 0.0, np.inf, 0, 0)
        predictors, most = self._predictors(options, passes)
        choice = plan_budget(self.beliefs.of(rows), predictors, Objective(), passes * inputs, most)
        limited = limited_by_samples(self.top_votes[rows], self.terms.samples, choice.passes)
        anew = Scratch()
        (predict,), (largest,) = self._predictors(anew.options(self.certificate), self.terms.samples)
        own = anew.selection_samples
        same = equal_passes(self.beliefs, predict, Objective(), choice.worth, largest) + own
        spent = float(choice.passes.sum()) / inputs
        return Expected(
            passes, choice.worth / inputs, self._mean_radius(predict, passes - own),
            same / spent if spent else np.inf, int((limited & (choice.passes > 0)).sum()),
            int((choice.passes == 0).sum()),
        )  # fmt: skip

    def _predictors(self, options: Sequence[Option], passes: int) -> tuple[list[RadiusPredictor], list[int]]:
        """Of every option the radius that it is expected to reach, and the most passes that it may be given."""
        most = [min(option.method.most_passes(self.terms.samples), MOST_OF_MEAN * passes) for option in options]
        terms = [replace(self.terms, sides=option.sides) for option in options]
        return [
            option.method.expected_radius(each, largest)
            for option, each, largest in zip(options, terms, most, strict=True)
        ], most

    def _mean_radius(self, predict: RadiusPredictor, passes: int) -> float:
        """If every input is given so many."""
        if passes < 1:
            return 0.0
        radii = predict(self.beliefs.top[..., None], self.beliefs.runner_up[..., None], np.array([[[float(passes)]]]))
        return float(np.maximum(radii, 0.0).mean(axis=(1, 2))[self.beliefs.of_inputs].mean())
