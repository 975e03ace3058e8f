"""Is the radius at least so large? How many images are certified at it, and with how many forward passes, by every way of deciding it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from recert import Cache, Certificates, certify, recertify
from studies.request import ALPHA, CACHE_ALPHA, SELECTION_SAMPLES, Cell, Request
from studies.rules_at_radius import BETA, CHOOSING, COHEN_CHOOSING, KINDS, Decisions, cohen, horvath, voracek
from studies.settings import cell_settings
from studies.votes import Votes, votes_per_class
from studies.votes_at_radius import VotesOfBoth, votes_of_both

RADII = (0.25, 0.5, 0.75, 1.0)
NEARLY_CERTAIN = 1 - 1e-9
"""Radii that noise does not show even with this probability are left out."""
BUDGETS = (10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 100, 120, 150, 200, 300, 500, 1_000)
"""Forward passes per input, of the plan."""
MOST = (100, 200, 400, 1_000, 2_000, 4_000)
"""Forward passes of one input at most, for decisions from the cache; and all that the cache has."""


def settings(request: Request, cell: Cell) -> dict[str, Any]:
    return cell_settings(
        request, cell, alpha=ALPHA, cache_alpha=CACHE_ALPHA, selection_samples=SELECTION_SAMPLES, choosing=CHOOSING, radii=[r for r in RADII if cell.noise.radius(NEARLY_CERTAIN) > r],
        budgets=[b for b in BUDGETS if b <= cell.samples // 2], most=_most(cell), votes=None if request.votes is None else request.votes.name,
    )  # fmt: skip


def compute(request: Request, cell: Cell) -> dict[str, Any] | None:
    """For every radius and way: the share certified at it, that with the right class, and mean forward passes."""
    asked = settings(request, cell)
    radii = asked["radii"]
    with votes_of_both(request, cell) as votes:
        if request.draw_only:
            return None
        found: dict[str, dict[str, Any]] = {f"{radius:g}": _rules(votes, radius) for radius in radii}
        for kind in KINDS:
            cache = certify(
                votes.original, None, noise=votes.noise, seed=request.seed, samples=cell.samples, selection_samples=SELECTION_SAMPLES,
                alpha=CACHE_ALPHA, certificate=kind,
            )  # fmt: skip
            for radius in radii:
                request.clock.check()
                found[f"{radius:g}"] |= _ours(request, votes, cache, asked, radius, kind)
        return {"settings": asked, "radii": found, "flips": votes.flips, **votes.about}


def _most(cell: Cell) -> list[int]:
    return [*(m for m in MOST if m < cell.samples), cell.samples]


def _rules(votes: VotesOfBoth, radius: float) -> dict[str, Any]:
    """Others', which are one-sided."""
    threshold = float(brentq(lambda p: votes.noise.radius(p) - radius, 0.5, NEARLY_CERTAIN, xtol=1e-15))
    count = votes.estimation.shape[1]
    stages = (100, 1_000, count - 1_100) if count > 2_200 else (count // 10, count - count // 10)
    named = {
        f"Cohen, n = {n:,}": (COHEN_CHOOSING, cohen(_hits(votes, COHEN_CHOOSING)[:, :n], threshold, ALPHA))
        for n in sorted({min(1_000, count), count})
    }
    hits = _hits(votes, CHOOSING)
    named["Horvath"] = CHOOSING, horvath(hits, threshold, ALPHA, stages=stages, beta=BETA)
    named["Voracek"] = CHOOSING, voracek(hits, threshold, ALPHA)
    return {name: _point(votes, chosen, decided) for name, (chosen, decided) in named.items()}


def _point(votes: VotesOfBoth, choosing: int, decided: Decisions) -> dict[str, float]:
    right = _classes(votes.selection, choosing) == votes.labels
    return {
        "share": float(decided.shown.mean()), "correct": float((decided.shown & right).mean()),
        "passes": float(decided.votes.mean()) + choosing,
    }  # fmt: skip


def _ours(
    request: Request, votes: VotesOfBoth, cache: Cache, asked: dict[str, Any], radius: float, kind: str
) -> dict[str, Any]:
    scratch = certify(
        votes.from_scratch, None, noise=votes.noise, seed=request.seed, at=radius, samples=votes.estimation.shape[1],
        selection_samples=CHOOSING, alpha=ALPHA, certificate=kind,
    )  # fmt: skip
    planned = [
        recertify(votes.changed, None, cache, samples=budget, alpha=ALPHA, plan=f"accuracy:{radius}", certificate=kind)
        for budget in asked["budgets"]
    ]
    one_by_one = [
        recertify(votes.changed, None, cache, samples=most, alpha=ALPHA, at=radius, certificate=kind)
        for most in asked["most"]
    ]
    return {
        f"scratch {kind}": _curve([scratch], votes, radius),
        f"plan {kind}": _curve(planned, votes, radius),
        f"cache {kind}": _curve(one_by_one, votes, radius),
    }


def _curve(results: Sequence[Certificates], votes: VotesOfBoth, radius: float) -> dict[str, list[float]]:
    shown = [result.radius >= radius for result in results]
    right = [result.prediction == votes.labels for result in results]
    return {
        "share": [float(s.mean()) for s in shown],
        "correct": [float((s & r).mean()) for s, r in zip(shown, right, strict=True)],
        "passes": [result.mean_forward_passes for result in results],
    }


def _classes(selection: Votes, choosing: int) -> NDArray[np.int64]:
    """The class that is certified: the one with most of the first votes."""
    counts = votes_per_class(selection[:, :choosing], int(selection.max()) + 1)
    return np.asarray(counts.argmax(axis=1))


def _hits(votes: VotesOfBoth, choosing: int) -> NDArray[np.bool_]:
    return np.asarray(votes.estimation == _classes(votes.selection, choosing)[:, None])
