"""One door to votes, wherever they come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recert.noise import Gaussian
from recert.sampling.network import Model
from recert.sampling.remembering import RememberingSource
from recert.sampling.sampler import Sampler
from recert.sampling.stored import StoredVotes
from recert.sampling.work import ProgressCallback, VoteSource, Work
from recert.votes import Votes, count_votes


def open_source(
    model: Model | StoredVotes | RememberingSource,
    inputs: Any,
    *,
    noise: Gaussian,
    seed: int,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    classes: int | None = None,
    identity: str | None = None,
) -> VoteSource:
    """Votes of a model under noise, or stored votes as they are."""
    if not isinstance(noise, Gaussian):
        raise ValueError(f"expected a noise such as recert.Gaussian(0.5), got {noise!r}")
    if isinstance(model, RememberingSource):
        return model
    if isinstance(model, StoredVotes):
        if inputs is not None:
            raise ValueError("expected inputs=None with StoredVotes, got inputs; stored votes are known by their row")
        return model.with_classes(classes)
    if not callable(model):
        raise ValueError(f"expected a torch module, a callable or StoredVotes, got {type(model).__name__}")
    return Sampler(
        model, inputs, noise=noise, seed=seed, batch_size=batch_size, device=device, classes=classes, identity=identity
    )


@dataclass(frozen=True)
class Drawn:
    """All votes of one work, counted."""

    votes: Votes
    counts: NDArray[np.int64]
    seconds: float


def collect(
    source: VoteSource, works: Sequence[Work], task: str, progress: ProgressCallback | None = None
) -> list[Drawn]:
    """Draw works and put their chunks together again, one result per work, in order."""
    pieces: list[list[Votes]] = [[] for _ in works]
    seconds = [0.0] * len(works)
    number = {id(work): i for i, work in enumerate(works)}
    for chunk in source.draw(works, task, progress):
        i = number[id(chunk.work)]
        pieces[i].append(chunk.votes)
        seconds[i] += chunk.seconds
    votes = [np.concatenate(p) if p else np.zeros(0, dtype=np.uint8) for p in pieces]
    return [Drawn(v, count_votes(v, source.classes), s) for v, s in zip(votes, seconds, strict=True)]
