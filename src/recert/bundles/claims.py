"""Whether claims follow from counts: bounds are computed again from the counts of a result, and radii from the bounds."""

import numpy as np
from numpy.typing import NDArray

from recert import bounds
from recert.bundles.findings import Findings, left_open, right, wrong
from recert.cache import Manifest
from recert.certificates import Certificates, Settings
from recert.certification import CERTIFICATES
from recert.noise import noise_with_spec
from recert.recertification.irs import Irs
from recert.recertification.joint import Joint
from recert.recertification.method import Counts, Terms
from recert.recertification.paired import Paired
from recert.recertification.replays import EventCounts, ReplayMethod
from recert.recertification.series import FewFlips, Series

Rows = NDArray[np.bool_]
Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Another version of numpy or scipy may round the last digits of a bound otherwise. No claim may be larger by more."""
REPLAYS: dict[str, ReplayMethod] = {each.name: each for each in (Series(), FewFlips(), Joint(), Paired())}
OF_FRESH_VOTES = ("certify", "scratch", "scratch-cached")


def check_claims(result: Certificates, manifest: Manifest | None, *, counted: bool = False) -> Findings:
    """Everything of a result that follows from other columns of it. The manifest of the cache knows a few numbers more.

    `counted`: rivals are counted in the votes of the cache, by somebody else.
    """
    found = _settings(result)
    if found.problems:
        return found
    found += _radii(result)
    if not in_one_draw(result.settings):
        return found + left_open(
            "claims: bounds, since how many votes an input got was decided one by one, which counts alone do not show"
        )
    return found + _bounds(result, manifest, counted=counted)


def in_one_draw(settings: Settings) -> bool:
    """Whether the number of votes of an input was fixed before they were drawn, as bounds of counts alone take it."""
    return not settings.at


def _settings(result: Certificates) -> Findings:
    """One alpha for all rows, and no smaller error stated than it allows."""
    settings = result.settings
    if not (result.alpha == settings.alpha).all():
        return wrong("claims: rows have an alpha that is not that of the settings")
    if settings.error < settings.alpha * (1 - ROUNDING):
        return wrong(f"claims: the error that is stated, {settings.error:g}, is below alpha, {settings.alpha:g}")
    if settings.certificate not in CERTIFICATES:
        return wrong(f"claims: they are {settings.certificate!r}, where one-sided and two-sided ones are known")
    return Findings()


def _radii(result: Certificates) -> Findings:
    """Outcomes, predictions and radii from the two bounds of a row."""
    noise = noise_with_spec(result.settings.noise)
    possible = result.top_lower > result.runner_up_upper
    radius = np.where(possible, noise.radius(result.top_lower, result.runner_up_upper), 0.0)
    bad = (result.certified & ~possible) | (result.certified != (result.prediction >= 0))
    bad |= result.radius > radius * (1 + ROUNDING)
    # Both bounds are probabilities of events that exclude each other.
    bad |= (result.top_lower < 0) | (result.top_lower > 1) | (result.runner_up_upper < 0) | (result.runner_up_upper > 1)
    bad |= ~result.certified & (result.radius > 0)
    bad |= np.array([each != noise.norm for each in result.norm])
    if result.settings.at:
        bad |= result.certified & ~np.isin(result.radius, result.settings.at)
    if bad.any():
        return wrong(f"claims: {_rows(bad)} do not follow from their bounds")
    return right(f"claims: outcomes and radii of {len(result)} inputs follow from their bounds")


def _bounds(result: Certificates, manifest: Manifest | None, *, counted: bool) -> Findings:
    """Bounds from counts, method by method."""
    drawn = result.samples > 0
    known, too_large = ~drawn, ~drawn & (result.top_lower > 0)
    # What the class leaves is a bound on the runner-up that needs no counts; a smaller one rests on counts that a result does not have.
    own = drawn & (result.runner_up_upper < (1 - result.top_lower) * (1 - ROUNDING))
    for method in sorted(set(result.method[drawn])):
        rows = drawn & (result.method == method)
        allowed = _allowed(str(method), result, rows, own[rows], manifest)
        # Not a number: the counts of this row do not say it.
        known[rows] = ~np.isnan(allowed)
        too_large[rows] = result.top_lower[rows] > allowed + ROUNDING
    found = Findings()
    if own.any() and result.settings.certificate == "one-sided":
        found += wrong(f"claims: {_rows(own)} have a bound on the runner-up, which one-sided certificates have not")
    if too_large.any():
        found += wrong(f"claims: bounds on the class of {_rows(too_large)} are larger than their counts allow")
    elif known.any():
        found += right(
            f"claims: bounds on the class of {int(known.sum())} inputs were computed again from their counts"
        )
    if not known.all():
        names = ", ".join(sorted(set(result.method[~known])))
        found += left_open(f"claims: bounds of {_rows(~known)} by {names}: not all of their counts are in the result")
    if own.any() and not counted:
        found += left_open(
            f"claims: bounds on the runner-up of {int(own.sum())} inputs: a result has no counts of rivals"
        )
    return found


def _allowed(method: str, result: Certificates, rows: Rows, own: Rows, manifest: Manifest | None) -> Floats:
    """The bounds on the class that the counts of these rows allow; nan where they are not all in the result.

    `own`: which of them have a bound of their own on the runner-up, so that half of alpha was spent on it.
    """
    settings, unknown = result.settings, np.full(int(rows.sum()), np.nan)
    sides, alpha, n = CERTIFICATES[settings.certificate], settings.alpha, result.samples[rows]
    if method in OF_FRESH_VOTES:
        return np.asarray(bounds.clopper_pearson_lower(result.top_votes[rows], n, alpha / sides))
    if method == "irs":
        return unknown if manifest is None else _of_irs(result, rows, manifest)
    if method not in REPLAYS or len(set(n.tolist())) != 1:
        return unknown
    about = result.kept[rows] + result.lost[rows]
    counts = (result.top_votes[rows], result.lost[rows], about, result.gained[rows], result.replayed[rows] - about)
    of = EventCounts(*(np.asarray(each) for each in counts))
    whole, half = (np.atleast_1d(REPLAYS[method].lower_bound(of, int(n[0]), error)) for error in (alpha, alpha / 2))
    # Either may be the larger one: the order of outcomes, by which a bound is computed, depends on alpha itself.
    allowed = whole if sides == 1 else np.where(own, half, np.maximum(whole, half))
    if method == "joint" and sides == 2:
        # With rivals, the noises on which the original did not vote for the class are replayed for several questions, and how many for
        # this one is not in the result. For the class alone it is: then the bound is this one to the last digit.
        return np.where(own | (np.abs(result.top_lower[rows] - whole) > ROUNDING), np.nan, whole)
    return np.asarray(allowed)


def _of_irs(result: Certificates, rows: Rows, manifest: Manifest) -> Floats:
    """The paper's bound spends the cache's alpha on the cached votes, which only the cache knows."""
    columns = (getattr(result, name)[rows].tolist() for name in ("top_votes", "samples", "replayed", "kept", "lost"))
    counts = [
        Counts(top, n, replayed=replayed, kept=kept, lost=lost, arguments=((top, 0),))
        for top, n, replayed, kept, lost in zip(*columns, strict=True)
    ]
    terms = Terms(
        manifest.samples,
        manifest.selection_samples,
        manifest.classes,
        manifest.noise,
        result.settings.alpha,
        manifest.alpha,
    )
    return np.asarray(Irs().bound(counts, terms).top_lower)


def _rows(which: Rows) -> str:
    """Some rows in words.

    >>> _rows(np.array([True, False, True]))
    '2 inputs (rows 0, 2)'
    """
    places = np.flatnonzero(which)
    named = ", ".join(map(str, places[:5].tolist())) + (", ..." if len(places) > 5 else "")
    return f"{len(places)} input{'s' if len(places) > 1 else ''} (row{'s' if len(places) > 1 else ''} {named})"
