"""Votes for the study of decisions at a radius: from stores, as other studies have them, or from one file, as the study of gamma has them, too."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert import Noise, StoredVotes, Stream, VoteSource
from studies.networks import ORIGINAL, open_votes
from studies.request import SELECTION_SAMPLES, Cell, Request
from studies.settings import provenance
from studies.votes import Votes

NAMES_IN_FILE = {
    ORIGINAL: "fp32", "bf16-weights": "bf16w", "fp16-weights": "fp16w", "int8-twin": "int8",
    "prune:0.05": "prune5", "prune:0.1": "prune10", "prune:0.2": "prune20",
}  # fmt: skip
"""Names of arrays (inputs x votes on the same noises) in a file of votes; others have the name of the change."""
FRESH = 1_000
"""The last columns of a file, which re-certification may have as new noises."""


@dataclass(frozen=True)
class VotesOfBoth:
    """Votes of a network and of a change of it."""

    original: VoteSource
    changed: VoteSource
    from_scratch: VoteSource
    """Votes of the change, as many as there are, for those that have no cache."""
    noise: Noise
    labels: NDArray[np.int64]
    selection: Votes
    estimation: Votes
    """All that `from_scratch` has."""
    flips: float
    """The share of cached noises on which both differ."""
    about: dict[str, Any]


@contextmanager
def votes_of_both(request: Request, cell: Cell) -> Iterator[VotesOfBoth]:
    if request.votes is not None:
        yield votes_in_file(request.votes, cell)
        return
    with open_votes(request, cell, ORIGINAL) as original, open_votes(request, cell, cell.approximation) as changed:
        before, after = (votes.first(Stream.ESTIMATION, cell.samples) for votes in (original, changed))
        yield VotesOfBoth(
            original, changed, changed, original.noise, changed.labels, changed.first(Stream.SELECTION, SELECTION_SAMPLES), after,
            float((before != after).mean()), {"original": provenance(original), "changed": provenance(changed)},
        )  # fmt: skip


def votes_in_file(path: Path, cell: Cell) -> VotesOfBoth:
    """Columns: those that choose, `cell.samples` that bound, and at the end those that are fresh."""
    with np.load(path) as file:
        names = [NAMES_IN_FILE.get(name, name) for name in (ORIGINAL, cell.approximation)]
        if lacking := [name for name in (*names, "labels") if name not in file]:
            raise ValueError(
                f"expected {', '.join(lacking)} in {path}, got {', '.join(file)}; choose --approximations that it has"
            )
        before, after = (file[name][: cell.count].astype(np.int64) for name in names)
        labels = file["labels"][: cell.count].astype(np.int64)
    usable = before.shape[1] - FRESH - SELECTION_SAMPLES
    if cell.samples > usable:
        raise ValueError(f"expected --samples of at most {usable} for {path}, got {cell.samples}")
    classes = int(max(before.max(), after.max())) + 1
    cached, fresh = slice(SELECTION_SAMPLES, SELECTION_SAMPLES + cell.samples), slice(-FRESH, None)
    original, changed = (
        StoredVotes(votes[:, cached], selection=votes[:, :SELECTION_SAMPLES], fresh=votes[:, fresh], classes=classes)
        for votes in (before, after)
    )
    every = np.concatenate([after[:, cached], after[:, fresh]], axis=1)
    return VotesOfBoth(
        original, changed, StoredVotes(every, selection=after[:, :SELECTION_SAMPLES], classes=classes), cell.noise, labels,
        after[:, :SELECTION_SAMPLES].astype(np.uint8), every.astype(np.uint8), float((before[:, cached] != after[:, cached]).mean()),
        {"file": path.name},
    )  # fmt: skip
