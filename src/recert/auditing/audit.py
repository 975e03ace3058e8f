"""`audit`: a random sample of the votes of a cache is drawn again."""

import os
import secrets
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recert import bounds
from recert.auditing.result import Audit, Verdict
from recert.auditing.shares import Share, enough, share_of
from recert.cache import Cache
from recert.engines import Execution, chosen_execution, open_votes
from recert.noise import Stream
from recert.sampling import ProgressCallback, VoteSource, Work, collect
from recert.sampling.network import Model

STREAMS = (Stream.SELECTION, Stream.ESTIMATION)
OTHER_NUMERICS = 0.001  # tolerated on another device, if not given: even rounding to float16 flips hardly more
FEWEST_FOR_A_BOUND = 10  # votes of one input: with fewer its own bound is of no use

Ints = NDArray[np.int64]


def audit(
    model: Model | VoteSource,
    inputs: NDArray[np.float32] | torch.Tensor | None,
    cache: Cache | str | os.PathLike[str],
    *,
    samples: int | None = None,
    alpha: float = 0.001,
    tolerate: float | None = None,
    detect: float = 0.01,
    identity: str | None = None,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
) -> Audit:
    """Replay a random sample of a cache's votes and decide whether the cache holds the votes of the model.

    Of every input `samples` votes are replayed, half of them selection votes, at indices from the operating system's
    entropy: who made the cache cannot know them. By default as many as it takes to decide. The verdict is "genuine" if, with
    probability at least 1 - `alpha`, the share of wrong votes of either kind is at most `tolerate` + `detect`; it is
    "not genuine" by mistake with probability at most `alpha` if no input has more than the share `tolerate` of wrong votes of either kind.

    `tolerate` is for last-bit differences of another device or version. If not given, it is 0 if the numerics are those of the
    cache (then a single wrong vote is proof), else 0.001. What no audit can show is in `recert.auditing.result.LIMITS`.
    """
    cache = cache if isinstance(cache, Cache) else Cache.open(cache)
    cache.require_equal_votes("to audit")  # the bounds on wrong votes are about inputs that have as many votes each
    manifest = cache.manifest
    _check(alpha, tolerate, detect, samples)
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    with open_votes(
        model, inputs, noise=manifest.noise, seed=manifest.seed, classes=manifest.classes, identity=identity,
        execution=chosen.with_batch_size(manifest.batch_size),
    ) as source:  # fmt: skip
        return _audited(source, cache, samples, alpha, tolerate, detect, chosen.progress)


def _audited(
    source: VoteSource, cache: Cache, samples: int | None, alpha: float, tolerate: float | None, detect: float,
    progress: ProgressCallback | None,
) -> Audit:  # fmt: skip
    """Replay votes of every input of the source, and judge by them."""
    manifest = cache.manifest
    here = replace(manifest, model=source.identity, input_shape=source.input_shape, numerics=source.numerics, names={})
    manifest.check_context(here, allow_numerics=True)
    other = tuple(manifest.numerics.differing(source.numerics))
    tolerate = (OTHER_NUMERICS if other else 0.0) if tolerate is None else tolerate
    # Where each input is for the first time. Backwards, so that of equal inputs the first is written last and remains.
    first = {digest: i for i, digest in reversed(list(enumerate(source.digests)))}
    digests = list(dict.fromkeys(source.digests))
    view = cache.about(digests)
    # Votes of both streams, shared out over the inputs and rounded up.
    needed = 2 * -(-enough(tolerate, detect, alpha / 2) // len(digests))
    per_stream = -(-(samples or max(needed, 2 * FEWEST_FOR_A_BOUND)) // 2)
    replayed, wrong, seconds = _replay(source, view, [first[digest] for digest in digests], per_stream, progress)
    shares = [
        share_of(
            int(wrong[:, s].sum()), int(replayed[:, s].sum()), len(digests) * manifest.wanted(stream),
            # The lower bounds of the two streams share half of alpha, those of single inputs the other half (see `_verdict`).
            # "genuine" rests on the two upper bounds alone, which share all of it.
            lower_alpha=alpha / 4, upper_alpha=alpha / 2,
        )
        for s, stream in enumerate(STREAMS)
    ]  # fmt: skip
    return Audit(
        verdict=_verdict(shares, replayed, wrong, view, alpha, tolerate, detect),
        selection=shares[0], estimation=shares[1], alpha=alpha, tolerate=tolerate, detect=detect,
        input=np.array(digests, dtype=object), replayed=replayed.sum(axis=1), wrong=wrong.sum(axis=1),
        wrong_upper=_upper_per_input(wrong[:, 1], replayed[:, 1], manifest.samples, alpha),
        cached_inputs=len(manifest.inputs), samples_to_decide=max(needed, 4 * per_stream if samples else needed),
        other_numerics=other, forward_passes=int(replayed.sum()), seconds=seconds, cache=view,
    )  # fmt: skip


def _replay(
    source: VoteSource, view: Cache, positions: list[int], per_stream: int, progress: ProgressCallback | None
) -> tuple[Ints, Ints, float]:
    """How many votes were replayed and how many of them were wrong (inputs x streams), and the seconds it took."""
    # Not the seeded generator of the rest of the library: whoever made the cache must not be able to foresee the indices.
    entropy = secrets.SystemRandom()
    works = [
        Work(position, stream, np.array(sorted(entropy.sample(range(n), min(n, per_stream))), dtype=np.int64))
        for position in positions
        for stream in STREAMS
        for n in [view.manifest.wanted(stream)]
    ]
    drawn = collect(source, works, "auditing", progress)
    slots = [(digest, stream) for digest in view.digests for stream in STREAMS]
    wrong = [
        int((d.votes != view.votes(digest, stream)[work.samples]).sum())
        for (digest, stream), work, d in zip(slots, works, drawn, strict=True)
    ]
    replayed = np.array([len(work.samples) for work in works], dtype=np.int64).reshape(-1, 2)
    return replayed, np.array(wrong, dtype=np.int64).reshape(-1, 2), sum(d.seconds for d in drawn)


def _verdict(
    shares: list[Share], replayed: Ints, wrong: Ints, view: Cache, alpha: float, tolerate: float, detect: float
) -> Verdict:
    """Half of alpha for the two streams as a whole, half for all inputs together."""
    # Each input by itself, too: forged votes of a single input would be lost among those of a thousand genuine ones.
    population = sum(view.manifest.wanted(stream) for stream in STREAMS)
    error = alpha / (2 * len(replayed))
    rows = [
        share_of(int(w), int(r), population, lower_alpha=error, upper_alpha=error)
        for w, r in zip(wrong.sum(axis=1), replayed.sum(axis=1), strict=True)
        if w
    ]
    if any(share.lower > tolerate for share in (*shares, *rows)):
        return Verdict.NOT_GENUINE
    if all(share.upper <= tolerate + detect for share in shares):
        return Verdict.GENUINE
    return Verdict.NOT_DECIDED


def _upper_per_input(wrong: Ints, replayed: Ints, population: int, alpha: float) -> NDArray[np.float64]:
    return np.array(
        [
            share_of(int(w), int(r), population, lower_alpha=alpha, upper_alpha=alpha).upper
            if r >= min(FEWEST_FOR_A_BOUND, population)
            else np.nan
            for w, r in zip(wrong, replayed, strict=True)
        ]
    )


def _check(alpha: float, tolerate: Any, detect: float, samples: int | None) -> None:
    bounds.check_alpha(alpha)
    if tolerate is not None and not 0 <= tolerate < 1:
        raise ValueError(f"expected a tolerated share of wrong votes from 0 to below 1, got {tolerate}")
    if not 1e-6 <= detect < 1:
        raise ValueError(
            f"expected a share of wrong votes to detect from 1e-6 to below 1, got {detect}; a usual value is 0.01"
        )
    if samples is not None and samples < 2:
        raise ValueError(f"expected at least 2 votes to replay per input, got {samples}; leave it out to decide")
