"""On what an error is really spent: every bound computed again, with scipy or in closed form, from a result's own columns.

Where the original voted for the class on every noise, each of our bounds is the Clopper-Pearson bound of the replays alone, at an
error that is known (`OF_REPLAYS`): so a bound at the wrong alpha is seen at once. A vote of -1 is a vote for nobody: it makes a
class rare without making a rival frequent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, gamma, norm

import recert
from recert import Cache, Certificates, Gaussian, Outcome, StoredVotes, bounds
from recert.cache import looks as looks_of_caches
from recert.certificates import claim_two_sided
from recert.errors import ContextMismatch
from recert.noise import Stream
from recert.recertification.auto import Auto
from recert.recertification.irs import Irs
from recert.recertification.joint import Joint
from recert.recertification.method import Counts, Option, Terms
from recert.recertification.paired import Paired
from recert.recertification.replays import EventCounts, ReplayMethod
from recert.recertification.series import FewFlips, Series
from recert.recertification.task import Task
from recert.sampling import VoteChunk, Work
from tests.halfspaces import HalfSpace

SIGMA = 0.5
CACHE_ALPHA, ALPHA = 0.004, 0.03
"""Neither is half of the other, nor what the other leaves."""
SAMPLES, SELECTION, BUDGET = 400, 50, 100
NEARLY = 1e-4
"""As close as the bounds come to what they are proven not to exceed."""

Votes = NDArray[np.int64]


def cp_lower(successes: ArrayLike, trials: ArrayLike, alpha: float) -> NDArray[np.float64]:
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    return np.where(k == 0, 0.0, beta.ppf(alpha, np.maximum(k, 1), n - k + 1))


def cp_upper(successes: ArrayLike, trials: ArrayLike, alpha: float) -> NDArray[np.float64]:
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    return np.where(k == n, 1.0, beta.isf(alpha, k + 1, np.maximum(n - k, 1)))


def radii(top_lower: NDArray[np.float64], runner_up_upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Theorem 1 of Cohen et al."""
    with np.errstate(invalid="ignore"):
        gap = norm.ppf(top_lower) - norm.ppf(runner_up_upper)
    return np.where(top_lower > runner_up_upper, SIGMA / 2 * gap, 0.0)


def series_error(alpha: float) -> float:
    return alpha


def joint_error(alpha: float) -> float:
    """The rest is for the box that flips are sought in."""
    return 0.98 * alpha


def paired_error(alpha: float) -> float:
    """The smallest p-value that Fisher's combination of three does not exclude if the other two are 1."""
    return float(np.exp(-gamma.isf(alpha, 3)))


OF_REPLAYS = {"series": series_error, "joint": joint_error, "paired": paired_error}
"""At which error the replays alone bound the class if the original always voted for it."""


def shuffled(*counts: int, seed: int = 0) -> Votes:
    """So many votes for class 0, for class 1, ...; the last number is of votes for nobody."""
    votes = np.repeat([*range(len(counts) - 1), -1], counts)
    return np.random.default_rng(seed).permutation(votes)


def stored(
    estimation: ArrayLike,
    selection: ArrayLike | None = None,
    fresh: ArrayLike | None = None,
    kind: type[StoredVotes] = StoredVotes,
) -> StoredVotes:
    """Votes of three classes; unless told, every selection vote is for class 0."""
    e = np.atleast_2d(np.asarray(estimation))
    s = np.zeros((len(e), SELECTION), dtype=int) if selection is None else np.atleast_2d(np.asarray(selection))
    return kind(e, selection=s, fresh=None if fresh is None else np.atleast_2d(np.asarray(fresh)), classes=3)  # fmt: skip


def selected_classes(cache: Cache) -> list[int]:
    return cache.counts(Stream.SELECTION).argmax(axis=1).tolist()


def certify(votes: StoredVotes, certificate: str = "two-sided", **options: Any) -> Cache:
    given = {"samples": SAMPLES, "selection_samples": SELECTION, "alpha": CACHE_ALPHA, **options}
    return recert.certify(votes, None, noise=Gaussian(SIGMA), certificate=certificate, **given)


def recertify(votes: StoredVotes, cache: Cache, **options: Any) -> Certificates:
    given = {"samples": BUDGET, "alpha": ALPHA, "plan": "uniform", **options}
    if given.get("method") == "scratch":
        given["method"] = recert.Scratch(SELECTION)
    return recert.recertify(votes, None, cache, **given)


ALWAYS = np.zeros(SAMPLES, dtype=int)
"""The original votes for class 0 on every noise."""

# Votes for three classes and for nobody, of SAMPLES.
COUNTS = [
    (400, 0, 0, 0), (399, 1, 0, 0), (300, 100, 0, 0), (300, 50, 50, 0), (210, 190, 0, 0), (180, 110, 110, 0), (180, 20, 0, 200),
    (180, 0, 20, 200), (30, 0, 0, 370), (150, 140, 110, 0), (1, 0, 0, 399), (0, 0, 0, 400), (0, 400, 0, 0), (0, 200, 200, 0),
]  # fmt: skip
FIRST, RIVAL = np.array([c[0] for c in COUNTS]), np.array([max(c[1], c[2]) for c in COUNTS])
MIXED = np.stack([shuffled(*counts, seed=i) for i, counts in enumerate(COUNTS)])


def assert_claims_of_votes(result: Certificates, certificate: str, alpha: float, rows: NDArray[np.bool_]) -> None:
    """Algorithm 1, or Theorem 1 in full, from the counts of MIXED."""
    if certificate == "one-sided":
        top = cp_lower(FIRST, SAMPLES, alpha)
        upper = 1 - top
    else:
        top = cp_lower(FIRST, SAMPLES, alpha / 2)
        upper = np.minimum(cp_upper(RIVAL, SAMPLES, alpha / 2), 1 - top)
    assert result.top_votes[rows].tolist() == FIRST[rows].tolist()
    assert result.top_lower[rows] == pytest.approx(top[rows], rel=1e-11)
    assert result.runner_up_upper[rows] == pytest.approx(upper[rows], rel=1e-11)
    assert result.radius[rows] == pytest.approx(radii(top, upper)[rows], rel=1e-9)
    assert result.prediction[rows].tolist() == np.where(top > upper, 0, -1)[rows].tolist()


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
def test_certify_spends_alpha_on_the_class_or_half_of_it_on_each_side(certificate: str) -> None:
    cache = certify(stored(MIXED), certificate)
    assert_claims_of_votes(cache.certificates, certificate, CACHE_ALPHA, np.ones(len(MIXED), dtype=bool))
    assert_claims_of_votes(cache.certify(alpha=ALPHA), certificate, ALPHA, np.ones(len(MIXED), dtype=bool))


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
@pytest.mark.parametrize("method", ["scratch", "scratch-cached"])
def test_fresh_votes_are_bounded_as_if_there_were_no_cache(method: str, certificate: str) -> None:
    """At the error of the re-certification, whatever the cache's votes say."""
    cache = certify(stored(np.tile(ALWAYS, (len(MIXED), 1))), certificate)
    result = recertify(stored(1 + 0 * MIXED, fresh=MIXED), cache, method=method, samples=SAMPLES)
    assert_claims_of_votes(result, certificate, ALPHA, np.ones(len(MIXED), dtype=bool))
    why = Outcome.NO_MAJORITY if certificate == "one-sided" else Outcome.RUNNER_UP_TOO_CLOSE
    assert set(result.outcome[~result.certified]) == {why}


def test_the_runner_up_never_has_more_than_the_class_leaves() -> None:
    """Also in the last digit: of two classes, what is not the one is the other."""
    votes = np.arange(SAMPLES + 1)
    claims = claim_two_sided(np.zeros_like(votes), votes, SAMPLES - votes, SAMPLES, ALPHA, Gaussian(SIGMA))
    assert (claims.runner_up_upper <= 1 - claims.top_lower).all()


def replays_of_class(result: Certificates) -> int:
    return int(result.kept[0] + result.lost[0])


def nobody_on_the_first(count: int, votes: Votes = ALWAYS) -> Votes:
    changed = votes.copy()
    changed[:count] = -1
    return changed


@pytest.mark.parametrize("lost", [0, 3])
@pytest.mark.parametrize("method", OF_REPLAYS)
def test_a_one_sided_replay_spends_alpha_once(method: str, lost: int) -> None:
    result = recertify(stored(nobody_on_the_first(lost)), certify(stored(ALWAYS), "one-sided"), method=method)
    assert (result.top_votes[0], result.samples[0], result.lost[0]) == (SAMPLES, SAMPLES, lost)
    exact = 1 - cp_upper(lost, replays_of_class(result), OF_REPLAYS[method](ALPHA))
    assert exact - NEARLY < result.top_lower[0] <= exact + 1e-12
    assert result.runner_up_upper[0] == 1 - result.top_lower[0]


@pytest.fixture
def both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the option to bound the class alone, at the whole alpha, which promises more where all votes agree."""
    for method in (Series, Joint, Paired):
        monkeypatch.setattr(method, "options", lambda self, certificate: (Option(self, 2),))


@pytest.mark.usefixtures("both_sides")
@pytest.mark.parametrize("lost", [0, 3])
@pytest.mark.parametrize("method", OF_REPLAYS)
def test_a_two_sided_replay_spends_half_of_alpha_on_the_class(method: str, lost: int) -> None:
    result = recertify(stored(nobody_on_the_first(lost)), certify(stored(ALWAYS)), method=method)
    exact = 1 - cp_upper(lost, replays_of_class(result), OF_REPLAYS[method](ALPHA / 2))
    assert exact - NEARLY < result.top_lower[0] <= exact + 1e-12


@pytest.mark.parametrize("method", OF_REPLAYS)
def test_a_class_that_always_wins_has_the_whole_alpha_though_both_sides_are_asked_for(method: str) -> None:
    """The rival has what the class leaves, so that nothing need be spent on it. The plan finds so beforehand."""
    result = recertify(stored(ALWAYS), certify(stored(ALWAYS), "two-sided"), method=method)
    exact = OF_REPLAYS[method](ALPHA) ** (1 / replays_of_class(result))
    assert exact - NEARLY < result.top_lower[0] <= exact + 1e-12
    assert result.runner_up_upper[0] == 1 - result.top_lower[0]


SELDOM = np.where(np.arange(SAMPLES) % 5 < 3, -1, 0)
"""Class 0 on two noises of five, and nobody on the others: a rival is never voted for."""


@pytest.mark.usefixtures("both_sides")
@pytest.mark.parametrize("rival_was_selected", [False, True])
@pytest.mark.parametrize("taken", [0, 3])
@pytest.mark.parametrize("method", OF_REPLAYS)
def test_a_two_sided_replay_spends_the_other_half_on_the_rival(
    method: str, taken: int, rival_was_selected: bool
) -> None:
    """On noises that are nobody's at first the modified model votes for the rival."""
    selection = shuffled(SELECTION - 1, 1, 0, 0) if rival_was_selected else None
    modified = SELDOM.copy()
    modified[np.flatnonzero(SELDOM < 0)[:taken]] = 1
    result = recertify(stored(modified), certify(stored(SELDOM, selection)), method=method)
    shunned = int(result.replayed[0]) if method == "paired" else replays_of_class(result)  # as many as of the class
    exact = cp_upper(taken, shunned, OF_REPLAYS[method](ALPHA / 2))
    assert exact - 1e-12 <= result.runner_up_upper[0] < exact + NEARLY
    assert result.top_lower[0] < cp_lower(result.top_votes[0], SAMPLES, ALPHA / 2) < 0.5
    assert result.certified[0]
    assert result.radius == pytest.approx(radii(result.top_lower, result.runner_up_upper), rel=1e-9)


@pytest.mark.parametrize(("certificate", "share"), [("one-sided", 1.0), ("two-sided", 0.5)])
def test_the_ordering_for_few_flips_spends_as_much(
    certificate: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where every vote and every replay agrees, each side of its bound is what the replays alone say, at its share of alpha."""
    last = FewFlips().options(certificate)[-1]
    monkeypatch.setattr(Auto, "options", lambda self, certificate: (last,))
    cache = certify(stored(ALWAYS), certificate)
    result = recertify(stored(ALWAYS), cache, method="auto")
    exact = (share * ALPHA) ** (1 / replays_of_class(result))
    assert result.top_lower[0] == pytest.approx(exact, rel=1e-12)
    if certificate == "two-sided":
        result = recertify(stored(SELDOM), certify(stored(SELDOM)), method="auto")
        exact = 1 - (share * ALPHA) ** (
            1 / replays_of_class(result)
        )  # no noise is the rival's, and as many are replayed
        assert result.runner_up_upper[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.usefixtures("both_sides")
def test_the_class_may_leave_less_than_the_replays_show_of_a_rival() -> None:
    """Of the rival more noises are replayed than of the class, and beyond those of the class the rival has them all."""
    selection = shuffled(SELECTION - 20, 10, 10, 0)
    modified = ALWAYS.copy()
    modified[60:] = 1
    result = recertify(stored(modified), certify(stored(ALWAYS, selection)), method="series")
    assert (result.lost[0], result.replayed[0] > 70) == (0, True)
    assert result.top_lower[0] == pytest.approx((ALPHA / 2) ** (1 / replays_of_class(result)), rel=1e-12)
    assert result.runner_up_upper[0] == 1 - result.top_lower[0]
    assert result.radius[0] == pytest.approx(SIGMA * norm.ppf(result.top_lower[0]), rel=1e-9)


@pytest.mark.parametrize("method", [*OF_REPLAYS, "auto"])
def test_an_input_without_a_majority_is_bounded_on_both_sides_unasked(method: str) -> None:
    votes = np.stack([shuffled(180, 110, 110, 0, seed=seed) for seed in range(5)])
    cache = certify(stored(votes, votes[:, ::8]))
    result = recertify(stored(votes), cache, method=method, samples=SAMPLES // 2)
    half = ALPHA / 2
    assert result.certified.any()
    assert (result.top_lower <= cp_lower(result.top_votes, SAMPLES, half)).all()
    assert (result.top_lower <= cp_lower(result.kept, result.kept + result.lost, half)).all()
    assert (result.runner_up_upper >= cp_upper(110, SAMPLES, half)).all()


@dataclass(frozen=True)
class VotesAsBounds(Series):
    """Stands in for a bound: the number of votes, as a part of a million, whatever the rest is."""

    def lower_bound(self, of: EventCounts, samples: int, alpha: float) -> NDArray[np.float64]:
        return np.asarray(of.votes, dtype=float) / 1e6

    least_lower_bound = ReplayMethod.least_lower_bound


def test_a_rivals_bound_is_rounded_up_and_is_that_of_the_most_probable() -> None:
    """Turned round, of several lower bounds the smallest counts. In exact arithmetic it is never below what the bound leaves."""
    rng = np.random.default_rng(0)
    votes = [rng.integers(1, 500_000, 1 + rng.integers(1, 5)).tolist() for _ in range(100)]  # the class, and its rivals
    counts = [Counts(0, 0, arguments=tuple((k, 0, 0, 0, 0) for k in each)) for each in votes]
    terms = Terms(SAMPLES, SELECTION, 3, Gaussian(SIGMA), ALPHA, CACHE_ALPHA)
    alone, both = (VotesAsBounds().bound(counts, replace(terms, sides=sides)) for sides in (1, 2))
    assert alone.runner_up_upper is None
    assert both.runner_up_upper is not None
    assert alone.top_lower.tolist() == both.top_lower.tolist() == [each[0] / 1e6 for each in votes]
    for each, upper in zip(votes, both.runner_up_upper.tolist(), strict=True):
        exact = 1 - Fraction(min(each[1:]) / 1e6)
        assert exact <= Fraction(upper) < exact + Fraction(1e-15)


class TestIrs:
    """The paper's method. Its alphas are unequal here, so that each is seen where it belongs."""

    MODIFIED = np.where(np.arange(SAMPLES) % 20 == 0, 1, MIXED[:3])
    FRESH = np.stack([shuffled(*counts) for counts in ((397, 3, 0, 0), (390, 10, 0, 0), (350, 50, 0, 0))])

    def result(self, **options: Any) -> Certificates:
        votes = stored(self.MODIFIED, fresh=self.FRESH)
        return recertify(votes, certify(stored(MIXED[:3])), method=recert.Irs(**options))

    def transferred(self, result: Certificates) -> NDArray[np.float64]:
        """The cached bound at the cache's alpha, less the disparity at what is left of alpha."""
        disparity = cp_upper(result.lost, result.replayed, ALPHA - CACHE_ALPHA)
        return cp_lower(FIRST[:3], SAMPLES, CACHE_ALPHA) - disparity

    def test_a_difference_is_rounded_down(self) -> None:
        """In exact arithmetic the bound is never above the cached bound less that of the disparity."""
        terms = Terms(SAMPLES, SELECTION, 3, Gaussian(SIGMA), ALPHA, CACHE_ALPHA)
        pairs = [(votes, lost) for votes in range(340, 400, 5) for lost in range(10)]
        found = Irs().bound([Counts(k, SAMPLES, replayed=BUDGET, lost=lost) for k, lost in pairs], terms).top_lower
        for (votes, lost), lower in zip(pairs, found.tolist(), strict=True):
            cached = bounds.clopper_pearson_lower(votes, SAMPLES, CACHE_ALPHA)
            exact = Fraction(cached) - Fraction(bounds.clopper_pearson_upper(lost, BUDGET, ALPHA - CACHE_ALPHA))
            assert exact - Fraction(1e-15) < Fraction(lower) <= exact

    def test_a_transfer_spends_what_the_cache_has_left(self) -> None:
        result = self.result(reuse_threshold=1.0)
        assert result.lost.tolist() == np.sum(self.MODIFIED[:, :BUDGET] != MIXED[:3, :BUDGET], axis=1).tolist()
        assert result.top_lower == pytest.approx(self.transferred(result), rel=1e-9)
        assert (result.replayed == BUDGET).all()
        assert result.kept.tolist() == (BUDGET - result.lost).tolist()
        assert result.top_votes.tolist() == FIRST[:3].tolist()
        assert set(result.samples) == {SAMPLES}

    @pytest.mark.parametrize(("form", "alpha"), [("paper", ALPHA), ("exact", CACHE_ALPHA)])
    def test_fresh_votes_are_bounded_at_the_whole_alpha_or_exactly(self, form: str, alpha: float) -> None:
        result = self.result(reuse_threshold=0.0, form=form)
        counts = np.sum(self.FRESH[:, :BUDGET] == 0, axis=1)
        assert result.top_lower == pytest.approx(cp_lower(counts, BUDGET, alpha), rel=1e-11)
        assert (result.replayed == 0).all()

    def test_the_cached_bound_decides_who_is_transferred(self) -> None:
        """At the threshold itself votes are fresh; what decides is the bound at the cache's alpha."""
        cached = certify(stored(MIXED[:3]), "one-sided").certificates.top_lower
        assert cached == pytest.approx(cp_lower(FIRST[:3], SAMPLES, CACHE_ALPHA), rel=1e-11)
        result = self.result(reuse_threshold=float(cached[1]))
        assert (result.replayed > 0).tolist() == [False, False, True]
        result = self.result(reuse_threshold=float(np.nextafter(cached[1], 1)))
        assert (result.replayed > 0).tolist() == [False, True, True]
        assert cached[1] < cp_lower(FIRST[1], SAMPLES, ALPHA)
        assert result.top_lower[1:] == pytest.approx(self.transferred(result)[1:], rel=1e-9)

    @pytest.mark.parametrize(
        ("form", "threshold", "error"),
        [
            ("paper", 0.99, 2 * ALPHA - CACHE_ALPHA),
            ("paper", 1.0, ALPHA),
            ("exact", 0.99, ALPHA),
            ("exact", 1.0, ALPHA),
        ],
    )
    def test_the_error_is_what_is_proved(self, form: str, threshold: float, error: float) -> None:
        settings = self.result(reuse_threshold=threshold, form=form).settings
        assert settings.alpha == ALPHA
        assert settings.error == pytest.approx(error, rel=1e-12)
        assert f"at least {1 - error:g} over" in settings.guarantee


class TestFamily:
    """alpha is divided by the number of claims in the bounds themselves, and said to be."""

    SAME = np.tile(ALWAYS, (5, 1))

    @pytest.mark.parametrize(("size", "members"), [(None, 5), (12, 12)])
    def test_of_certificates(self, size: int | None, members: int) -> None:
        each = CACHE_ALPHA / members
        for certificate, sides in (("one-sided", 1), ("two-sided", 2)):
            result = certify(stored(self.SAME), certificate, family=size or "bonferroni").certificates
            assert result.top_lower == pytest.approx((each / sides) ** (1 / SAMPLES), rel=1e-12)
            assert (result.settings.family, result.settings.error) == (members, each)
            assert result.alpha.tolist() == [each] * 5

    @pytest.mark.parametrize(("size", "members"), [(None, 5), (12, 12)])
    @pytest.mark.parametrize("method", [*OF_REPLAYS, "scratch", "scratch-cached"])
    def test_of_re_certificates(self, method: str, size: int | None, members: int) -> None:
        cache = certify(stored(self.SAME), "one-sided")
        result = recertify(stored(self.SAME, fresh=self.SAME), cache, method=method, family=size or "bonferroni")
        error = OF_REPLAYS.get(method, series_error)(ALPHA / members)
        assert result.top_lower == pytest.approx(error ** (1 / BUDGET), abs=NEARLY)
        assert (result.settings.family, result.settings.error) == (members, ALPHA / members)

    @pytest.mark.parametrize(("family", "members"), [(None, 1), ("bonferroni", 5)])
    def test_of_certificates_by_proxy(self, family: str | None, members: int) -> None:
        """All of alpha is spent on the claim about the model: nothing is claimed of the proxy."""
        inputs = np.arange(10, dtype=np.float32).reshape(5, 2)
        done = recert.certify_by_proxy(
            HalfSpace([1.0, 1.0], -1e6), inputs, noise=Gaussian(SIGMA), samples=SAMPLES, alpha=ALPHA, certificate="one-sided",
            family=family, proxy=HalfSpace([1.0, 0.0], -1e6), transfer=BUDGET,
        )  # fmt: skip
        result = done.certificates
        share = np.where(result.method == "joint", 0.98, 1.0)
        assert (result.kept == result.replayed).all()
        assert result.top_lower == pytest.approx((share * ALPHA / members) ** (1 / result.replayed), abs=NEARLY)
        assert done.cache.certificates.top_lower == pytest.approx((ALPHA / members) ** (1 / SAMPLES), rel=1e-12)
        assert (result.settings.family, result.settings.error) == (members, ALPHA / members)

    def test_the_whole_is_what_the_cache_was_asked_for(self) -> None:
        """Unless told, a re-certification's error is twice the cache's, all inputs of which were one family."""
        cache = certify(stored(self.SAME), "one-sided", family="bonferroni")
        assert cache.manifest.alpha == CACHE_ALPHA / 5
        result = recertify(stored(self.SAME), cache, method="series", alpha=None)
        assert result.top_lower == pytest.approx((2 * CACHE_ALPHA) ** (1 / BUDGET), rel=1e-12)
        assert result.settings.family == 1


def test_the_selection_votes_choose_the_class_even_if_the_others_disagree() -> None:
    """Class 1 has every vote that bounds; the class that was chosen has none, and no claim is made of another."""
    votes = stored(np.stack([ALWAYS + 1, ALWAYS]), np.stack([shuffled(26, 24, 0, 0), shuffled(24, 26, 0, 0)]))
    for certificate in ("one-sided", "two-sided"):
        cache = certify(votes, certificate)
        assert cache.certificates.top_votes.tolist() == [0, 0]
        assert cache.certificates.prediction.tolist() == [-1, -1]
    assert selected_classes(cache) == [0, 1]
    assert recertify(votes, cache, method="series").forward_passes.tolist() == [0, 0]


def test_what_the_original_abstains_on_at_this_error_is_skipped() -> None:
    """At the error of the re-certification, not at the cache's: a larger one skips fewer inputs, a smaller one more."""
    lowers = {alpha: cp_lower(np.arange(SAMPLES + 1), SAMPLES, alpha) for alpha in (CACHE_ALPHA, ALPHA, 1e-4)}
    first = {alpha: int(np.argmax(lower > 0.5)) for alpha, lower in lowers.items()}  # votes needed for a majority
    assert first[ALPHA] < first[CACHE_ALPHA] < first[1e-4]
    counts = sorted({top - short for top in first.values() for short in (0, 1)})
    votes = stored(
        np.stack([shuffled(k, SAMPLES - k, 0, 0, seed=k) for k in counts]), fresh=np.zeros((len(counts), SAMPLES), int)
    )
    cache = certify(votes, "one-sided")
    assert cache.certificates.certified.tolist() == [k >= first[CACHE_ALPHA] for k in counts]
    for alpha in (ALPHA, 1e-4):
        for method in ("series", "joint", "paired", "auto", "scratch-cached"):
            result = recertify(votes, cache, method=method, alpha=alpha)
            assert (result.forward_passes > 0).tolist() == [k >= first[alpha] for k in counts]
            skipped = result.forward_passes == 0
            assert set(result.outcome[skipped]) == {Outcome.NOT_CERTIFIED_BEFORE}
            assert (result.radius[skipped] == 0).all()
    paper = recertify(votes, cache, method="irs", alpha=ALPHA)  # its bound is at the cache's alpha
    assert (paper.forward_passes > 0).tolist() == [k >= first[CACHE_ALPHA] for k in counts]


@pytest.mark.parametrize("plan", ["uniform", "acr"])
@pytest.mark.parametrize("method", [*OF_REPLAYS, "auto"])
def test_no_more_than_half_of_the_cached_noises_are_replayed(method: str, plan: str) -> None:
    votes = stored(np.tile(ALWAYS, (9, 1)))
    cache = certify(votes, "one-sided")
    assert recertify(votes, cache, method=method, plan=plan, samples=SAMPLES // 2).replayed.max() == SAMPLES // 2
    if plan == "uniform":
        with pytest.raises(ValueError, match="at most 200 samples"):
            recertify(votes, cache, method=method, plan=plan, samples=SAMPLES // 2 + 1)
    else:
        assert recertify(votes, cache, method=method, plan=plan, samples=SAMPLES).replayed.max() == SAMPLES // 2


@pytest.mark.parametrize(("option", "enough", "too_few"), [(0, 160, 161), (1, 162, 163)])
@pytest.mark.parametrize("method", ["series", "joint"])
def test_too_few_noises_of_a_kind_make_no_claim(
    method: str, option: int, enough: int, too_few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the selection votes promised, or nothing: fewer would be a number that depends on the votes that claim.

    160 noises for the class are enough for 160 replays of it and too few for 161, with the class alone or, of 51 parts of the
    passes 50.5 and rounded down, with its rivals.
    """
    kind = {"series": Series, "joint": Joint}[method]
    monkeypatch.setattr(kind, "options", lambda self, certificate: (Option(self, 1 + option),))
    votes = stored(SELDOM)
    cache = certify(votes)
    result = recertify(votes, cache, method=method, samples=enough)
    assert (replays_of_class(result), result.top_votes[0]) == (160, 160)
    assert result.forward_passes[0] == result.replayed[0] >= 160
    result = recertify(votes, cache, method=method, samples=too_few)
    assert result.forward_passes.tolist() == [0]
    assert (result.top_lower[0], result.radius[0]) == (0, 0)
    assert result.outcome.tolist() == [Outcome.TRANSFER_TOO_WEAK]


@pytest.mark.usefixtures("both_sides")
def test_noises_of_the_other_kind_may_be_too_few_as_well() -> None:
    """Two of five selection votes are for a rival, so that some replays are to be where it has a vote; but it has only a few."""
    selection = shuffled(30, 20, 0, 0)
    for rival_votes, claims in ((150, True), (5, False), (0, False)):
        votes = stored(shuffled(SAMPLES - rival_votes, rival_votes, 0, 0), selection)
        result = recertify(votes, certify(votes), method="joint")
        assert bool(result.forward_passes[0] > 0) == bool(result.top_lower[0] > 0) == claims
    assert result.outcome.tolist() == [Outcome.TRANSFER_TOO_WEAK]


def with_last(votes: Votes, count: int) -> Votes:
    """As many of nobody's votes, the first ones, are class 2's. Class 1 is never voted for."""
    changed = votes.copy()
    changed[np.flatnonzero(votes < 0)[:count]] = 2
    return changed


@pytest.mark.usefixtures("both_sides")
class TestRivals:
    """A rival that any vote of the original was for has a bound of its own; rivals without a vote share theirs."""

    @pytest.mark.parametrize("method", ["series", "joint"])
    @pytest.mark.parametrize("votes", [1, 100])
    def test_seen_by_the_votes_that_claim(self, votes: int, method: str) -> None:
        """All of its cached votes count. The replays alone, with all that it has of them, would bound it less well."""
        same = stored(with_last(SELDOM, votes))
        result = recertify(same, certify(same), method=method)
        assert result.certified[0]
        assert result.lost[0] == 0
        of_it = int(np.sum(with_last(SELDOM, votes)[:BUDGET] == 2))
        assert cp_upper(votes, SAMPLES, ALPHA / 2) < result.runner_up_upper[0] < cp_upper(of_it, BUDGET, ALPHA / 2)

    def test_seen_by_many_votes_that_choose(self) -> None:
        """Some replays are to be where the rival has a vote. There are none, so that no claim is made."""
        same = stored(SELDOM, shuffled(SELECTION - 20, 0, 20, 0))
        result = recertify(same, certify(same), method="joint")
        assert (result.forward_passes[0], result.top_lower[0]) == (0, 0)

    @pytest.mark.parametrize("method", ["series", "joint"])
    def test_seen_by_one_vote_that_chooses(self, method: str) -> None:
        """Of 51 parts of the replays 49.5, rounded down, are where it has no vote; what it takes up later is not counted."""
        modified = SELDOM.copy()
        modified[97] = 2
        cache = certify(stored(SELDOM, shuffled(SELECTION - 1, 0, 1, 0)))
        result = recertify(stored(modified), cache, method=method)
        exact = cp_upper(0, 97, OF_REPLAYS[method](ALPHA / 2))
        assert exact - 1e-12 <= result.runner_up_upper[0] < exact + NEARLY

    @pytest.mark.parametrize("method", OF_REPLAYS)
    def test_all_seen(self, method: str) -> None:
        """Then none is left to share a bound, and nothing is lost to those that are not there."""
        votes = stored(SELDOM, shuffled(SELECTION - 2, 1, 1, 0))
        result = recertify(votes, certify(votes), method=method)
        shunned = BUDGET if method == "paired" else 97  # of 51 parts 49.5, rounded down
        exact = 1 - OF_REPLAYS[method](ALPHA / 2) ** (1 / shunned)
        assert exact - 1e-12 <= result.runner_up_upper[0] < exact + NEARLY

    @pytest.mark.parametrize("taken", [(0, 0), (2, 5), (5, 2), (5, 5)])
    @pytest.mark.parametrize("method", ["series", "joint"])
    def test_not_seen(self, method: str, taken: tuple[int, int]) -> None:
        """Of two rivals without a vote that which the modified model takes up more often is bounded."""
        modified = SELDOM.copy()
        nobodys = np.flatnonzero(SELDOM < 0)
        modified[nobodys[: taken[0]]] = 1
        modified[nobodys[taken[0] : sum(taken)]] = 2
        result = recertify(stored(modified), certify(stored(SELDOM)), method=method, samples=162)
        assert (
            replays_of_class(result) == 160
        )  # of 51 parts 50.5, rounded down; and as many where none of the rivals has a vote
        exact = cp_upper(max(taken), 160, OF_REPLAYS[method](ALPHA / 2))
        assert exact - 1e-12 <= result.runner_up_upper[0] < exact + NEARLY


@pytest.mark.parametrize("method", [*OF_REPLAYS, "scratch-cached", "irs"])
def test_every_input_of_many_has_its_bound(method: str) -> None:
    """However many there are: bounds are computed in blocks, while others are drawn."""
    many = np.zeros((150, SAMPLES), int)
    result = recertify(stored(many, fresh=many), certify(stored(many), "one-sided"), method=method)
    assert result.certified.all()
    assert (result.forward_passes == BUDGET).all()
    assert len(set(result.top_lower)) == 1


def test_a_single_pass_is_taken() -> None:
    """At an error of .6 one replay is enough for a majority."""
    result = recertify(stored(ALWAYS), certify(stored(ALWAYS), "one-sided"), method="series", samples=1, alpha=0.6)
    assert result.forward_passes.tolist() == [1]
    assert 0.5 < result.top_lower[0] <= 0.6
    assert result.certified.all()


@pytest.mark.parametrize("selected", [SELECTION, 40, 30])
@pytest.mark.parametrize("method", ["joint", "paired", "series"])
def test_a_one_sided_replay_costs_what_was_asked(method: str, selected: int) -> None:
    """Noises for the class and others together are the budget; all are drawn, and those for the class are kept or lost."""
    votes = stored(shuffled(300, 100, 0, 0), shuffled(selected, SELECTION - selected, 0, 0))
    result = recertify(votes, certify(votes, "one-sided"), method=method)
    assert result.replayed.tolist() == result.forward_passes.tolist() == [BUDGET]
    assert 0 < replays_of_class(result) <= BUDGET


def test_series_replays_nothing_but_votes_for_the_class() -> None:
    """On the first noise the original does not vote for it. That the modified model does is not even drawn."""
    original = ALWAYS.copy()
    original[0] = 1
    result = recertify(stored(ALWAYS), certify(stored(original), "one-sided"), method="series")
    assert result.replayed.tolist() == result.forward_passes.tolist() == result.kept.tolist() == [BUDGET]
    assert (result.lost.tolist(), result.gained.tolist()) == ([0], [0])


@pytest.mark.parametrize(
    ("streams", "more"), [(set(Stream), ["scratch-cached"]), ({Stream.SELECTION, Stream.ESTIMATION}, []), ({Stream.ESTIMATION}, [])]
)  # fmt: skip
def test_a_choice_is_among_methods_that_the_source_has_votes_for(streams: set[Stream], more: list[str]) -> None:
    source = stored(ALWAYS, fresh=ALWAYS)
    cache = certify(source)
    source.streams = frozenset(streams)
    task = Task.of(source, cache, Auto(), samples=BUDGET, alpha=ALPHA, certificate="one-sided", objective=None)
    assert [option.method.name for option in task.options] == ["series", "few-flips", "joint", *more]


class Recording(StoredVotes):
    """Stored votes that remember which were asked for, by stream."""

    asked: dict[Stream, int]

    def draw(self, works: Sequence[Work], task: str, progress: object) -> Iterator[VoteChunk]:
        for work in works:
            self.asked = getattr(self, "asked", {})
            self.asked[work.stream] = self.asked.get(work.stream, 0) + len(work.samples)
        return super().draw(works, task, None)


@pytest.mark.parametrize(
    ("method", "streams"),
    [
        *((method, {Stream.ESTIMATION}) for method in OF_REPLAYS),
        (recert.Irs(reuse_threshold=1.0), {Stream.ESTIMATION}),
        (recert.Irs(reuse_threshold=0.0), {Stream.FRESH}),
        ("scratch-cached", {Stream.FRESH}),
        (recert.Scratch(SELECTION), {Stream.SELECTION, Stream.FRESH}),
    ],
)
def test_replays_stand_on_the_cached_noises_and_fresh_votes_on_new_ones(
    method: str | recert.Method, streams: set[Stream]
) -> None:
    """All that is drawn is charged. What a method replays of the original is on the noises that its cached votes stand on."""
    always = np.tile(ALWAYS, (3, 1))
    source = stored(always, fresh=always, kind=Recording)
    result = recertify(source, certify(stored(always), "one-sided"), method=method)
    assert isinstance(source, Recording)
    assert set(source.asked) == streams
    assert sum(source.asked.values()) == result.forward_passes.sum()
    expected = {Stream.SELECTION: 3 * SELECTION}
    assert source.asked == {stream: expected.get(stream, 3 * BUDGET) for stream in streams}


@pytest.fixture(autouse=True)
def nothing_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks_of_caches, "_of_this_process", {})
    monkeypatch.setattr(looks_of_caches, "_sizes_of_this_process", {})


class TestLooks:
    """Votes that are extended are looked at twice; each look has its error, and the store remembers all of them."""

    SAME = np.tile(ALWAYS, (2, 1))
    VOTES = stored(SAME)

    def test_more_votes_of_either_kind_are_another_look(self, tmp_path: Path) -> None:
        counts = [(200, 30), (200, 30), (300, 30), (300, 50), (400, 50), (400, 50)]
        expected = [(200,), (200,), (200, 300), (200, 300, 300), (200, 300, 300, 400), (200, 300, 300, 400)]
        for (samples, selected), looks in zip(counts, expected, strict=True):
            cache = certify(self.VOTES, samples=samples, selection_samples=selected, store=tmp_path)
            assert cache.manifest.looks == Cache.open(tmp_path).manifest.looks == looks
            assert cache.certificates.settings.looks == looks
        assert recertify(self.VOTES, cache, method="series").settings.looks == looks
        assert recertify(stored(self.SAME, fresh=self.SAME), cache, method="scratch").settings.looks == ()
        with pytest.raises(ContextMismatch):
            certify(self.VOTES, samples=300, store=tmp_path)

    def test_what_is_asked_tells_looks_apart(self) -> None:
        """Whatever changes a claim makes another look, and is refused where looks were planned."""
        cache = certify(self.VOTES)
        given: dict[str, Any] = {"method": "series"}
        others = [
            {"method": "joint"},
            {"certificate": "one-sided"},
            {"plan": "acr"},
            {"alpha": ALPHA / 2},
            {"family": 7},
        ]
        for count, other in enumerate([{}, *others], 1):
            together = recertify(self.VOTES, cache, **{**given, **other}).settings.together
            assert together is not None
            assert together.looks == count
        recertify(self.VOTES, cache, looks=2, **given)
        for other in others:
            with pytest.raises(
                ValueError, match=f"got another .*{'alpha' if 'family' in other else next(iter(other))}: "
            ):
                recertify(self.VOTES, cache, looks=2, **{**given, **other})

    def test_forms_of_irs_are_not_planned_together(self) -> None:
        votes, cache = stored(self.SAME, fresh=self.SAME), certify(self.VOTES, "one-sided")
        recertify(votes, cache, method="irs", looks=2)
        recertify(votes, cache, method="irs", looks=2, samples=2 * BUDGET)
        with pytest.raises(ValueError, match="another form: paper then, exact now"):
            recertify(votes, cache, method=Irs(form="exact"), looks=2, samples=2 * BUDGET)

    def test_a_cached_bound_at_another_alpha_is_another_look(self, tmp_path: Path) -> None:
        """The cache's alpha is part of what irs claims, also where what is proved is the same."""
        votes, found = stored(self.SAME, fresh=self.SAME), []
        for alpha in (CACHE_ALPHA, CACHE_ALPHA, CACHE_ALPHA / 2):
            cache = certify(self.VOTES, "one-sided", alpha=alpha, store=tmp_path)
            found.append(recertify(votes, cache, method=Irs(form="exact")).settings)
        assert [settings.together and settings.together.looks for settings in found] == [1, 1, 2]
        assert {settings.error for settings in found} == {ALPHA}

    def test_the_guarantee_counts_them(self) -> None:
        settings = certify(self.VOTES).certificates.settings
        assert "look" not in settings.guarantee
        for looks in ((300, 400), (200, 300, 400)):
            said = replace(settings, looks=looks).guarantee
            assert f"n = {', '.join(map(str, looks))}" in said
            assert f"all hold together has error at most {len(looks) * CACHE_ALPHA:g}" in said

    @pytest.mark.parametrize(
        "looks", [(400, 300), (350, 300, 400), (300,), (300, 500), (500,), (0, 400), (True, 400), ("300", 400)]
    )
    def test_looks_that_cannot_have_been_are_refused(self, looks: tuple[Any, ...]) -> None:
        manifest = certify(self.VOTES).manifest
        assert replace(manifest, looks=(300, 400)).looks == (300, 400)
        with pytest.raises(ValueError, match="looks"):
            replace(manifest, looks=looks)


@pytest.mark.parametrize(
    ("method", "proven"), [(Series(), bounds.series_lower), (FewFlips(), bounds.few_flips_lower)], ids=["series", "few"]
)
def test_what_is_claimed_is_proven_and_not_only_searched(method: ReplayMethod, proven: Any) -> None:
    """What plans use may be above the proven bound: no claim may rest on it."""
    rng = np.random.default_rng(0)
    votes, replayed, none = rng.integers(600, 1_001, 30), np.full(30, 200), np.zeros(30, dtype=np.int64)
    of = EventCounts(votes, rng.integers(0, 12, 30), replayed, none, none)
    wanted = proven(votes, 1_000, replayed - of.lost, replayed, 0.002)
    assert (method.about(of, 1_000, 0.002) > wanted).any()
    assert np.array_equal(method.lower_bound(of, 1_000, 0.002), wanted)
    # Each is alone in its group, and so the least of it.
    assert np.array_equal(method.least_lower_bound(of, 1_000, 0.002, np.arange(30)), wanted)
