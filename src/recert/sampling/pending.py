"""Rows under way, and what is said where votes turn out to be others than they were."""

from dataclasses import dataclass

from recert.noise.stream import NoisyRows
from recert.sampling.host_lane import Ticket
from recert.votes import Votes

NOT_KEPT = "nothing that was drawn since the last part is kept; keep the model as it is while votes are drawn"


@dataclass(frozen=True)
class Pending:
    """Rows under way."""

    rows: NoisyRows
    batch_size: int
    ticket: Ticket


def raising(error: Exception) -> Ticket:
    """A ticket of a batch that could not be begun."""

    def ticket() -> tuple[Votes, float]:
        raise error

    return ticket


def votes_otherwise(wrong: int, votes: int, which: str) -> str:
    return (
        f"the model does not vote as it did: {wrong} of {votes} votes that were {which} are others now, beside other "
        f"rows in their batch: as if it counted its calls, looked at the clock, or at the rows around; {NOT_KEPT}"
    )
