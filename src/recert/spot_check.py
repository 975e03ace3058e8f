"""A second check beside the model's identity: a few stored votes are replayed before a store is continued."""

from typing import Any

import numpy as np

from recert.cache import Cache
from recert.errors import ContextMismatch
from recert.models.digest import identify
from recert.noise import Stream
from recert.sampling import Sampler, VoteSource, Work, collect
from recert.sampling.network import Model
from recert.sampling.rounding import is_more_than_rounding

INPUTS, SAMPLES = 16, 4
"""So many inputs, and so many votes of each: fewer than a batch."""
INPUTS_OF_A_FUNCTION, SAMPLES_OF_A_FUNCTION = 4, 2
"""Of a function, whose rows may cost money: enough to tell another one, which votes otherwise on three of them."""


TASK = "checking stored votes"


def check_stored_votes(cache: Cache, source: VoteSource) -> None:
    """ContextMismatch if the model votes otherwise than the store says, more often than rounding explains."""
    works, stored = [], []
    paid = source.numerics.unpadded
    inputs, most = (INPUTS_OF_A_FUNCTION, SAMPLES_OF_A_FUNCTION) if paid else (INPUTS, SAMPLES)
    for position in _spread(cache, source, inputs):
        rows = cache.stored_rows(source.digests[position], Stream.ESTIMATION)
        for row in rows[:1]:
            samples = row.samples[:most]
            works.append(Work(position, Stream.ESTIMATION, samples))
            stored.append(row.votes_of(samples))
    if not works:
        return
    drawn = collect(source, works, TASK)
    votes = sum(map(len, stored))
    wrong = sum(int((now.votes != then).sum()) for now, then in zip(drawn, stored, strict=True))
    same_numerics = not source.numerics.not_seen_in(cache.manifest.numerics)
    if is_more_than_rounding(wrong, votes, same_numerics=same_numerics):
        raise ContextMismatch(
            "votes",
            "those it holds",
            f"another class on {wrong} of {votes} noises that were replayed",
            "the model is not the one that the store is about; use another store, or give it the identity that it has",
        )


def check_original(cache: Cache, model: Model, inputs: Any) -> None:
    """The same for a model that is about to be changed, if it is the one that the cache is about."""
    manifest = cache.manifest
    if identify(model) == manifest.model:
        check_stored_votes(
            cache, Sampler(model, inputs, noise=manifest.noise, seed=manifest.seed, batch_size=manifest.batch_size)
        )


def _spread(cache: Cache, source: VoteSource, inputs: int) -> list[int]:
    """Positions of inputs that the store has votes of, spread evenly."""
    first = {digest: i for i, digest in reversed(list(enumerate(source.digests)))}
    known = [i for digest, i in first.items() if cache.parts_with(digest, Stream.ESTIMATION)]
    return [known[i] for i in np.unique(np.linspace(0, len(known) - 1, inputs).astype(int))] if known else []
