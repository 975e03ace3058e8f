"""`certify(at=...)` and `recertify(at=...)`: how often they claim too much, what they spend alpha on, and what they may look at."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm

import recert
from recert.certificates import Outcome
from recert.sequential.beliefs import WEIGHTS, Believed, levels_for
from recert.votes import SelectionCounts
from tests.sequential.test_levels import chosen

SIGMA = 1.0
NOISE = recert.Gaussian(SIGMA)


def votes(shares: list[float], rows: int, columns: int, seed: int) -> np.ndarray:
    """Independent votes, the same shares for every row."""
    rng = np.random.default_rng(seed)
    return np.searchsorted(np.cumsum(shares)[:-1], rng.random((rows, columns))).astype(np.int64)


def changed(original: np.ndarray, rates: dict[tuple[int, int], float], seed: int) -> np.ndarray:
    """Votes for one class become votes for another, at these rates."""
    rng = np.random.default_rng(seed)
    new, chance = original.copy(), rng.random(original.shape)
    for (old, to), rate in rates.items():
        new[(original == old) & (chance < rate)] = to
    return new


def stored(all_votes: np.ndarray, selection: int, classes: int) -> recert.StoredVotes:
    return recert.StoredVotes(all_votes[:, selection:], selection=all_votes[:, :selection], classes=classes)


def radius(shares: list[float]) -> float:
    first, second = sorted(shares)[::-1][:2]
    return float(SIGMA / 2 * (norm.ppf(first) - norm.ppf(second)))


class TestFreshVotes:
    @pytest.mark.parametrize(
        ("shares", "certificate"), [([0.75, 0.25], "one-sided"), ([0.75, 0.25], "two-sided"), ([0.5, 0.2, 0.15, 0.15], "two-sided")]
    )  # fmt: skip
    def test_a_radius_that_is_a_little_too_large_is_shown_no_more_often_than_alpha(
        self, shares: list[float], certificate: str
    ) -> None:
        source = stored(votes(shares, 1500, 650, seed=1), 50, len(shares))
        result = recert.certify(
            source, None, noise=NOISE, at=radius(shares) + 1e-6, alpha=0.1, samples=600, certificate=certificate
        )
        wrong = (result.certified & (result.prediction == 0)).mean()
        assert wrong <= 0.1 + 3 * np.sqrt(0.09 / 1500)
        # A pair has room to spare: both of its halves must be wrong together where both are nearly right.
        assert wrong > 0.005 or len(shares) > 2

    def test_the_class_alone_spends_alpha_once(self) -> None:
        """All votes agree: the evidence is a mean of powers, and the first vote at which it is 1/alpha can be computed here."""
        alpha, at, selection = 0.001, 0.5, 50
        tau = norm.cdf(at / SIGMA)
        shares = norm.cdf(norm.ppf(tau) + 0.03 * 1.5 ** np.arange(13))
        believed = shares**selection / (shares**selection).sum()
        weights = 0.7 * believed + 0.3 / 13
        needed = next(n for n in range(1, 999) if weights @ (shares / tau) ** n >= 1 / alpha)
        source = stored(np.zeros((1, selection + needed), dtype=int), selection, 3)
        settings: dict[str, Any] = {"noise": NOISE, "at": at, "alpha": alpha, "certificate": "one-sided"}
        assert recert.certify(source, None, samples=needed, **settings).certified.all()
        with pytest.raises(ValueError, match=f"expected at least {needed} samples to show a radius of 0.5"):
            recert.certify(source, None, samples=needed - 1, **settings)

    def test_each_half_of_a_pair_spends_half_of_alpha(self) -> None:
        """The class has 3 votes in 4, two rivals share the rest: its evidence is a ratio of beta functions."""
        from scipy.special import betaln, ndtri

        alpha, at, selection = 0.05, 0.7, 64
        pattern = np.tile([0, 0, 1, 0, 0, 0, 2, 0], 300)[None]
        source = stored(pattern, selection, 3)
        result = recert.certify(
            source, None, noise=NOISE, at=at, alpha=alpha, samples=2000, selection_samples=selection
        )
        assert result.certified[0]
        # It asked for a pair: the class alone would have to be above Phi(.7) = .758 of the votes.
        high, low = result.top_lower[0], result.runner_up_upper[0]
        assert high < 0.75 < norm.cdf(at)
        assert SIGMA / 2 * (ndtri(high) - ndtri(low)) >= at * (1 - 1e-12)
        n, k, rival = (
            int(result.samples[0]),
            int(result.top_votes[0]),
            int((pattern[0, selection:][: result.samples[0]] == 1).sum()),
        )
        evidence = []
        for hits, selected, threshold in ((k, 48, high), (n - rival, 56, 1 - low)):
            a, b = 1 + selected / 2, 1 + (selection - selected) / 2
            ratio = betaln(hits + a, n - hits + b) - betaln(a, b)
            evidence.append(ratio - hits * np.log(threshold) - (n - hits) * np.log1p(-threshold))
        assert min(evidence) >= np.log(2 / alpha) - 1e-6

    def test_of_several_radii_none_is_skipped(self) -> None:
        result = recert.certify(
            stored(votes([0.8, 0.2], 300, 900, seed=2), 50, 2),
            None,
            noise=NOISE,
            at=[0.3, 0.6, 2.0],
            alpha=0.01,
            samples=850,
        )
        assert set(result.radius) <= {0.0, 0.3, 0.6}
        assert (result.radius == 0.6).mean() > 0.8

    def test_votes_that_claim_do_not_choose_the_question(self) -> None:
        """Other estimation votes, the same question: the first round asks for the same number of votes."""
        from recert.sequential import FreshVotes

        selection = SelectionCounts(np.array([[30, 12, 8], [40, 10, 0]]))
        asked = [FreshVotes(selection, NOISE, np.array([0.2]), runner_up=True)._ask_pair for _ in range(2)]
        assert asked[0].tolist() == [[True], [False]]
        assert asked[0].tolist() == asked[1].tolist()


class TestReplays:
    @staticmethod
    def both(
        rows: int, columns: int, shares: list[float], rates: dict[tuple[int, int], float], seed: int, certificate: str
    ) -> Any:
        original = votes(shares, rows, 100 + columns, seed)
        new = changed(original, rates, seed + 1)
        cache = recert.certify(
            stored(original, 100, len(shares)),
            None,
            noise=NOISE,
            samples=columns,
            selection_samples=100,
            alpha=0.05,
            certificate=certificate,
        )
        return cache, stored(new, 100, len(shares))

    @pytest.mark.parametrize(
        ("shares", "rates", "after", "certificate"),
        [
            ([0.85, 0.15], {(0, 1): 0.06}, [0.799, 0.201], "one-sided"),  # losses only
            ([0.85, 0.15], {(0, 1): 0.1, (1, 0): 0.3}, [0.81, 0.19], "one-sided"),  # losses and gains
            (
                [0.6, 0.2, 0.1, 0.1],
                {(0, 1): 0.1},
                [0.54, 0.26, 0.1, 0.1],
                "two-sided",
            ),  # a rival gains what the class loses
            ([0.6, 0.2, 0.1, 0.1], {(2, 1): 0.9}, [0.6, 0.29, 0.01, 0.1], "two-sided"),  # a rival gains from another
        ],
    )
    def test_a_radius_that_is_a_little_too_large_is_shown_no_more_often_than_alpha(
        self, shares: list[float], rates: dict[tuple[int, int], float], after: list[float], certificate: str
    ) -> None:
        cache, new = self.both(1200, 2_000, shares, rates, seed=5, certificate=certificate)
        result = recert.recertify(new, None, cache, samples=1_500, alpha=0.1, at=radius(after) + 1e-6)
        wrong = (result.certified & (result.prediction == 0)).mean()
        assert wrong <= 0.1 + 3 * np.sqrt(0.09 / 1200)
        # And a radius that is clearly smaller is shown of most inputs.
        result = recert.recertify(new, None, cache, samples=1_500, alpha=0.1, at=0.25 * radius(after))
        assert result.certified.mean() > 0.7

    @pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
    def test_the_class_is_chosen_by_the_selection_votes(self, certificate: str) -> None:
        """The votes that claim are all for another class: certifying that one would be a choice that they made."""
        original = np.zeros((3, 1_100), dtype=np.int64)
        original[:, :100] = 1
        source = stored(original, 100, 2)
        cache = recert.certify(
            source, None, noise=NOISE, samples=1_000, selection_samples=100, alpha=0.05, certificate=certificate
        )
        again = recert.recertify(source, None, cache, samples=1_000, alpha=0.1, at=0.3)
        fresh = recert.certify(
            source, None, noise=NOISE, samples=1_000, selection_samples=100, alpha=0.1, at=0.3, certificate=certificate
        )
        assert not cache.certificates.certified.any()
        assert not again.certified.any()
        assert not fresh.certified.any()

    def test_nothing_flips_and_every_level_has_its_evidence(self) -> None:
        """All votes agree: the bound at error e is e^(1/N), and the evidence a mean of powers of 1 + stake * slack / (1 - slack)."""
        alpha, at, n = 0.002, 0.5, 1000
        cache, new = self.both(1, n, [1.0, 0.0], {}, seed=1, certificate="one-sided")
        levels, stakes = chosen(100, 100, norm.cdf(at / SIGMA), n, alpha)
        rest = n - int(levels.replays[0, 0])
        slack = levels.errors[0, 0, :-1] ** (1 / rest) - norm.cdf(at / SIGMA)
        wanted = np.exp(levels.costs[0, 0, :-1]) / alpha
        growth = 1 + stakes * (slack / (1 - slack))[:, None]
        needed = next(t for t in range(1, 999) if np.all(growth**t @ WEIGHTS >= wanted))
        for samples, certified in ((needed, True), (needed - 1, False)):
            result = recert.recertify(new, None, cache, samples=samples, alpha=alpha, at=at)
            assert bool(result.certified[0]) is certified
            assert result.forward_passes[0] == samples or not certified

    @pytest.mark.parametrize(("at", "out"), [(0.841, True), (0.75, False)])
    def test_clopper_pearsons_bounds_must_leave_slack(self, at: float, out: bool) -> None:
        """The original has .8 of the votes, radius .8416. What no bound at the errors of the levels, nor that of the whole cache, leaves
        above the threshold is out of reach, and costs nothing."""
        alpha, n = 0.05, 2_000
        cache, new = self.both(40, n, [0.8, 0.2], {}, seed=3, certificate="one-sided")
        result = recert.recertify(new, None, cache, samples=n, alpha=alpha, at=at)
        tau, chose = norm.cdf(at / SIGMA), cache.counts(recert.Stream.SELECTION)[:, 0]
        for row, digest in enumerate(cache.manifest.inputs):
            levels, _ = chosen(int(chose[row]), 100, tau, n, alpha)
            votes, error = cache.votes(digest), levels.errors[0, 0]
            rest, k = votes[int(levels.replays[0, 0]) :], int((votes == 0).sum())
            hits = int((rest == 0).sum())
            least = max(beta.ppf(error[0], hits, len(rest) - hits + 1), beta.ppf(error[-1], k, n - k + 1))
            assert least > tau or result.forward_passes[row] == 0
        assert bool((result.forward_passes == 0).all()) is out

    def test_each_half_of_a_pair_spends_half_of_alpha(self) -> None:
        """Nothing flips: slack and number of noises follow from Clopper-Pearson bounds at the errors of the levels, for half of alpha."""
        alpha, at, n = 0.02, 0.4, 4_000
        pattern = np.tile([0, 0, 1, 2, 0], (100 + n) // 5)[None]  # .6, .2, .2
        cache = recert.certify(stored(pattern, 100, 3), None, noise=NOISE, samples=n, selection_samples=100, alpha=0.01)
        selection = SelectionCounts(np.array([[60, 20, 20]]))
        believed = Believed.of(
            selection, np.array([0]), NOISE, np.array([at]), np.array([[norm.cdf(at)]]), runner_up=True
        )
        assert believed.pair.all()
        levels = levels_for(believed, n, np.array([[alpha / 2]]))
        errors, rest = levels.errors[0, 0, :-1], n - int(levels.replays[0, 0])
        counts = np.bincount(pattern[0, 100 + n - rest :], minlength=3)
        top = beta.ppf(errors, counts[0], rest - counts[0] + 1)
        rival = beta.ppf(1 - errors, counts[1:].max() + 1, rest - counts[1:].max())
        gaps = np.linspace(0, 0.2, 200_001)
        first = gaps[SIGMA / 2 * (norm.ppf(top[0] - gaps) - norm.ppf(rival[0] + gaps)) >= at][-1]
        wanted, needed = np.exp(levels.costs[0, 0, :-1]) * 2 / alpha, 0
        for slack, label in ((top - top[0] + first, 0), (rival[0] - rival + first, 1)):
            stakes = believed.stakes(np.array([0]), np.array([label]))[0, 0]
            growth = 1 + stakes * (slack / (1 - slack))[:, None]
            needed = max(needed, next(t for t in range(1, 999) if np.all(growth**t @ WEIGHTS >= wanted)))
        for samples, certified in ((2 * needed, True), (needed - 1, False)):
            result = recert.recertify(stored(pattern, 100, 3), None, cache, samples=samples, alpha=alpha, at=at)
            assert bool(result.certified[0]) is certified
            # One looks again after two passes, or a twentieth of those before. The slack is known to a millionth here.
            assert not certified or needed - 1 <= result.forward_passes[0] <= 1.05 * needed + 3

    def test_noises_against_the_class_are_replayed_only_after_flips(self) -> None:
        cache, new = self.both(200, 1_000, [0.8, 0.2], {(0, 1): 0.02}, seed=9, certificate="one-sided")
        result = recert.recertify(new, None, cache, samples=900, alpha=0.05, at=0.5)
        few = result.lost < 2
        assert np.all(result.replayed[few] == result.kept[few] + result.lost[few])
        assert np.any(result.replayed[~few] > result.kept[~few] + result.lost[~few])
        assert np.all(result.gained[few] == 0)

    def test_to_go_on_is_no_further_look_and_draws_nothing_twice(self) -> None:
        cache, new = self.both(60, 2_000, [0.8, 0.2], {(0, 1): 0.03}, seed=11, certificate="one-sided")
        first = recert.recertify(new, None, cache, samples=30, alpha=0.05, at=0.5)
        second = recert.recertify(new, None, cache, samples=1_900, alpha=0.05, at=0.5)
        assert first.certified.sum() < second.certified.sum()
        assert np.all(second.certified[first.certified])
        assert second.settings.together is not None
        assert second.settings.together.looks == 1
        third = recert.recertify(new, None, cache, samples=1_900, alpha=0.05, at=0.6)
        assert third.settings.together is not None
        assert third.settings.together.looks == 2


def test_enough_ends_the_run() -> None:
    source = stored(votes([0.8, 0.2], 300, 1050, seed=4), 50, 2)
    whole = recert.certify(source, None, noise=NOISE, at=0.5, alpha=0.01, samples=1_000)
    part = recert.certify(
        source, None, noise=NOISE, at=0.5, alpha=0.01, samples=1_000, enough=lambda c: c.certified.mean() >= 0.2
    )
    assert 0.2 <= part.certified.mean() < whole.certified.mean()
    assert part.forward_passes.sum() < whole.forward_passes.sum()
    assert set(part.outcome) == {Outcome.CERTIFIED, Outcome.UNDECIDED, Outcome.RADIUS_OUT_OF_REACH}
    assert np.all(whole.certified[part.certified])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at": 0}, "expected from 1 to 100 radii above 0"),
        ({"at": "half"}, "expected a radius or a list of radii"),
        ({"at": 99.0}, "expected radii that noise of gaussian:1.0 can show, at most"),
        ({"at": 0.5, "samples": 5}, "samples to show a radius of 0.5"),
        ({"enough": lambda c: True}, "expected at=... with enough=..."),
    ],
)
def test_bad_questions(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recert.certify(stored(np.zeros((1, 200), dtype=int), 50, 2), None, noise=NOISE, **{"samples": 150, **change})


def test_what_means_nothing_beside_a_radius_is_refused() -> None:
    original = stored(np.zeros((1, 200), dtype=int), 50, 2)
    cache = recert.certify(original, None, noise=NOISE, samples=150, selection_samples=50)
    for name, value in (("method", "series"), ("plan", "acr"), ("looks", 4)):
        with pytest.raises(ValueError, match=f"expected no {name} with at="):
            recert.recertify(original, None, cache, samples=100, at=0.5, **{name: value})
    with pytest.raises(ValueError, match=r"expected at=\.\.\. with enough="):
        recert.recertify(original, None, cache, samples=100, enough=lambda c: True)
