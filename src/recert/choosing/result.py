"""What `select` found: the winner with its certificates, the status of every candidate, and what that cost."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from recert.certificates import Certificates

SCRATCH_SELECTION_SAMPLES = 100
"""Votes that choose the class when a candidate is certified from scratch; 100 is usual since Cohen et al."""


class Status(StrEnum):
    """What became of a candidate."""

    WINNER = "winner"
    NOT_CERTIFIED = "certified below the target"
    DROPPED = "dropped in the race"
    NOT_NEEDED = "not needed"
    NO_ERROR_LEFT = "no error left to certify it with"


@dataclass(frozen=True)
class Entry:
    """One candidate. What is predicted comes from the race and is no claim; what is certified is one."""

    name: str
    cost: float
    status: Status
    predicted: float
    predicted_low: float
    predicted_high: float
    chance: float
    """How probable the race thought it that the candidate is within the tolerance."""
    certified: float | None
    alpha: float | None
    """Error probability of each of its certificates, if it was certified."""
    race_passes: int
    final_passes: int

    @property
    def value(self) -> float:
        """The metric: certified, or predicted if it was not certified."""
        return self.predicted if self.certified is None else self.certified


@dataclass(frozen=True, repr=False)
class Chosen:
    """The cheapest candidate that was certified within the tolerance, or none. Entries are in order of cost."""

    winner: str | None
    certificates: Certificates | None
    """Of the winner, on noise that the race did not use."""
    entries: tuple[Entry, ...]
    metric: str
    tolerance: float
    base: float
    """The metric of the original's certificates in the cache."""
    base_alpha: float
    alpha: float
    family: int
    cost_unit: str
    cost_note: str
    inputs: int
    samples: int
    base_passes: int
    drawn: int | None = None
    """How many of the forward passes were made now; the others had been made before, and were kept."""
    rows_sent: int | None = None
    """How many rows candidates that are functions were given, what checks and attempts that failed took included; None without any."""

    def __repr__(self) -> str:
        return f"<Chosen: {self.winner or 'none'} of {len(self.entries)} candidates, {self.passes:,} forward passes>"

    @property
    def target(self) -> float:
        """What a candidate's certificates had to reach."""
        return self.base - self.tolerance

    @property
    def finalists(self) -> int:
        return sum(entry.certified is not None for entry in self.entries)

    @property
    def pareto(self) -> list[Entry]:
        """Entries that are better than every cheaper one, in order of cost; by certified values where there are any."""
        best: list[Entry] = []
        for entry in self.entries:
            # Entries come in order of cost: only those of equal cost can still be removed by a better one.
            if not best or entry.value > best[-1].value:
                best = [*(e for e in best if e.cost < entry.cost), entry]
        return best

    @property
    def passes(self) -> int:
        """Forward passes of the race and of all finalists; the original's, in the cache, are not among them."""
        return sum(entry.race_passes + entry.final_passes for entry in self.entries)

    @property
    def exhaustive_passes(self) -> int:
        """Forward passes of certifying every candidate from scratch, with as many votes as the original."""
        return len(self.entries) * self.inputs * (self.samples + SCRATCH_SELECTION_SAMPLES)

    @property
    def guarantee(self) -> str:
        """What holds, and what is not claimed."""
        if self.winner is None:
            return (
                f"No candidate was certified to reach {self.target:.4f} ({self.metric} of the original's certificates, {self.base:.4f}, "
                f"less {self.tolerance:g}). That none could is not claimed: a larger tolerance or more samples may find one."
            )
        value = next(entry.certified for entry in self.entries if entry.name == self.winner)
        held = (
            f"all {self.family} certificates of {self.winner} hold together with probability at least {1 - self.alpha:g}"
            if self.family > 1
            else f"for each input on its own, the certificate of {self.winner} holds with probability at least {1 - self.alpha:g}"
        )
        return (
            f"On these {self.inputs} inputs the certificates of {self.winner} have {self.metric} = {value:.4f}, at least the {self.target:.4f} "
            f"asked for (the original's certificates, each wrong with probability at most {self.base_alpha:g}, have {self.base:.4f}). Over the "
            f"noise drawn, {held}; the choice among {len(self.entries)} candidates, {self.finalists} of them certified, is accounted for. "
            "That no cheaper candidate would do is not claimed."
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row per candidate, in order of cost."""
        return [{**asdict(entry), "status": entry.status.value} for entry in self.entries]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the certificates, ready for JSON."""
        own = {
            name: getattr(self, name)
            for name in ("winner", "metric", "tolerance", "base", "target", "base_alpha", "alpha", "family", "cost_unit", "cost_note",
                         "inputs", "samples", "passes", "drawn", "rows_sent", "exhaustive_passes", "base_passes", "finalists", "guarantee")
        }  # fmt: skip
        return {**own, "candidates": self.rows()}
