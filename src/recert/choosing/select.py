"""`select`: the cheapest candidate whose certificates are good enough."""

import math
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from recert import bounds
from recert.cache import Cache, Manifest
from recert.caching import CachingSource
from recert.certification import CERTIFICATES, check_settings, family_members
from recert.choosing.costs import CostModel, find_costs
from recert.choosing.result import Chosen
from recert.choosing.search import Search, distinct, most_finalists
from recert.engines import Execution, chosen_execution, open_votes
from recert.keeping import Keep, Keeping
from recert.models.calibrated import warn_of_calibration
from recert.planning import Objective, parse_plan
from recert.progress import shown
from recert.recertification.task import usual_alpha
from recert.sampling import ShowProgress, StoredVotes
from recert.sampling.gathering import Inputs, gathered
from recert.sampling.network import Model

FINAL_PASSES = 20
"""A finalist gets so many times the root of the cache's votes: that no flip was seen in m replays bounds their rate by about
7 / m, which must be small beside the width of the cached bound, some multiple of 1 / root n."""

MOST_CANDIDATES = 500
"""Each finalist has half the error of the one before; when that falls below what bounds are proved for, none is certified any more."""


def select(
    candidates: Mapping[str, Model | StoredVotes],
    inputs: Inputs,
    cache: Cache | str | os.PathLike[str],
    labels: ArrayLike,
    *,
    metric: str = "accuracy:0.5",
    tolerance: float = 0.01,
    cost: CostModel = "bytes",
    samples: int | None = None,
    alpha: float | None = None,
    family: str | int | None = None,
    keep: Keep = True,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ShowProgress = None,
) -> Chosen:
    """The cheapest candidate whose certificates reach the original's metric less `tolerance`; or none.

    `metric` is "accuracy:R" (certified accuracy at radius R) or "acr" (average certified radius), on these inputs and labels;
    `tolerance` is in its units. All candidates run a short race on the cache's selection noise. Then, in order of cost, each is
    raced until it is decided and, unless it was hopeless, certified on estimation noise, which the race never sees, with at
    most about `samples` forward passes per input in the mean over all inputs (if not given, 20 times the root of the
    cache's votes per input, and at most half of them). The first that reaches the target wins.

    For each input on its own, with probability at least 1 - alpha, the winner's certificate is true, whichever candidate won:
    the j-th finalist is certified at alpha / 2^j. `alpha` is twice the cache's if not given, so that the first finalist
    gets the cache's. With `family="bonferroni"` all of the winner's certificates hold together. See docs/select.md.

    `cost` is "bytes", "parameters" (non-zero ones), "latency" (measured), a function of a model, or a mapping of numbers. The
    candidates must be fixed before: none may have been tuned on the cached noise. Votes are kept as `recertify` keeps them.
    """
    cache = cache if isinstance(cache, Cache) else Cache.open(cache)
    cache.require_equal_votes("to select by")
    manifest = cache.manifest
    objective = _objective(metric)
    alpha = usual_alpha(manifest) if alpha is None else float(alpha)
    _check(candidates, alpha, metric, tolerance)
    inputs = gathered(inputs)
    costs = find_costs(candidates, cost, inputs)
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    with ExitStack() as stack:
        show = stack.enter_context(shown(chosen.progress))
        sources = _opened(stack, candidates, inputs, cache, chosen, Keeping(cache, keep))
        digests, known_labels = _inputs(sources, labels)
        each_once, positions, rows = distinct(digests)
        calibrated = {name: warn_of_calibration(model, digests, stacklevel=2) for name, model in candidates.items()}
        claims = family_members(family, digests)
        bounds.check_alpha(alpha / 4 / claims)  # what each side of a certificate of the first finalist gets
        search = Search(
            # The first view names inputs that the cache lacks by their places in the user's data, repeats included.
            cache=cache.about(digests).about(each_once), positions=positions, rows=rows, labels=known_labels, objective=objective,
            tolerance=tolerance, alpha=alpha, claims=claims, progress=show,
            samples=_samples(samples, manifest, alpha / claims, len(candidates)),
        )  # fmt: skip
        entries, winner = search.run(sources, costs.values)
        if winner is not None:  # the only one about which something is claimed
            sources[winner[0]].check_unchanged()
    if winner is not None and calibrated[winner[0]]:
        settings = winner[1].settings
        settings = replace(settings, remarks=(*settings.remarks, calibrated[winner[0]]))
        winner = winner[0], replace(winner[1], settings=settings)
    return Chosen(
        winner=None if winner is None else winner[0], certificates=None if winner is None else winner[1], entries=entries,
        metric=metric, tolerance=tolerance, base=search.base, base_alpha=manifest.alpha, alpha=alpha,
        family=claims, cost_unit=costs.unit, cost_note=costs.note, inputs=len(digests), samples=manifest.samples,
        base_passes=(manifest.samples + manifest.selection_samples) * len(each_once),
        drawn=sum(source.forward_passes for source in sources.values()),
        rows_sent=_added(source.rows_sent for source in sources.values()),
    )  # fmt: skip


def _added(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _check(candidates: Mapping[str, object], alpha: float, metric: str, tolerance: float) -> None:
    if not 0 < len(candidates) <= MOST_CANDIDATES:
        raise ValueError(f"expected 1 to {MOST_CANDIDATES} candidates, got {len(candidates)}")
    if not 0 < alpha < 1:
        raise ValueError(f"expected alpha between 0 and 1, got {alpha}; a usual value is 0.002")
    if not tolerance >= 0:
        raise ValueError(f"expected a tolerance of at least 0, in units of {metric}, got {tolerance}")


def _opened(
    stack: ExitStack, candidates: Mapping[str, Model | StoredVotes], inputs: Any, cache: Cache, execution: Execution,
    keeping: Keeping,
) -> dict[str, CachingSource]:  # fmt: skip
    """Votes of every candidate on the cached noises, each drawn once, until the stack is closed."""
    manifest = cache.manifest
    return {
        name: stack.enter_context(
            keeping.caching(
                stack.enter_context(
                    open_votes(
                        model, None if isinstance(model, StoredVotes) else inputs, noise=manifest.noise, seed=manifest.seed,
                        classes=manifest.classes, execution=execution, batches=cache.batches,
                    )
                )
            )
        )
        for name, model in candidates.items()
    }  # fmt: skip


def _objective(metric: str) -> Objective:
    objective = None if metric == "uniform" else parse_plan(metric)
    if objective is None:
        raise ValueError(f"expected a metric of acr or accuracy:RADIUS, got {metric!r}")
    return objective


def _samples(given: int | None, manifest: Manifest, alpha: float, candidates: int) -> int:
    """Forward passes per input of a finalist: enough even for the last, whose alpha is the smallest."""
    smallest_alpha = alpha / 2.0 ** min(candidates, most_finalists(alpha))
    if given is None:
        fewest = bounds.smallest_samples_to_certify(smallest_alpha, sides=CERTIFICATES[manifest.certificate])
        return max(min(round(FINAL_PASSES * math.sqrt(manifest.samples)), manifest.samples // 2), fewest)
    check_settings(given, 1, smallest_alpha, manifest.certificate)
    return given


def _inputs(sources: Mapping[str, CachingSource], labels: ArrayLike) -> tuple[list[str], NDArray[np.int64]]:
    """The inputs, which must be the same for all candidates, and as many labels."""
    digests = next(iter(sources.values())).digests
    different = next((name for name, source in sources.items() if source.digests != digests), None)
    if different is not None:
        raise ValueError(
            f"expected all candidates on the same inputs, got others for {different!r}; stored votes and models do not mix"
        )
    if not digests:
        raise ValueError("expected at least one input, got none")
    known = np.asarray(labels)
    # Labels are compared with classes; floats that are nearly integers would silently never be equal.
    if known.shape != (len(digests),) or not np.issubdtype(known.dtype, np.integer):
        raise ValueError(f"expected {len(digests)} labels as integers, got {known.dtype} {known.shape}")
    return digests, known.astype(np.int64)
