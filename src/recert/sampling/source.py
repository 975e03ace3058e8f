"""Opens a source of votes, whether a model draws them or they exist already, and collects its votes by input."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recert.models.exported_program import as_module
from recert.models.identity import Description
from recert.noise import Noise, checked_noise, input_digest
from recert.sampling.inputs import checked_inputs
from recert.sampling.network import Model
from recert.sampling.sampler import Sampler
from recert.sampling.stored import StoredVotes
from recert.sampling.work import VOTE_SOURCE, ProgressCallback, VoteChunk, VoteSource, Work, is_vote_source
from recert.votes import Votes, count_votes


def open_source(
    model: Model | VoteSource,
    inputs: Any,
    *,
    noise: Noise,
    seed: int,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    classes: int | None = None,
    identity: str | None = None,
) -> VoteSource:
    """Votes of a model under noise, or a source of votes as it is."""
    checked_noise(noise)
    if isinstance(model, StoredVotes):
        if inputs is not None:
            raise ValueError("expected inputs=None with StoredVotes, got inputs; stored votes are known by their row")
        return model.with_classes(classes)
    if is_vote_source(model):
        _check_source(model, inputs, noise, seed)
        return model
    if hasattr(model, "draw") and not callable(model):
        lacking = [name for name in VOTE_SOURCE if not hasattr(model, name)]
        raise ValueError(
            f"expected a source of votes (VoteSource), got {type(model).__name__} without {', '.join(lacking)}"
        )
    if not callable(model):
        raise ValueError(
            f"expected a torch module, a callable or StoredVotes, got {type(model).__name__}; pass a function from a batch (a float32 "
            "tensor) to logits or labels, such as lambda batch: model.predict_proba(batch.numpy())"
        )
    return Sampler(
        as_module(model),
        inputs,
        noise=noise,
        seed=seed,
        batch_size=batch_size,
        device=device,
        classes=classes,
        identity=identity,
    )


def _check_source(source: VoteSource, inputs: Any, noise: Noise, seed: int) -> None:
    """Refuse a source that was made for another noise, seed or other inputs: it would draw those."""
    for name, wanted, known in (("noise", noise, source.noise), ("seed", seed, source.seed)):
        if known is not None and known != wanted:
            raise ValueError(f"expected a source of votes with {name} = {wanted}, got one with {known}; make it anew")
    if inputs is not None and [input_digest(x) for x in checked_inputs(inputs)] != source.digests:
        raise ValueError(
            "expected the inputs that the source of votes was made with, got others; make it anew for these"
        )


def description(source: VoteSource) -> Description:
    """What people tell the model of a source by, where the source knows."""
    known: Description = getattr(source, "description", Description())
    return known


def named(source: VoteSource) -> dict[str, str]:
    """The name of the model of a source, as a cache notes it."""
    name = description(source).name
    return {"model": name} if name else {}


def check_usable(source: VoteSource) -> None:
    """UnusableModel before anything is drawn or stored if the model cannot be certified, where the source can find out."""
    check = getattr(source, "check_usable", None)
    if check is not None:
        check()


def check_unchanged(source: VoteSource) -> None:
    """UnusableModel if the model has changed since its first vote was drawn, where the source can find out."""
    check = getattr(source, "check_unchanged", None)
    if check is not None:
        check()


def rows_sent(source: object) -> int | None:
    """Rows that a function was given so far, whatever for; None of a network, of votes that exist, and of other engines."""
    sent: int | None = getattr(source, "rows_sent", None)
    return sent


def rows_sent_since(source: object, before: int | None) -> int | None:
    """The same from some moment on, when they were `before`."""
    sent = rows_sent(source)
    return None if sent is None else sent - (before or 0)


@dataclass(frozen=True)
class Drawn:
    """All votes of one work."""

    votes: Votes
    classes: int
    seconds: float

    @property
    def counts(self) -> NDArray[np.int64]:
        """Votes by class."""
        return count_votes(self.votes, self.classes)

    @property
    def nobody(self) -> int:
        """Invalid votes among them."""
        return int(np.count_nonzero(self.votes >= self.classes))


def collect(
    source: VoteSource, works: Sequence[Work], task: str, progress: ProgressCallback | None = None
) -> list[Drawn]:
    """Draw works and put their chunks together again, one result per work, in order."""
    return list(collect_each(source, works, task, progress))


def collect_each(
    source: VoteSource, works: Sequence[Work], task: str, progress: ProgressCallback | None = None
) -> Iterator[Drawn]:
    """The same, each result as soon as it is whole."""
    return collected(source.draw(works, task, progress), works, source.classes)


def collected(chunks: Iterator[VoteChunk], works: Sequence[Work], classes: int) -> Iterator[Drawn]:
    """The same of a draw that was asked for already."""
    pieces: list[list[Votes]] = [[] for _ in works]
    seconds, left = [0.0] * len(works), [len(work.samples) for work in works]
    # By identity: two works may be equal, as for an input that is given twice, and hold arrays, which have no hash.
    number = {id(work): i for i, work in enumerate(works)}
    done = 0

    def whole(i: int) -> Drawn:
        votes = np.concatenate(pieces[i]) if pieces[i] else np.zeros(0, dtype=np.uint8)
        # Memory is that of works under way, not of all of them.
        pieces[i].clear()
        return Drawn(votes, classes, seconds[i])

    for chunk in chunks:
        i = number[id(chunk.work)]
        pieces[i].append(chunk.votes)
        seconds[i] += chunk.seconds
        left[i] -= len(chunk.votes)
        while done < len(works) and left[done] == 0:
            yield whole(done)
            done += 1
    yield from map(whole, range(done, len(works)))
