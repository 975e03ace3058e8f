"""The verb `recertify`, and `draw_votes`, which only draws what it needs."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from recert.cache import Cache, Manifest
from recert.certificates import Certificates
from recert.certification import CERTIFICATES, check_settings, family_members
from recert.engines import Execution, chosen_execution, open_votes
from recert.keeping import Keep, Keeping, KeptVotes
from recert.models.calibrated import warn_of_calibration
from recert.planning import Objective, parse_plan
from recert.progress import shown
from recert.recertification.decision import Decision, check_alone
from recert.recertification.everyone import without_all
from recert.recertification.looks import PendingLook, planned_share
from recert.recertification.method import Strategy
from recert.recertification.registry import method_named
from recert.recertification.remarks import with_remarks
from recert.recertification.run import check_passes, replay, run
from recert.recertification.task import Task, usual_alpha
from recert.sampling import ShowProgress, VoteSource, is_vote_source, rows_sent, rows_sent_since
from recert.sampling.gathering import Inputs, gathered
from recert.sampling.network import Model
from recert.sequential import Enough


def recertify(
    model: Model | VoteSource,
    inputs: Inputs,
    cache: Cache | str | os.PathLike[str],
    *,
    samples: int,
    alpha: float | None = None,
    method: str | Strategy = "auto",
    plan: str | None = None,
    certificate: str | None = None,
    family: str | int | None = None,
    at: float | Sequence[float] | None = None,
    enough: Enough | None = None,
    looks: int | None = None,
    identity: str | None = None,
    keep: Keep = True,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ShowProgress = None,
) -> Certificates:
    """Certify a modified model from the cache of the original, with `samples` forward passes per input.

    For each input on its own, with probability at least 1 - `result.settings.error`, the prediction of the smoothed
    modified model is constant within the radius. Methods:

    - "auto": for each input whichever of series, series for few flips, joint and fresh votes promises most, judged by its
      selection votes and by the flips on other inputs.
    - "series": replay cached noises on which the original voted for the class; Buehler's bound on the product.
    - "paired": replay both kinds of noise and count gains, too; Fisher's combination.
    - "joint": as paired, with fixed numbers of replays and one bound over all counts; mostly larger.
    - "irs", the paper's: bound the disparity of the two models on cached noises and subtract it from the cached bound;
      `recert.Irs(reuse_threshold=..., form=...)` has its knobs. One-sided, and the same for every input unless given.
    - "scratch", Cohen's baseline: ignores the cache; `recert.Scratch(selection_samples=...)` says how many votes choose.
    - "scratch-cached", a baseline that is given the cached class and skips what the original abstained on.

    The class is the cached one, and inputs on which the original abstained cost nothing (but for "scratch").

    `plan` shares the budget out: "acr" where the sum of radii grows most, "accuracy:R" for the number certified at radius R,
    "uniform" gives every input `samples`. "acr,all" and "accuracy:R,all" leave no input out: those
    that the plan has nothing for are given half of `samples`. With a plan, `samples` is about the mean over all inputs, and no input is given more
    replays than half as many as the cache has votes; auto draws fresh votes beyond that, and warns where replays
    save hardly any passes. The default is "acr" for auto, series, paired and joint. `certificate` is the cache's unless given: with "two-sided" the runner-up is bounded, too, where that
    promises a larger radius.

    `alpha` is the total error probability per input; by default twice the cache's, as in the paper. With
    `family="bonferroni"` it is that of all inputs together, with a number that of so many claims: for k models on N inputs, k * N,
    with k counting every model that could have been reported.

    To re-certify the same model from the same cache again, with more samples or another method, is another look at the same
    votes. Looks are recorded with the cache, and `result.guarantee` says what holds for all of them together. To plan for it,
    pass `looks=4`: each look has a quarter of alpha, and budgets of `samples`, twice, four and eight times as many are fixed by
    the first. Take the next by calling again with one of these budgets and nothing else changed; all four hold together.

    With `at`, a radius or several, the question is whether the radius is at least so large. Cached noises are replayed in their order until
    the largest of these radii is shown of an input, or the next seems out of reach, or it has had `samples` passes: a few
    dozen for most inputs. The error is alpha whenever one stops, so that a later call with more samples is no further look. `enough`, a
    function of the certificates so far, may end it. There is no method, plan or look to choose.

    The votes that are drawn are kept in a folder beside the cache, its name with ".replays" at the end, if the cache is stored and the
    model has a name. So a run that was interrupted continues where it stopped, and another look draws only what is new;
    what it claims, and costs in alpha, is the same. `keep=False` keeps nothing, `keep=FOLDER` keeps them there.

    `execution` says how and where the model is run; `device`, `batch_size` and `progress` may be given without it. The batch
    size is the cache's unless given. The modified model must be fixed before: it must not have been tuned on the cached noise.
    """
    cache = cache if isinstance(cache, Cache) else Cache.open(cache)
    inputs = gathered(inputs)
    claims = family_members(family, model.digests if is_vote_source(model) else inputs)
    error = _error_of_a_claim(cache.manifest, alpha, claims, looks)
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    _check_compile(chosen, looks)
    keeping, sent = Keeping(cache, keep), rows_sent(model)
    if at is not None:
        check_alone(method=method, plan=plan, looks=looks)
        decision = Decision.of(cache.manifest, at, samples, error, certificate)
        with (
            shown(chosen.progress) as show,
            _opened(model, inputs, cache, chosen, identity, samples) as opened,
            keeping.of(opened) or nullcontext(opened) as source,
        ):
            return _with_cost(decision.made(source, cache, claims, enough, show), source, sent)
    if enough is not None:
        raise ValueError("expected at=... with enough=..., got none; without a radius to decide the budget is spent")
    asked = _Asked.of(cache.manifest, samples, error, method, plan, certificate)
    with (
        shown(chosen.progress) as show,
        _opened(model, inputs, cache, chosen, identity, samples) as opened,
        keeping.of(opened) or nullcontext(opened) as source,
    ):
        task = asked.task(source, cache, family=claims, progress=show)
        look = PendingLook(task.cache, source.identity, int(samples), task.asked, family=claims, looks=looks)
        check_passes(task, max(look.planned, default=samples))
        calibrated = warn_of_calibration(model, source.digests, stacklevel=2)
        return _with_cost(task.for_every_input(with_remarks(task, look.recorded(run(task)), calibrated)), source, sent)


def draw_votes(
    model: Model | VoteSource,
    inputs: Inputs,
    cache: Cache | str | os.PathLike[str],
    *,
    samples: int,
    alpha: float | None = None,
    method: str | Strategy = "auto",
    plan: str | None = None,
    certificate: str | None = None,
    family: str | int | None = None,
    looks: int | None = None,
    keep: Keep = True,
    execution: Execution | None = None,
) -> None:
    """Draw every vote that `recertify` with these arguments asks for, and bound nothing: a device need not wait for bounds.

    The votes are kept as `recertify` keeps them, or by a `CachingSource` as the model; `recertify` computes from them later.
    Nothing is claimed, so this is no look at the cache.
    """
    cache = cache if isinstance(cache, Cache) else Cache.open(cache)
    inputs = gathered(inputs)
    claims = family_members(family, model.digests if is_vote_source(model) else inputs)
    # The plan depends on the error of a claim, so that a family or planned looks must be named here too.
    error = _error_of_a_claim(cache.manifest, alpha, claims, looks)
    asked = _Asked.of(cache.manifest, samples, error, method, plan, certificate)
    chosen = chosen_execution(execution)
    _check_compile(chosen, looks)
    keeping = Keeping(cache, keep)
    with (
        shown(chosen.progress) as show,
        _opened(model, inputs, cache, chosen, None, samples) as opened,
        keeping.of(opened) or nullcontext(opened) as source,
    ):
        replay(asked.task(source, cache, progress=show), None)


def _check_compile(execution: Execution, looks: int | None) -> None:
    """Looks that are planned together are about one model: compiled or not, it must not depend on the budget of a look."""
    if looks is not None and execution.compile == "auto":
        raise ValueError("expected compile=True or False with planned looks, got 'auto'; choose one for all of them")


def _error_of_a_claim(manifest: Manifest, alpha: float | None, claims: int, looks: int | None) -> float:
    """What one claim of one look is given of the whole alpha."""
    return float(usual_alpha(manifest) if alpha is None else alpha) / claims / planned_share(looks)


def _with_cost(result: Certificates, source: VoteSource, sent: int | None) -> Certificates:
    """The result, with notes of how much of it was drawn now, unless all of it was, and of the rows that a function was given."""
    kept = isinstance(source, KeptVotes) and source.forward_passes < result.forward_passes.sum()
    drawn = source.forward_passes if isinstance(source, KeptVotes) and kept else None
    return replace(result, settings=replace(result.settings, drawn=drawn, rows_sent=rows_sent_since(source, sent)))


@dataclass(frozen=True)
class _Asked:
    """What was asked for, checked, with the usual values for what was not."""

    samples: int
    alpha: float
    method: Strategy
    certificate: str
    objective: Objective | None
    everyone: bool

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        samples: int,
        alpha: float,
        method: str | Strategy,
        plan: str | None,
        certificate: str | None,
    ) -> "_Asked":
        named = method_named(method)
        usual = manifest.certificate if manifest.certificate in named.certificates else named.certificates[0]
        certificate = certificate or usual
        if certificate in CERTIFICATES and certificate not in named.certificates:
            raise ValueError(
                f"expected certificate={named.certificates[0]!r} with method={named.name!r}, which offers no other, got {certificate!r}"
            )
        check_settings(samples, max(1, named.votes_to_choose()), alpha, certificate)
        shared, everyone = without_all(plan or named.usual_plan)
        return cls(samples, alpha, named, certificate, parse_plan(shared), everyone)

    def task(self, source: VoteSource, cache: Cache, **more: Any) -> Task:
        return Task.of(source, cache.about(source.digests), **vars(self), **more)


def _opened(
    model: Model | VoteSource, inputs: Any, cache: Cache, execution: Execution, identity: str | None, samples: int
) -> AbstractContextManager[VoteSource]:
    """The modified model under the cache's noise, in batches of the size that the cached votes were drawn in on such a machine."""
    m = cache.manifest
    return open_votes(
        model, inputs, noise=m.noise, seed=m.seed, classes=m.classes, identity=identity, execution=execution,
        passes=samples, batches=cache.batches,
    )  # fmt: skip
