"""The verbs `certify` and `predict` (Cohen et al., 2019): draw votes, keep them, bound them."""

import os
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recert import bounds
from recert.cache import Cache, Manifest
from recert.certificates import Certificates, Claims, Outcome, Settings
from recert.certificates.claims import outcome_column
from recert.engines import Execution, chosen_execution, open_votes
from recert.noise import Noise, Stream, checked_seed
from recert.noise.keys import LARGEST_SAMPLE
from recert.sampling import ProgressCallback, VoteSource, Work, check_unchanged, collect
from recert.sampling.network import Model
from recert.sampling.source import description, named
from recert.spot_check import check_stored_votes

Inputs = NDArray[np.float32] | torch.Tensor | None

CERTIFICATES = {"one-sided": 1, "two-sided": 2}
"""Kinds of certificate, and into how many bounds each splits alpha."""


def certify(
    model: Model | VoteSource,
    inputs: Inputs,
    *,
    noise: Noise,
    samples: int = 100_000,
    selection_samples: int | None = None,
    alpha: float = 0.001,
    seed: int = 0,
    certificate: str = "two-sided",
    family: str | int | None = None,
    store: str | os.PathLike[str] | None = None,
    classes: int | None = None,
    identity: str | None = None,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
) -> Cache:
    """Certify a model on inputs and keep every vote; the certificates are at `cache.certificates` (Algorithm 1).

    For each input on its own, with probability at least 1 - alpha, the prediction of the smoothed model is constant
    within the radius. `selection_samples` votes choose the class (100 unless given; up to
    500 if a store is kept, since re-certification plans its budget with them), `samples` other votes bound its probability and, with
    `certificate="two-sided"`, that of the runner-up (Theorem 1 in full); "one-sided" is Algorithm 1 to the letter.

    With `family="bonferroni"` alpha is for all inputs together, with a number for so many claims: each gets its share of it. Give
    the number from the start if inputs are to be added to a store later; the guarantee says what holds for all that it has.

    With `store`, votes are kept there (a path or an fsspec URL) and an interrupted run continues where it stopped. A
    larger `samples` extends a store, which is recorded as a second look. A callable model (batch to logits or labels)
    needs `identity`, a name for it, to be stored, and `classes` if it returns labels.

    `execution` says how and where the model is run; `device`, `batch_size` and `progress` may be given without it.
    """
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    members = family_members(family, model.digests if isinstance(model, VoteSource) else inputs)
    bounds.check_alpha(alpha)
    alpha, seed = alpha / members, checked_seed(seed)
    before = None if store is None else Cache.manifest_at(store)
    if selection_samples is None:
        selection_samples = usual_selection_samples(samples, store, before)
    check_settings(samples, selection_samples, alpha, certificate)
    with open_votes(
        model, inputs, noise=noise, seed=seed, classes=classes, identity=identity,
        execution=chosen.as_before(before.numerics if before else None).with_batch_size(before.batch_size if before else None),
        passes=samples + selection_samples,
    ) as source:  # fmt: skip
        if store is not None and (why := source.identity.nameless) is not None:
            raise ValueError(
                f"expected identity=... to store votes of this model, got none: {why}; name it, e.g. 'my-api-2024-05', and give it "
                "another name whenever it changes"
            )
        wanted = Manifest(
            model=source.identity, noise=noise, seed=seed, classes=source.classes, input_shape=source.input_shape,
            selection_samples=selection_samples, samples=samples, alpha=alpha, certificate=certificate, family=members,
            numerics=source.numerics, inputs=tuple(dict.fromkeys(source.digests)), looks=(samples,),
            claims=0 if family is None else members, names=named(source), model_parts=dict(description(source).parts),
        )  # fmt: skip
        with Cache.locked(store):
            cache = Cache.continue_or_create(
                wanted, store, source.digests, allow_numerics=chosen.allow_numerics, same_model=chosen.same_model
            )
            if before is not None:
                check_stored_votes(cache, source)
            _draw_missing(cache, source, chosen.progress)
    cache.note_look()
    return cache


def _draw_missing(cache: Cache, source: VoteSource, progress: ProgressCallback | None) -> None:
    """Draw what the cache lacks, and keep it as it comes."""
    position = {digest: i for i, digest in reversed(list(enumerate(source.digests)))}
    works = [Work(position[digest], stream, gap) for digest, stream, gap in cache.missing()]
    with cache.writing(before_part=lambda: check_unchanged(source)) as writer:
        try:
            for chunk in source.draw(works, "certifying", progress):
                digest, first = source.digests[chunk.work.position], int(chunk.work.samples[chunk.start])
                writer.add(digest, chunk.work.stream, first, chunk.votes, chunk.seconds)
        finally:  # memory may have run out and made batches smaller, whatever stopped the run
            cache.record_numerics(source.numerics)


def usual_selection_samples(samples: int, store: object, before: Manifest | None) -> int:
    """100 as everyone takes; what a store has already; else up to 500, since re-certification plans with them."""
    if store is None:
        return 100
    has_some = before is not None and before.selection_samples > 0  # a store of scattered votes promises none
    return before.selection_samples if before is not None and has_some else int(np.clip(samples // 20, 100, 500))


def predict(
    model: Model | VoteSource,
    inputs: Inputs,
    *,
    noise: Noise,
    samples: int = 1_000,
    alpha: float = 0.001,
    seed: int = 0,
    classes: int | None = None,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
) -> Certificates:
    """Prediction of the smoothed model, or an abstention (PREDICT).

    For each input on its own, with probability at least 1 - alpha, the class returned, if any, is the most probable one.
    Nothing is said about a radius, which is 0 here.
    """
    check_settings(samples, 1, alpha, "one-sided", smallest=1)
    seed = checked_seed(seed)
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    with open_votes(
        model,
        inputs,
        noise=noise,
        seed=seed,
        classes=classes,
        execution=chosen,
        passes=samples,
    ) as source:
        works = [Work(i, Stream.ESTIMATION, range(samples)) for i in range(len(source.digests))]
        drawn = collect(source, works, "predicting", chosen.progress)
        check_unchanged(source)
    counts = np.stack([d.counts for d in drawn])
    rows = np.arange(len(counts))
    ranked = np.argsort(-counts, axis=1, kind="stable")
    first, second = counts[rows, ranked[:, 0]], counts[rows, ranked[:, 1]]
    certain = bounds.two_sided_p_value(first, second) <= alpha
    claims = Claims(
        outcome=outcome_column(certain, Outcome.PREDICTED, Outcome.NOT_SIGNIFICANT),
        prediction=np.where(certain, ranked[:, 0], -1),
        radius=np.zeros(len(rows)),
        top_lower=np.full(len(rows), np.nan),
        runner_up_upper=np.full(len(rows), np.nan),
    )
    settings = Settings(
        method="predict", certificate="none", alpha=alpha, error=alpha, noise=noise.spec, seed=seed, samples=samples,
        selection_samples=0, model=asdict(source.identity), numerics=source.numerics,
    )  # fmt: skip
    return Certificates.build(
        source.digests, claims, settings, noise, top_votes=first, samples=samples, forward_passes=samples,
        seconds=np.array([d.seconds for d in drawn]), nobody=samples - counts.sum(axis=1),
    )  # fmt: skip


def check_settings(
    samples: int, selection_samples: int, alpha: float, certificate: str, smallest: int | None = None
) -> None:
    """Refuse settings that are wrong or that could never certify anything, before a sample is spent."""
    for name, value in (("samples", samples), ("selection_samples", selection_samples)):
        if not isinstance(value, int | np.integer):
            raise ValueError(f"expected {name} as a whole number, got {value!r}; write int({value!r})")
    if certificate not in CERTIFICATES:
        raise ValueError(f"expected certificate to be one of {', '.join(CERTIFICATES)}, got {certificate!r}")
    bounds.check_alpha(alpha)
    if not 1 <= selection_samples <= LARGEST_SAMPLE:
        raise ValueError(f"expected at least 1 selection sample, got {selection_samples}; a usual value is 100")
    smallest = smallest or bounds.smallest_samples_to_certify(alpha, sides=CERTIFICATES[certificate])
    if not smallest <= samples <= LARGEST_SAMPLE:
        raise ValueError(
            f"expected between {smallest} and {LARGEST_SAMPLE} samples at alpha = {alpha:g}, got {samples}; "
            f"with fewer than {smallest} every input abstains even if all votes agree"
        )


def family_members(family: str | int | None, inputs: Any) -> int:
    """Over how many claims alpha is divided: 1 without a family, else the number given or one for every input."""
    if family is None:
        return 1
    if isinstance(family, str) and family != "bonferroni":
        raise ValueError(f"expected family='bonferroni', a number of claims or None, got {family!r}")
    known = len(inputs) if hasattr(inputs, "__len__") else 0
    members = known if isinstance(family, str) else family
    if isinstance(members, bool) or not isinstance(members, int | np.integer) or members < 1:
        raise ValueError(f"expected a family of at least 1 claim, as a whole number, got {members!r}")
    if members < known:
        raise ValueError(
            f"expected a family of at least {known}, one claim for every input, got {members}; it counts all claims that "
            "are to hold together"
        )
    return int(members)
