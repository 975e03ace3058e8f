"""The verb `recertify`."""

import os

import numpy as np
import torch
from numpy.typing import NDArray

from recert.cache import Cache
from recert.certificates import Certificates
from recert.certification import check_settings, family_members
from recert.planning import parse_plan
from recert.recertification.looks import Question, planned_share
from recert.recertification.methods import METHODS, check_passes, run, usual_objective
from recert.recertification.task import Task, usual_alpha
from recert.sampling import ProgressCallback, VoteSource, open_source
from recert.sampling.network import Model


def recertify(
    model: Model | VoteSource,
    inputs: NDArray[np.float32] | torch.Tensor | None,
    cache: Cache | str | os.PathLike[str],
    *,
    samples: int,
    alpha: float | None = None,
    method: str = "auto",
    plan: str | None = None,
    certificate: str | None = None,
    family: str | None = None,
    family_size: int | None = None,
    reuse_threshold: float = 0.99,
    irs_form: str = "paper",
    selection_samples: int = 100,
    looks: int | None = None,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    identity: str | None = None,
    progress: ProgressCallback | None = None,
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
      where that is at least `reuse_threshold`, draw fresh noises instead. The cache's alpha is spent on its bound, the rest
      of `alpha` on the disparity. With `irs_form="paper"` the fresh branch runs at the whole alpha; because the choice of
      branch looks at the cached votes, only an error of alpha + (alpha - cache alpha) is proved. With "exact" it runs at the
      cache's alpha. One-sided and without a plan unless told.
    - "scratch", Cohen's baseline: ignores the cache; `selection_samples` votes choose, `samples` fresh votes bound.
    - "scratch-cached", a baseline that is given the cached class and skips what the original abstained on.

    The class is the cached one, and inputs on which the original abstained cost nothing (but for "scratch").

    `plan` shares the budget out: "acr" where the sum of radii grows most, "accuracy:R" for the number certified at radius R,
    "uniform" gives every input `samples`. With a plan, `samples` is about the mean over all inputs, and no input
    gets more than half as many as the cache has votes. The default is "acr" for auto,
    series, paired and joint. `certificate` is the cache's unless told: with "two-sided" the runner-up is bounded, too, where that
    promises a larger radius.

    `alpha` is the total error probability per input; by default twice the cache's, as in the paper. With
    `family="bonferroni"` it is that of all inputs together, or of `family_size` claims: for k models on N inputs, k * N, with
    k counting every model that could have been reported.

    To re-certify the same model from the same cache again, with more samples or another method, is another look at the same
    votes. Looks are recorded with the cache, and `result.guarantee` says what holds for all of them together. To plan for it,
    pass `looks=4`: each look has a quarter of alpha, and budgets of `samples`, twice, four and eight times as many are fixed by
    the first. Take the next by calling again with one of these budgets and nothing else changed; all four hold together.

    The modified model must be fixed before: it must not have been tuned on the cached noise.
    """
    cache = cache if isinstance(cache, Cache) else Cache.open(cache)
    manifest = cache.manifest
    known = model.digests if isinstance(model, VoteSource) else inputs
    members = family_members(family, family_size, known)
    alpha = float(usual_alpha(manifest) if alpha is None else alpha) / members / planned_share(looks)
    if method not in METHODS:
        raise ValueError(f"expected method to be one of {', '.join(METHODS)}, got {method!r}")
    if irs_form not in ("paper", "exact"):
        raise ValueError(f"expected irs_form to be 'paper' or 'exact', got {irs_form!r}")
    if not 0 <= reuse_threshold <= 1:
        raise ValueError(f"expected a reuse_threshold between 0 and 1, got {reuse_threshold}; the paper's is 0.99")
    certificate = certificate or ("one-sided" if method == "irs" else manifest.certificate)
    objective = usual_objective(method) if plan is None else parse_plan(plan)
    check_settings(samples, selection_samples, alpha, certificate)
    source = open_source(
        model, inputs, noise=manifest.gaussian, seed=manifest.seed, batch_size=batch_size or manifest.batch_size,
        device=device, classes=manifest.classes, identity=identity,
    )  # fmt: skip
    task = Task.of(
        source, cache.about(source.digests), samples=samples, alpha=alpha, certificate=certificate, objective=objective,
        selection_samples=selection_samples, reuse_threshold=reuse_threshold, irs_form=irs_form, family=members, progress=progress,
    )  # fmt: skip
    asked = {"method": method, "certificate": certificate, "plan": repr(objective), "alpha": alpha}
    if method == "irs":
        asked |= {"threshold": float(reuse_threshold), "form": irs_form, "cache alpha": manifest.alpha}
    if method == "scratch":
        asked |= {"selection samples": int(selection_samples)}
    question = Question(task.cache, source.identity, int(samples), asked, family=members, looks=looks)
    if objective is None:
        check_passes(method, max(question.planned, default=samples), manifest.samples)
    return task.for_every_input(question.answered(run(task, method)))
