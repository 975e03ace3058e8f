"""Which workers are admitted: those that can open the network and compute like the first."""

from recert.engines.worker import Facts, Refusal
from recert.errors import LostWorkers, UnusableModel
from recert.models.numerics import Numerics

DEATHS_AT_START = 3


class Admission:
    """Decides about workers by what they report when they have started, and gives up when none survives its start."""

    def __init__(self, allow_numerics: bool) -> None:
        self._allow_numerics = allow_numerics
        self._deaths = 0
        """Workers in a row that died before one was admitted."""
        self.facts: list[Facts] = []
        """Of all workers that were admitted; the first sets the batch size and the numerics."""

    def reason_against(self, report: Facts | Refusal) -> str | None:
        """Why a worker is not admitted; None if it is.

        The first worker must be admitted: if it cannot open the network, the network itself is at fault, and that is an
        error. If a later one cannot, its node is at fault, and the others go on without it.
        """
        if isinstance(report, Refusal):
            if not self.facts:
                raise UnusableModel(f"{report.reason} (on node {report.node})")
            return f"{report.reason} (on node {report.node})"
        if self.facts:
            # All workers are given one batch size; only a lack of memory makes a worker take a smaller one.
            if report.numerics.batch_size != self.facts[0].numerics.batch_size:
                return f"out of memory as it started on node {report.node}"
            if not self._allow_numerics:
                check_alike(self.facts[0], report)
        self.facts.append(report)
        self._deaths = 0
        return None

    def count_death_at_start(self, reason: str, *, others_work: bool) -> None:
        """Count a worker that died before it was admitted. While others work, that is no reason to stop."""
        self._deaths += 1
        if self._deaths >= DEATHS_AT_START and not others_work:
            raise LostWorkers(f"{self._deaths} workers in a row died as they started, the last by: {reason}")

    def too_many_deaths(self, wanted: int) -> bool:
        """Whether so many workers died at their start that starting more of them is pointless."""
        return self._deaths >= DEATHS_AT_START * wanted


def check_alike(first: Facts, other: Facts) -> None:
    """Raise LostWorkers unless both compute alike: votes of workers that differ are not the votes of one model."""
    one, two = (facts.numerics.joined(Numerics({"instructions": (facts.instructions,)})) for facts in (first, other))
    for name in one.differing(two):
        raise LostWorkers(
            f"expected workers that compute alike, got {name} = {one.text(name)} on {first.node} and {two.text(name)} on "
            f"{other.node}; use nodes of one kind, or pass allow_numerics=True (--allow-numerics) to mix them"
        )
