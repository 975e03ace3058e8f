"""Certificates from the votes of a cache."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recert.cache.checking import STREAMS
from recert.cache.manifest import short_identity
from recert.certificates import Certificates, Outcome, Settings, certified, claim_one_sided, claim_two_sided
from recert.certificates.html_table import html_table, result_rows
from recert.noise import Stream

if TYPE_CHECKING:
    from recert.cache.cache import Cache


def certificates_of(
    cache: "Cache", seconds: Callable[[str], float], *, alpha: float | None, certificate: str | None
) -> Certificates:
    """Certificates of the inputs that a cache is about, with the seconds that drawing the votes of each took."""
    alpha = cache.manifest.alpha if alpha is None else alpha
    certificate = certificate or cache.manifest.certificate
    noise = cache.manifest.noise
    selection, estimation = (cache.counts(stream) for stream in STREAMS)
    n = np.array([cache.manifest.wanted_of(digest, Stream.ESTIMATION) for digest in cache.digests], dtype=np.int64)
    top, top_votes, rival_votes = _by_class(selection, estimation)
    # Without a vote all but one might have been for a rival: bounds on a single vote, none of it for the class, certify nothing.
    if certificate == "two-sided":
        claims = claim_two_sided(top, top_votes, np.maximum(rival_votes, n == 0), np.maximum(n, 1), alpha, noise)
    else:
        claims = claim_one_sided(top, top_votes, np.maximum(n, 1), alpha, noise)
    claims.outcome[n == 0] = Outcome.LEFT_OUT_BY_PLAN.value
    passes = n + cache.manifest.selection_samples
    result = Certificates.build(
        cache.digests,
        claims,
        cache.settings(method="certify", certificate=certificate, alpha=alpha),
        noise,
        top_votes=top_votes,
        samples=n,
        forward_passes=passes,
        seconds=np.array([seconds(digest) for digest in cache.digests]),
        nobody=passes - selection.sum(axis=1) - estimation.sum(axis=1),
    )
    # An input that is given twice was drawn once: `take` charges its forward passes to the first row only.
    return result.take(_first_of_each(cache.digests))


def certified_of(cache: "Cache", *, alpha: float, certificate: str) -> NDArray[np.bool_]:
    """Which inputs get a certificate."""
    cache.require_equal_votes("to tell which are certified")
    selection, estimation = (cache.counts(stream) for stream in STREAMS)
    _, top_votes, rival_votes = _by_class(selection, estimation)
    return certified(top_votes, rival_votes, cache.manifest.samples, alpha, certificate=certificate)


def settings_of(cache: "Cache", *, method: str, certificate: str, alpha: float, error: float | None) -> Settings:
    """Settings of certificates that are drawn from a cache alone."""
    m = cache.manifest
    claims = max(m.claims, len(m.inputs)) if m.claims or m.family > 1 else 0
    return Settings(
        method=method, certificate=certificate, alpha=alpha, error=alpha if error is None else error,
        noise=m.noise.spec, seed=m.seed, samples=m.samples, selection_samples=m.selection_samples,
        model=asdict(m.model), numerics=m.numerics, looks=cache.sizes, family=m.family, claims=claims, plan=m.plan,
        same_models=tuple(map(short_identity, m.same_models)),
    )  # fmt: skip


def table_of(cache: "Cache", where: str) -> str:
    """What a notebook shows of a cache."""
    m = cache.manifest
    rows = {
        "where": where,
        "model": m.names.get("model", f"{m.model.weights[:12]}, {m.model.structure[:40]}"),
        "inputs": f"{len(cache.digests):,}",
        "noise": f"{m.noise.spec}, seed {m.seed}",
        "n": f"{m.samples:,}, and {m.selection_samples:,} to choose the class"
        if cache.promises_votes
        else "scattered votes",
    }
    if cache.promises_votes:
        rows |= {"alpha": f"{m.alpha:g}, {m.certificate}"}
        missing = sum(len(gap) for _, _, gap in cache.missing())
        rows |= {"votes missing": f"{missing:,}"} if missing else result_rows(cache.certificates)
    return html_table("Cache", rows)


def _by_class(
    selection: NDArray[np.int64], estimation: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The class of each input, its votes, and those of the largest rival."""
    # Selection votes choose the class, estimation votes bound it: the same votes for both would favour the class they chose.
    rows, top = np.arange(len(selection)), selection.argmax(axis=1)
    rivals = estimation.copy()
    rivals[rows, top] = 0
    return top, estimation[rows, top], rivals.max(axis=1)


def _first_of_each(digests: Sequence[str]) -> NDArray[np.int64]:
    """For every position, the first position with the same input: repeats of an input take no further votes."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(digest, i) for i, digest in enumerate(digests)], dtype=np.int64)
