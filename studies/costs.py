"""Studies of cost: speedup, headline, samples and large-np differ only in their budgets."""

from typing import Any

from recert.metrics import speedup_by_area
from studies.curves import METHODS, Budgets, Curve, Key, all_curves, base_cache, draw_all
from studies.imagenet_networks import REUSE_THRESHOLD, SPECS
from studies.methods import AUTHORS, BASELINES, COHEN
from studies.networks import ORIGINAL, open_votes
from studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from studies.settings import cell_settings, provenance
from studies.stores import StudyVotes

RADII = (0.25, 0.5, 1.0)
_ONE_TO_TEN = tuple(share / 100 for share in range(1, 11))
_FIVES = tuple(share / 100 for share in range(5, 85, 5))
SHARES = {
    # The paper's baseline has the methods' budgets. Ours goes on: better methods leave its range at once.
    "speedup": (_ONE_TO_TEN, (*_ONE_TO_TEN, 0.12, 0.15, 0.2)),
    "samples": (_ONE_TO_TEN, (*_ONE_TO_TEN, 0.12, 0.15, 0.2)),
    "headline": ((0.01, 0.02, *_FIVES[:10]), (0.01, 0.02, *_FIVES[:10])),
    "large-np": ((0.01, 0.02, *_FIVES), (0.01, 0.02, *_FIVES)),
}


HUGE, FEW = 500_000, (0.01, 0.02, 0.05, 0.1)
"""With caches as large as that, bounds take minutes: fewer budgets have to do."""


def budgets(request: Request, cell: Cell) -> Budgets:
    gamma = REUSE_THRESHOLD if cell.network in SPECS else None
    if request.study.name == "samples" and cell.samples >= HUGE:
        return Budgets(cell.samples, FEW, (*FEW, 0.2), gamma)
    return Budgets(cell.samples, *SHARES[request.study.name], gamma)


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    ours = budgets(request, cell)
    threshold = {} if ours.reuse_threshold is None else {"reuse_threshold": ours.reuse_threshold}
    return cell_settings(
        request, cell, **threshold, alpha=ALPHA, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES,
        budgets=ours.passes(ours.methods), baseline_budgets=ours.passes(ours.baselines),
    )  # fmt: skip


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """The result of a cell; nothing if votes were only to be drawn."""
    ours = budgets(request, cell)
    with open_votes(request, cell, ORIGINAL) as original:
        cache = base_cache(original, cell.samples)
    with open_votes(request, cell, cell.approximation) as changed:
        if request.draw_only:
            draw_all(changed, cache, ours, request.clock)
            return None
        curves = all_curves(changed, cache, ours, request.clock)
    base = cache.certificates.average_certified_radius(changed.labels)
    one_sided = cache.certify(certificate="one-sided").average_certified_radius(changed.labels)
    return {
        "settings": settings(request, cell),
        "original": provenance(original) | {"ACR": {"two-sided": base, "one-sided": one_sided}},
        "changed": provenance(changed),
        "curves": {_name(key): _points(curve, changed) for key, curve in curves.items()},
        "computing seconds": {_name(key): curve.computing_seconds for key, curve in curves.items()},
        "speedups": _speedups(curves, ours),
    }


def _name(key: Key) -> str:
    return " ".join(key)


def _points(curve: Curve, votes: StudyVotes) -> dict[str, Any]:
    accuracies = [result.certified_accuracy(votes.labels, RADII) for result in curve.results]
    return {
        "budgets": curve.budgets, "passes": curve.passes, "ACR": curve.radii,
        "accuracy": {f"{r:g}": [float(a[i]) for a in accuracies] for i, r in enumerate(RADII)},
        "abstained": [result.abstention_rate for result in curve.results],
    }  # fmt: skip


def _speedups(curves: dict[Key, Curve], budgets: Budgets) -> dict[str, Any]:
    """Of every method over both baselines; the two-sided default also over Cohen's own, one-sided algorithm."""
    pairs = [(key, (name, key[1])) for key in METHODS for name in BASELINES]
    pairs += [(("auto", "two-sided"), (COHEN, "one-sided")), (METHODS[0], (AUTHORS, "one-sided"))]
    return {f"{_name(key)} over {_name(base)}": _speedup(curves[key], curves[base], budgets) for key, base in pairs}


def _speedup(ours: Curve, baseline: Curve, budgets: Budgets) -> dict[str, Any]:
    found = ours.speedups(baseline)
    most = budgets.passes(budgets.methods)[-1]
    within = sum(size <= most for size in baseline.budgets)
    found["by area, baseline as in the paper"] = speedup_by_area(
        ours.passes, ours.radii, baseline.passes[:within], baseline.radii[:within]
    )
    return {name: {"value": speedup.value, "reason": speedup.reason} for name, speedup in found.items()}
