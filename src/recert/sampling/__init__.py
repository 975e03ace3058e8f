"""Draws votes: the only package that calls a model."""

from recert.sampling.remote import Remote
from recert.sampling.sampler import Sampler
from recert.sampling.source import (
    Drawn,
    check_unchanged,
    check_usable,
    collect,
    collect_each,
    open_source,
    rows_sent,
    rows_sent_since,
)
from recert.sampling.stored import StoredVotes
from recert.sampling.work import (
    Progress,
    ProgressCallback,
    ShowProgress,
    VoteChunk,
    VoteSource,
    Work,
    is_vote_source,
    most_samples,
)

__all__ = [
    "Drawn",
    "Progress",
    "ProgressCallback",
    "Remote",
    "Sampler",
    "ShowProgress",
    "StoredVotes",
    "VoteChunk",
    "VoteSource",
    "Work",
    "check_unchanged",
    "check_usable",
    "collect",
    "collect_each",
    "is_vote_source",
    "most_samples",
    "open_source",
    "rows_sent",
    "rows_sent_since",
]
