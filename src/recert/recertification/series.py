"""Two components in series: P(f^p votes c) >= P(f votes c) * P(f^p votes c | f votes c). Ours."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.certificates import Outcome
from recert.noise import Stream
from recert.planning import RadiusPredictor
from recert.planning.prediction import Circumstances, series_table
from recert.recertification.draws import Draws
from recert.recertification.ledger import Ledger
from recert.recertification.task import Task
from recert.sampling import Drawn
from recert.votes import Votes, count_votes, first_places, merged

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SERIES, FEW_FLIPS = "series_lower", "few_flips_lower"
"""Two bounds of the same counts, by their names in `bounds`: they order outcomes differently."""


def series_draws(task: Task, ledger: Ledger, rows: Ints, passes: Ints, bound_name: str = SERIES) -> list[Draws[Any]]:
    """Replay only cached noises on which f voted for the class; Buehler's bound on the product spends alpha once.

    Valid because the number of replays does not depend on the estimation votes of the input: then the votes kept, given
    that f voted for the class, are independent of how often it did. Fewer cached votes than replays: no claim.
    """
    top_votes = task.estimation[rows, task.classes[rows]]
    enough = top_votes >= passes
    rows, passes, top_votes = rows[enough], passes[enough], top_votes[enough]
    noises = [
        first_places(task.cached_votes(row) == task.classes[row], m, 2 * m) for row, m in zip(rows, passes, strict=True)
    ]
    ledger.replayed[rows], ledger.top_votes[rows], ledger.samples[rows] = passes, top_votes, task.cached_samples

    def enter(i: int, drawn: Drawn) -> int:
        row = int(rows[i])
        ledger.spend(row, drawn)
        ledger.kept[row] = drawn.counts[task.classes[row]]
        ledger.lost[row] = passes[i] - ledger.kept[row]
        return row

    def bound(block: list[int]) -> None:
        kept, replayed = ledger.kept[block], ledger.replayed[block]
        top_lower = getattr(bounds, bound_name)(
            ledger.top_votes[block], task.cached_samples, kept, replayed, task.alpha
        )
        ledger.claim(np.array(block), top_lower, None, Outcome.TRANSFER_TOO_WEAK)

    return [Draws(rows, Stream.ESTIMATION, noises, enter, bound)]


def series_two_sided_draws(
    task: Task, ledger: Ledger, rows: Ints, passes: Ints, bound_name: str = SERIES
) -> list[Draws[Any]]:
    """The same for the class, and for every rival b turned round: f^p shuns b where f shuns it (Theorem 2 in full).

    alpha is spent half on the class and half on the rival that is most probable under f^p: it is one fixed class, and the
    largest of all upper bounds is at least its own. The replays of all bounds overlap; their union is drawn once.
    """
    wanted = (_Replay.of(task, row, m) for row, m in zip(rows, passes, strict=True))
    replays = [replay for replay in wanted if replay is not None]
    rows = np.array([replay.row for replay in replays], dtype=np.int64)
    n = task.cached_samples

    def enter(i: int, drawn: Drawn) -> tuple[_Replay, Ints]:
        replay = replays[i]
        row, kept = replay.row, replay.kept(drawn.votes, task.source.classes)
        ledger.spend(row, drawn)
        ledger.kept[row], ledger.lost[row] = kept[0], replay.wanted[0] - kept[0]
        ledger.replayed[row], ledger.top_votes[row], ledger.samples[row] = len(replay.union), replay.heads[0], n
        return replay, kept

    def bound(block: list[tuple[_Replay, Ints]]) -> None:
        # One call for all rows and rivals: equal counts are bounded once, and threads share the rest.
        heads, wanted = (np.concatenate([getattr(replay, name) for replay, _ in block]) for name in ("heads", "wanted"))
        lower = getattr(bounds, bound_name)(
            heads, n, np.concatenate([kept for _, kept in block]), wanted, task.alpha / 2
        )
        ends = np.cumsum([len(kept) for _, kept in block])[:-1]
        for (replay, _), mine in zip(block, np.split(lower, ends), strict=True):
            rival = np.nextafter(1 - mine[1:].min(), 2.0)
            ledger.claim(np.array([replay.row]), mine[:1], np.array([rival]), Outcome.TRANSFER_TOO_WEAK)

    return [Draws(rows, Stream.ESTIMATION, [replay.union for replay in replays], enter, bound)]


@dataclass(frozen=True)
class _Replay:
    """The noises of one input that its bounds are about: the class first, then its rivals, then all unseen rivals at once."""

    row: int
    rivals: Ints
    heads: Ints
    """Votes of f for the class, and votes of f that shun each rival."""
    wanted: Ints
    members: list[Ints]
    """For each bound the places of its replays in the union."""
    union: Ints
    top: int

    @classmethod
    def of(cls, task: Task, row: int, passes: int) -> "_Replay | None":
        """None if the cache has too few noises for a bound."""
        votes, selection, estimation = task.cached_votes(row), task.selection[row], task.estimation[row]
        c = int(task.classes[row])
        rivals = np.flatnonzero((selection > 0) | (estimation > 0))
        rivals = rivals[rivals != c]
        share = (selection + 0.5) / (selection.sum() + 1.0)
        about = np.concatenate([[share[c]], 1 - share[rivals], [1 - 0.5 / (selection.sum() + 1.0)]])
        wanted = np.maximum(1, np.floor(about * passes)).astype(np.int64)
        heads = np.concatenate([[estimation[c]], len(votes) - estimation[rivals], [len(votes)]])
        if (heads < wanted).any():
            return None
        noises = [votes == c, *(votes != b for b in rivals), np.ones(len(votes), dtype=bool)]
        chosen = [first_places(here, m, 2 * passes) for here, m in zip(noises, wanted, strict=True)]
        union = merged(chosen)
        return cls(row, rivals, heads, wanted, [np.searchsorted(union, places) for places in chosen], union, c)

    def kept(self, votes: Votes, classes: int) -> Ints:
        """Replays that stay as they were. A vote for nobody is lost by the class, but shuns every rival."""
        top = np.count_nonzero(votes[self.members[0]] == self.top)
        shunned = [np.count_nonzero(votes[m] != b) for m, b in zip(self.members[1:-1], self.rivals, strict=True)]
        anywhere = count_votes(votes[self.members[-1]], classes)
        anywhere[[self.top, *self.rivals]] = 0
        return np.array([top, *shunned, self.wanted[-1] - anywhere.max()], dtype=np.int64)


def series_radius(task: Task, flips: float, largest: int, bound_name: str = SERIES) -> RadiusPredictor:
    """The radius that series is expected to reach."""
    return series_table(Circumstances(task.cached_samples, task.alpha, flips), largest, bound_name).radius(task.sigma)


def series_two_sided_radius(task: Task, flips: float, largest: int, bound_name: str = SERIES) -> RadiusPredictor:
    """The same with the runner-up. Of m noises, the class has p m and a rival is shunned on (1 - q) m."""
    half = series_table(Circumstances(task.cached_samples, task.alpha / 2, flips), largest, bound_name)

    def predicted(p: Floats, q: Floats, m: Floats) -> Floats:
        top = half.quantile(p, m * p)
        return task.sigma / 2 * np.maximum(top + np.maximum(half.quantile(1 - q, m * (1 - q)), top), 0.0)

    return predicted
