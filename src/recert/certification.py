"""The verbs `certify` and `predict` (Cohen et al., 2019): draw votes, keep them, bound them."""

import logging
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any, overload

import numpy as np
import torch

from recert import bounds, sequential
from recert.cache import Cache, Manifest
from recert.cache.looks import Looks, all_together, look_of_original
from recert.cache.signatures import warn_if_not_signed
from recert.caching import CachingSource
from recert.certificates import Certificates, Claims, Outcome, Settings
from recert.certificates.claims import outcome_column
from recert.engines import Execution, chosen_execution, open_votes
from recert.models.numerics import Numerics
from recert.noise import Noise, Stream, checked_seed
from recert.noise.keys import LARGEST_SAMPLE
from recert.planning import Selection, parse_plan, votes_to_bound
from recert.progress import shown
from recert.sampling import (
    ProgressCallback,
    ShowProgress,
    VoteSource,
    Work,
    check_unchanged,
    check_usable,
    collect,
    is_vote_source,
    most_samples,
    rows_sent,
    rows_sent_since,
)
from recert.sampling.gathering import Inputs, gathered
from recert.sampling.network import Model
from recert.sampling.source import description, named
from recert.spot_check import check_stored_votes
from recert.votes import SelectionCounts

log = logging.getLogger(__name__)


CERTIFICATES = {"one-sided": 1, "two-sided": 2}
"""Kinds of certificate, and into how many bounds each splits alpha."""


@overload
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
    plan: str | None = None,
    family: str | int | None = None,
    store: str | os.PathLike[str] | None = None,
    classes: int | None = None,
    identity: str | None = None,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ShowProgress = None,
) -> Cache: ...


@overload
def certify(
    model: Model | VoteSource, inputs: Inputs, *, noise: Noise, at: float | Sequence[float], **settings: Any
) -> Certificates: ...


def certify(  # type: ignore[misc]  # with `at`, the other settings are those listed here
    model: Model | VoteSource,
    inputs: Inputs,
    *,
    noise: Noise,
    samples: int = 100_000,
    selection_samples: int | None = None,
    alpha: float = 0.001,
    seed: int = 0,
    certificate: str = "two-sided",
    plan: str | None = None,
    at: float | Sequence[float] | None = None,
    enough: sequential.Enough | None = None,
    family: str | int | None = None,
    store: str | os.PathLike[str] | None = None,
    classes: int | None = None,
    identity: str | None = None,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ShowProgress = None,
) -> Cache | Certificates:
    """Certify a model on inputs and keep every vote; the certificates are at `cache.certificates` (Algorithm 1).

    Inputs are an array or tensor (float32, the first dimension counts them), a list of arrays, or a `DataLoader` or `Dataset` of
    torch, which is read whole, in its order; labels in it are left out.

    For each input on its own, with probability at least 1 - alpha, the prediction of the smoothed model is constant
    within the radius. `selection_samples` votes choose the class (100 unless given; up to
    500 if a store is kept, since re-certification plans its budget with them), `samples` other votes bound its probability and, with
    `certificate="two-sided"`, that of the runner-up (Theorem 1 in full); "one-sided" is Algorithm 1 to the letter.

    `plan` shares `samples`, then the mean, out over the inputs by their selection votes: "acr" where the sum of radii grows most,
    "accuracy:R" for the number certified at radius R. Estimation votes are never looked at for it, so that every claim holds as
    before. "uniform" gives every input as many, as is usual; a store keeps the plan that it has unless another is named, which is
    recorded as a second look. Re-certification needs equally many votes of every input.

    With `family="bonferroni"` alpha is for all inputs together, with a number for so many claims: each gets its share of it. Give
    the number from the start if inputs are to be added to a store later; the guarantee says what holds for all that it has.

    With `store`, votes are kept there (a path or an fsspec URL) and an interrupted run continues where it stopped. A
    larger `samples` extends a store, which is recorded as a second look. A callable model (batch to logits or labels)
    needs `identity`, a name for it, to be stored, and `classes` if it returns labels. It is given the rows that are needed and about one
    in a hundred more, which `cache.rows_sent` counts; `recert.bill` says so before, and `recert.Remote` how a service is asked.

    With `at`, a radius or several, the question is whether the radius is at least so large, and the result is `Certificates`: each
    input is drawn until the largest of them is shown, or the next seems out of reach, or it has had `samples` votes. Many
    are decided by some dozens. The error is alpha whenever one stops, so that a later call with more samples goes on where this one stopped.
    A call with other radii is a claim of its own; with `store` it is counted as a look, and the guarantee adds up the errors.
    `enough`, a function of the certificates so far, may end it. With `store` the votes are kept: a later call without `at`
    draws what it lacks, and makes claims of its own, whose error is added.

    `execution` says how and where the model is run; `device`, `batch_size` and `progress` may be given without it. Progress of work
    that takes more than two seconds is shown in a terminal and in a notebook; True shows it always, False never.
    """
    inputs = gathered(inputs)
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    members = family_members(family, model.digests if is_vote_source(model) else inputs)
    _check_one_alpha(alpha)
    alpha, seed = alpha / members, checked_seed(seed)
    before, sent = None if store is None else Cache.manifest_at(store), rows_sent(model)
    if store is not None and before is not None:
        warn_if_not_signed(store)
    if at is not None:
        if plan is not None:
            raise ValueError(
                f"expected no plan with at=..., where inputs are drawn until they are decided, got {plan!r}; leave it out"
            )
        asked = Settings(
            method="sequential", certificate=certificate, alpha=alpha, error=alpha, noise=noise.spec, seed=seed, samples=samples,
            selection_samples=SELECTION_TO_DECIDE if selection_samples is None else selection_samples, model={}, numerics=Numerics({}),
            at=tuple(sequential.checked_radii(at).tolist()), family=members,
        )  # fmt: skip
        _check_question(asked, noise)
        with shown(chosen.progress) as progress, open_votes(
            model, inputs, noise=noise, seed=seed, classes=classes, identity=identity,
            execution=chosen.as_before(before.numerics if before else None).with_batch_size(before.batch_size if before else None),
        ) as opened:  # fmt: skip
            _check_name(opened, store)
            if before is None:
                check_usable(opened)
            kept = None if store is None else CachingSource(opened, store=store, allow_numerics=chosen.allow_numerics)
            with kept or nullcontext(opened) as source:
                result = _decided(source, replace(asked, model=asdict(source.identity)), noise, enough, progress)
                return replace(result, settings=replace(result.settings, rows_sent=rows_sent_since(source, sent)))
    if enough is not None:
        raise ValueError("expected at=... with enough=..., got none; without a radius to decide all votes are drawn")
    plan = chosen_plan(plan, before)
    if selection_samples is None:
        selection_samples = usual_selection_samples(samples, store, before, planned=bool(plan))
    check_settings(samples, selection_samples, alpha, certificate)
    with shown(chosen.progress) as progress, open_votes(
        model, inputs, noise=noise, seed=seed, classes=classes, identity=identity,
        execution=chosen.as_before(before.numerics if before else None).with_batch_size(before.batch_size if before else None),
        passes=samples + selection_samples,
    ) as source:  # fmt: skip
        _check_name(source, store)
        if before is None:  # else the first of its rows are votes of the store, to compare with
            check_usable(source)
        wanted = Manifest(
            model=source.identity, noise=noise, seed=seed, classes=source.classes, input_shape=source.input_shape,
            selection_samples=selection_samples, samples=samples, alpha=alpha, certificate=certificate, family=members,
            numerics=source.numerics, inputs=tuple(dict.fromkeys(source.digests)), looks=(samples,),
            claims=0 if family is None else members, plan=plan, names=named(source), model_parts=dict(description(source).parts),
        )  # fmt: skip
        with Cache.locked(store):
            cache = Cache.continue_or_create(
                wanted, store, source.digests, allow_numerics=chosen.allow_numerics, same_model=chosen.same_model
            )
            if before is not None:
                check_stored_votes(cache, source)
            _draw_missing(cache, source, progress)
            if cache.to_be_planned():  # with a plan only selection votes were drawn so far
                cache.share_out(_shared_out(cache, most_samples(source, Stream.ESTIMATION)))
                _draw_missing(cache, source, progress)
        cache.rows_sent = rows_sent_since(source, sent)
    cache.note_look()
    return cache


SELECTION_TO_DECIDE = 50
"""Votes that choose the class where inputs are decided one by one: many inputs need few others."""


def _check_question(asked: Settings, noise: Noise) -> None:
    """Refuse a question that so many votes could never answer with yes, before one is spent."""
    check_settings(asked.samples, asked.selection_samples, asked.alpha, asked.certificate, smallest=1)
    for radius in reversed(asked.at):  # an error if the noise cannot show the largest
        threshold = sequential.class_alone(noise, radius)
    smallest = sequential.smallest_samples(threshold, asked.alpha, asked.selection_samples)
    if asked.samples < smallest:
        raise ValueError(
            f"expected at least {smallest} samples to show a radius of {asked.at[0]:g} at alpha = {asked.alpha:g}, got {asked.samples}; "
            "with fewer every input is undecided even if all votes agree"
        )


def _check_name(source: VoteSource, store: object) -> None:
    if store is not None and (why := source.identity.nameless) is not None:
        raise ValueError(
            f"expected identity=... (--identity) to store votes of this model, got none: {why}; name it, e.g. 'my-api-2024-05', and give it "
            "another name whenever it changes"
        )


def _decided(
    source: VoteSource,
    asked: Settings,
    noise: Noise,
    enough: sequential.Enough | None,
    progress: ProgressCallback | None,
) -> Certificates:
    """Each input drawn until it is decided."""
    distinct = list(dict.fromkeys(source.digests))
    positions = np.array([source.digests.index(digest) for digest in distinct], dtype=np.int64)
    works = [Work(int(i), Stream.SELECTION, range(asked.selection_samples)) for i in positions]
    chosen = collect(source, works, "choosing", progress)
    most = min(asked.samples, most_samples(source, Stream.ESTIMATION))
    question = sequential.Question(np.array(asked.at), asked.alpha, most)
    tally = sequential.FreshVotes(
        SelectionCounts(np.stack([votes.counts for votes in chosen])), noise, question.radii,
        runner_up=asked.certificate == "two-sided",
    )  # fmt: skip
    result = sequential.result_of(tally, question, source, positions, asked, noise, enough, progress)
    check_unchanged(source)
    result = replace(
        result,
        forward_passes=result.forward_passes + asked.selection_samples,
        seconds=result.seconds + np.array([votes.seconds for votes in chosen]),
        nobody=result.nobody + np.array([votes.nobody for votes in chosen]),
    )
    row = {digest: i for i, digest in enumerate(distinct)}
    return _counted(source, result).take([row[digest] for digest in source.digests])


def _counted(source: VoteSource, result: Certificates) -> Certificates:
    """The same, recorded as a look at the store, if there is one; with what holds for all such looks together."""
    looks: Looks | None = getattr(source, "looks", None)
    if looks is None:
        return result
    known, look = looks.known(), look_of_original(source.identity, result.settings, result.input)
    looks.add(look)
    return replace(result, settings=replace(result.settings, together=all_together(look, known, sizes=1)))


def _draw_missing(cache: Cache, source: VoteSource, progress: ProgressCallback | None) -> None:
    """Draw what the cache lacks, and keep it as it comes."""
    position = {digest: i for i, digest in reversed(list(enumerate(source.digests)))}
    works = [Work(position[digest], stream, gap) for digest, stream, gap in cache.missing()]
    wanted = (cache.manifest.samples + cache.manifest.selection_samples) * len(position)
    if kept := wanted - sum(len(work.samples) for work in works):
        log.info("%d of %d votes are kept from before", kept, wanted)
    with cache.writing(before_part=lambda: check_unchanged(source)) as writer:
        try:
            for chunk in source.draw(works, "certifying", progress):
                digest, first = source.digests[chunk.work.position], int(chunk.work.samples[chunk.start])
                writer.add(digest, chunk.work.stream, first, chunk.votes, chunk.seconds)
        finally:  # memory may have run out and made batches smaller, whatever stopped the run
            cache.record_numerics(source.numerics)


def chosen_plan(plan: str | None, before: Manifest | None) -> str:
    """What votes are shared out for, as a manifest has it: what is asked for, else that of the store. Empty for equally many votes."""
    if plan is None:
        return "" if before is None else before.plan
    objective = parse_plan(plan)
    return "" if objective is None else objective.text


def _shared_out(cache: Cache, most: int) -> dict[str, int]:
    """How many estimation votes each input gets that has no number yet: their own budget is shared out by their selection votes."""
    # In the order of their digests: which of equal inputs has more does not depend on the order that they come in.
    digests, m = sorted(cache.to_be_planned()), cache.manifest
    objective = parse_plan(m.plan)
    assert objective is not None
    counts = SelectionCounts(cache.selection_counts(digests))
    numbers = votes_to_bound(
        Selection(counts), objective, mean=m.samples, alpha=m.alpha, sides=CERTIFICATES[m.certificate], noise=m.noise,
        most=min(most, LARGEST_SAMPLE),
    )  # fmt: skip
    return dict(zip(digests, numbers.tolist(), strict=True))


def usual_selection_samples(samples: int, store: object, before: Manifest | None, *, planned: bool = False) -> int:
    """100 as everyone takes; what a store has already; else up to 500, since plans, and those of re-certification, go by them."""
    if store is None and not planned:
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
    progress: ShowProgress = None,
) -> Certificates:
    """Prediction of the smoothed model, or an abstention (PREDICT).

    For each input on its own, with probability at least 1 - alpha, the class returned, if any, is the most probable one.
    Nothing is said about a radius, which is 0 here.
    """
    check_settings(samples, 1, alpha, "one-sided", smallest=1)
    seed, sent = checked_seed(seed), rows_sent(model)
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    with shown(chosen.progress) as progress, open_votes(
        model, gathered(inputs), noise=noise, seed=seed, classes=classes, execution=chosen, passes=samples
    ) as source:  # fmt: skip
        works = [Work(i, Stream.ESTIMATION, range(samples)) for i in range(len(source.digests))]
        drawn = collect(source, works, "predicting", progress)
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
        selection_samples=0, model=asdict(source.identity), numerics=source.numerics, rows_sent=rows_sent_since(source, sent),
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
    if not isinstance(certificate, str) or certificate not in CERTIFICATES:
        raise ValueError(f"expected certificate to be one of {', '.join(CERTIFICATES)}, got {certificate!r}")
    _check_one_alpha(alpha)
    if not 1 <= selection_samples <= LARGEST_SAMPLE:
        raise ValueError(f"expected at least 1 selection sample, got {selection_samples}; a usual value is 100")
    smallest = smallest or bounds.smallest_samples_to_certify(alpha, sides=CERTIFICATES[certificate])
    if not smallest <= samples <= LARGEST_SAMPLE:
        raise ValueError(
            f"expected between {smallest} and {LARGEST_SAMPLE} samples at alpha = {alpha:g}, got {samples}; "
            f"with fewer than {smallest} every input abstains even if all votes agree"
        )


def _check_one_alpha(alpha: float) -> None:
    bounds.check_alpha(alpha)
    if np.ndim(alpha) > 0:
        raise ValueError(f"expected one alpha, a number between 0 and 1, got {alpha!r}; it is the same for all inputs")


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
