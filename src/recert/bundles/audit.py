"""Replaying votes of the model in a bundle: those of its cache, or those that were kept when it was re-certified."""

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.auditing import Verdict, audit
from recert.auditing.shares import enough, share_of
from recert.bundles.findings import Findings, left_open, right, wrong
from recert.cache import Cache
from recert.engines import Execution, open_votes
from recert.noise import Stream, input_digest
from recert.report import Result
from recert.sampling import ProgressCallback, Work, collect
from recert.sampling.inputs import checked_inputs

ALPHA, DETECT, OTHER_NUMERICS = 0.001, 0.01, 0.001
STREAMS = (Stream.SELECTION, Stream.ESTIMATION, Stream.FRESH)


@dataclass(frozen=True)
class AuditInputs:
    """The inputs that were certified, for replaying votes on them; their labels, if there are any; and the original of a changed
    model, for replaying its votes, too."""

    inputs: Any
    progress: ProgressCallback | None = None
    labels: Any = None
    original: Any = None


def check_data(asked: AuditInputs, result: Result) -> Findings:
    """Which inputs of the result these are, and whether their labels are those of the result."""
    given = checked_inputs(asked.inputs)
    digests = [input_digest(x) for x in given]
    wanted = set(result.certificates.input)
    there = wanted.intersection(digests)
    found = right(f"data: the result is about {len(there)} of the {len(set(digests))} inputs that were given")
    if absent := len(wanted) - len(there):
        found += left_open(f"votes on {absent} of the {len(wanted)} inputs of the result, which were not given")
    if result.labels is None:
        return found
    if asked.labels is None:
        return found + left_open("labels: whether they are those of the data, since the inputs were given without")
    # The same input may be there twice, with two labels.
    pairs = set(zip(digests, np.asarray(asked.labels).tolist(), strict=True))
    rows = zip(result.certificates.input, result.labels.tolist(), strict=True)
    others = sum(pair not in pairs for pair in rows if pair[0] in there)
    if others:
        return found + wrong(f"labels: {others} of the result are not those of the data")
    return found + right("labels: they are those of the data")


def audit_cache(
    model: Any, inputs: Any, cache: Cache, progress: ProgressCallback | None, *, of: str = "audit"
) -> Findings:
    """A random sample of the votes of the model's own cache."""
    if cache.manifest.plan or not cache.promises_votes:  # inputs have different numbers of votes
        return audit_kept(model, inputs, cache, progress)
    known = _known(inputs, set(cache.manifest.inputs))
    if known is None:
        return wrong(f"{of}: none of these inputs are in the cache; give the data that was certified")
    found = audit(model, known, cache, alpha=ALPHA, detect=DETECT, execution=Execution(progress=progress))
    line = f"{of}: {found.sentence}"
    return right(line) if found.verdict is Verdict.GENUINE else wrong(line)


def audit_kept(model: Any, inputs: Any, votes: Cache, progress: ProgressCallback | None) -> Findings:
    """A random sample of the votes that were kept of the changed model: which ones, nobody could know beforehand."""
    manifest, stored = votes.manifest, _stored(votes)
    known = _known(inputs, {digest for digest, _, _ in stored})
    if known is None:
        return wrong("audit: no votes were kept of these inputs; give the data that was certified")
    digests = {input_digest(x): i for i, x in reversed(list(enumerate(known)))}
    places = [(digest, stream, samples) for digest, stream, samples in stored if digest in digests]
    total = sum(len(samples) for _, _, samples in places)
    with open_votes(
        model, known, noise=manifest.noise, seed=manifest.seed, classes=manifest.classes,
        execution=Execution(progress=progress).with_batch_size(manifest.batch_size),
    ) as source:  # fmt: skip
        other = manifest.numerics.differing(source.numerics)
        tolerate = OTHER_NUMERICS if other else 0.0
        wanted = min(total, enough(tolerate, DETECT, ALPHA))
        works, before = _sample(votes, places, digests, wanted)
        drawn = collect(source, works, "auditing", progress)
    bad = sum(int((now.votes != then).sum()) for now, then in zip(drawn, before, strict=True))
    share = share_of(bad, wanted, total, lower_alpha=ALPHA / 2, upper_alpha=ALPHA)
    line = f"audit: {bad} of {wanted:,} kept votes that were replayed, out of {total:,}, are not what the model says"
    if share.lower > tolerate:
        return wrong(line)
    if share.upper > tolerate + DETECT:
        return left_open(f"{line}; too few to decide")
    numerics = f", on other numerics ({', '.join(other)})" if other else ""
    return right(f"{line}{numerics}; with probability {1 - ALPHA:g} at most {share.upper:.3%} are wrong")


def _stored(votes: Cache) -> list[tuple[str, Stream, NDArray[np.int64]]]:
    """Inputs, streams and samples of all votes in a store, in one order."""
    found = []
    for digest in votes.manifest.inputs:
        for stream in STREAMS:
            rows = votes.stored_rows(digest, stream)
            if rows:
                found.append((digest, stream, np.unique(np.concatenate([np.asarray(row.samples) for row in rows]))))
    return found


def _sample(
    votes: Cache, places: list[tuple[str, Stream, NDArray[np.int64]]], digests: dict[str, int], wanted: int
) -> tuple[list[Work], list[NDArray[Any]]]:
    """Some of all stored votes, each as likely as any other, by the operating system's entropy."""
    ends = np.cumsum([len(samples) for _, _, samples in places])
    chosen = np.array(sorted(secrets.SystemRandom().sample(range(int(ends[-1])), wanted)), dtype=np.int64)
    works, before = [], []
    for (digest, stream, samples), start, end in zip(places, (0, *ends[:-1]), ends, strict=True):
        mine = samples[chosen[(chosen >= start) & (chosen < end)] - start]
        if len(mine):
            works.append(Work(digests[digest], stream, mine))
            before.append(_votes(votes, digest, stream, mine))
    return works, before


def _votes(votes: Cache, digest: str, stream: Stream, samples: NDArray[np.int64]) -> NDArray[Any]:
    found = np.full(len(samples), -1, dtype=np.int64)
    for row in votes.stored_rows(digest, stream):
        here = np.isin(samples, np.asarray(row.samples))
        found[here] = row.votes_of(samples[here])
    return found


def _known(inputs: Any, digests: set[str]) -> NDArray[np.float32] | None:
    """The inputs that there are votes of; None if there are none."""
    given = checked_inputs(inputs)
    rows = [i for i, x in enumerate(given) if input_digest(x) in digests]
    return given[rows] if rows else None
