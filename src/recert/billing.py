"""`bill`: what a function will be asked, before it is asked anything."""

import os
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from recert.cache import Cache
from recert.certification import usual_selection_samples
from recert.noise import input_digest
from recert.sampling.inputs import checked_inputs
from recert.sampling.probe import PROBE_ROWS, PROBE_ROWS_AGAIN
from recert.sampling.remote import USUAL_BATCH, Remote
from recert.sampling.replays import FEWEST, MOST, ONE_IN
from recert.spot_check import INPUTS_OF_A_FUNCTION, SAMPLES_OF_A_FUNCTION


@dataclass(frozen=True)
class Bill:
    """What a function is to be asked for: rows, of which most are votes, and requests."""

    inputs: int
    votes: int
    """Rows whose answers are votes: what results call forward passes."""
    checks: int
    """Rows beside them that show whether the function can be certified, and that it did not change meanwhile."""
    batch_size: int

    @property
    def rows(self) -> int:
        """All rows; those that are sent again after an error come on top."""
        return self.votes + self.checks

    @property
    def requests(self) -> int:
        """About so many calls of the function."""
        return (
            -(-self.votes // self.batch_size) + -(-self.checks // self.batch_size) + 2
        )  # the two of the probe are short

    def __str__(self) -> str:
        return (
            f"{self.inputs:,} inputs, {self.votes:,} votes and {self.checks:,} rows to check the function: {self.rows:,} rows in about "
            f"{self.requests:,} requests of at most {self.batch_size:,}"
        )


def bill(
    model: Any,
    inputs: Any,
    *,
    samples: int,
    selection_samples: int | None = None,
    store: str | os.PathLike[str] | None = None,
    cache: Cache | str | os.PathLike[str] | None = None,
    batch_size: int | None = None,
) -> Bill:
    """How many rows a function would be asked for by `certify`, or with `cache` by `recertify`, with these arguments. Nothing is asked.

    What a store has already is left out. Of a re-certification the plan decides: `votes` is its budget, which is hardly exceeded.
    """
    if isinstance(model, nn.Module) or not callable(model):
        raise ValueError(
            f"expected a function, got {type(model).__name__}; of a network, recert certify --dry-run says what it takes"
        )
    allowed = model.batch_size if isinstance(model, Remote) else batch_size or USUAL_BATCH
    digests = list(dict.fromkeys(input_digest(x) for x in checked_inputs(inputs)))
    votes, checks = len(digests) * samples, PROBE_ROWS_AGAIN
    if cache is None:
        before = None if store is None else Cache.manifest_at(store)
        chosen = selection_samples or usual_selection_samples(samples, store, before)
        votes += len(digests) * chosen
        if before is not None and store is not None:
            votes = _missing(Cache.open(store), digests, samples, chosen)
            # Here the rows of the probe may be no votes that are wanted.
            checks += INPUTS_OF_A_FUNCTION * SAMPLES_OF_A_FUNCTION + PROBE_ROWS
    if votes:
        # Asked for again: one in a hundred, of a store with every part of it, else once.
        again = max(FEWEST, -(-votes // ONE_IN))
        checks += again if store is not None else min(again, MOST)
    return Bill(len(digests), votes, checks, min(batch_size or allowed, allowed))


def _missing(cache: Cache, digests: list[str], samples: int, selection_samples: int) -> int:
    """Votes that a store lacks of some inputs, once it has grown to so many of each."""
    known = cache.manifest
    wanted = replace(known, samples=samples, selection_samples=selection_samples, looks=(samples,))
    cache.manifest = known.extended(wanted)
    cache.digests = tuple(digests)
    return sum(len(gap) for _, _, gap in cache.missing())
