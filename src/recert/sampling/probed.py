"""The rows that a function is probed with: rows of which votes are wanted anyway, since each may cost money."""

from collections.abc import Sequence

import numpy as np

from recert.noise import Stream
from recert.noise.stream import NoisyRows
from recert.sampling.device_lane import DeviceLane
from recert.sampling.host_lane import HostLane, Ticket
from recert.sampling.work import Work
from recert.votes import Votes


class ProbedRows:
    """What a function answered to its probe. Each answer serves once, as the vote that is wanted of its row."""

    def __init__(self) -> None:
        self._votes: dict[tuple[int, ...], int] = {}

    def remember(self, rows: NoisyRows, votes: Votes) -> None:
        """Keep the answers of the probe."""
        self._votes = dict(zip(_each(rows), votes.tolist(), strict=True))

    def submit(self, lane: HostLane | DeviceLane, rows: NoisyRows) -> Ticket:
        """Begin a batch, of which only those rows are sent that were not answered yet."""
        if not self._votes:
            return lane.submit(rows)
        answers = [self._votes.pop(row, None) for row in _each(rows)]
        known = np.array([answer is not None for answer in answers])
        if not known.any():
            return lane.submit(rows)
        ticket = None if known.all() else lane.submit(rows.where(~known))

        def whole() -> tuple[Votes, float]:
            new, seconds = (np.zeros(0, dtype=np.uint8), 0.0) if ticket is None else ticket()
            before = np.array([answer for answer in answers if answer is not None])
            votes = np.empty(len(known), dtype=np.promote_types(new.dtype, np.min_scalar_type(before.max())))
            votes[known], votes[~known] = before, new
            return votes, seconds

        return whole


def rows_for_certify(inputs: int, count: int) -> NoisyRows:
    """The first estimation votes of some inputs, in turn."""
    rows = np.arange(count, dtype=np.int64)
    return NoisyRows(rows % inputs, rows // inputs, np.full_like(rows, Stream.ESTIMATION))


def rows_of(works: Sequence[Work], count: int) -> NoisyRows:
    """The first samples of some works out of all of them, in turn; no row twice.

    >>> rows_of([Work(i, Stream.FRESH, range(5, 7)) for i in range(3)], 4).rows
    array([0, 1, 2, 0])
    """
    some = [works[i] for i in np.unique(np.linspace(0, len(works) - 1, count).astype(int))]
    turns = [(w.position, int(w.samples[i]), int(w.stream)) for i in range(count) for w in some if i < len(w.samples)]
    return NoisyRows(*np.array(list(dict.fromkeys(turns))[:count], dtype=np.int64).T)


def rows_of_one_input(rows: NoisyRows, position: int) -> NoisyRows:
    """As many rows of one input alone."""
    return NoisyRows(
        np.full_like(rows.rows, position), np.arange(len(rows.rows)), np.full_like(rows.rows, rows.streams[0])
    )


def _each(rows: NoisyRows) -> list[tuple[int, ...]]:
    return list(zip(rows.rows.tolist(), rows.samples.tolist(), rows.streams.tolist(), strict=True))
