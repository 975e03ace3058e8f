"""The plan `accuracy:R`: chances as they are, more budget never worse, no pass where the radius is out of reach."""

import numpy as np
import pytest
from scipy.stats import beta, binom, nbinom, norm

import recert
from recert import Gaussian, StoredVotes, bounds
from recert.planning import Beliefs, Reached, plan_budget
from recert.planning.chances import FlipChances
from recert.recertification.joint import Joint
from recert.recertification.method import Terms
from recert.recertification.scratch import ScratchCached
from recert.recertification.series import FewFlips, Series

NOISE = Gaussian(0.5)
N, ALPHA = 10_000, 0.002


def a(*values: float) -> np.ndarray:
    return np.array(values)


@pytest.mark.parametrize(("radius", "most"), [(0.95, 0), (0.85, 1), (0.55, 4), (0.45, 5), (0.15, 5)])
def test_the_chance_is_that_no_more_flips_come_than_the_radius_allows(radius: float, most: int) -> None:
    """Each flip costs a tenth; bounds are predicted at 0, 1, 2 and 5 of them. The rate is exponential, so that losses are geometric."""
    numbers = [0, 1, 2, 5]
    after = [lambda p, q, m, lost=lost: 1 - lost / 10 + 0 * p * m for lost in numbers]
    chance = FlipChances(radius, numbers, after, flips=0.5)
    for p, m in ((0.9, 20.0), (0.99, 7.0), (0.6, 100.0)):
        mean = m * 0.5 * (1 - p)
        assert chance(a(p), a(0.0), a(m)) == pytest.approx(nbinom(1, 1 / (1 + mean)).cdf(most))


def test_no_chance_where_the_radius_is_missed_without_a_flip() -> None:
    after = [lambda p, q, m, lost=lost: p - lost / 10 + 0 * m for lost in (0, 1)]
    found = FlipChances(0.8, (0, 1), after, flips=0.0)(a(0.7, 0.8, 0.95), a(0, 0, 0), a(9.0, 9.0, 9.0))
    assert found.tolist() == [0, 1, 1]


def losses_allowed(method: str, p: float, m: int, radius: float) -> int:
    """By the bounds themselves, one by one; -1 if the radius is missed without any."""
    lower = bounds.series_lower if method == "series" else bounds.few_flips_lower
    lost = np.arange(14)
    reached = NOISE.radius(np.asarray(lower(round(p * N), N, m - lost, m, ALPHA))) >= radius
    return int(reached.sum()) - 1


@pytest.mark.parametrize("method", [Series(), FewFlips()], ids=lambda method: method.name)
def test_chances_of_replays_are_those_of_the_bounds(method: Series) -> None:
    """Tables are read between their lines: at most one flip beside the true number, and mostly at it."""
    terms, right = Terms(N, 500, 10, NOISE, ALPHA, 0.001, 1, 0.03), []
    chance = method.chance(terms, N // 2, 0.25)
    for p in (0.75, 0.85, 0.95, 0.99):
        for m in (15, 22, 40, 80, 200, 700):
            mean, most = m * 0.03 * (1 - p), losses_allowed(method.name, p, m, 0.25)
            near = [nbinom(1, 1 / (1 + mean)).cdf(k) if k >= 0 else 0.0 for k in (most - 1, most, most + 1)]
            found = chance(a(p), a(0.0), a(m)).item()
            assert near[0] - 1e-9 <= found <= near[2] + 1e-9
            right.append(abs(found - near[1]) < 1e-6)
    assert np.mean(right) > 0.7


@pytest.mark.parametrize("sides", [1, 2])
def test_chances_of_fresh_votes_are_binomial(sides: int) -> None:
    terms = Terms(N, 500, 10, NOISE, ALPHA, 0.001, sides, 0.0)
    chance = ScratchCached().chance(terms, N, 0.25)
    tau = norm.cdf(0.5)
    for p in (0.72, 0.76, 0.8, 0.9):
        for m in (60, 200, 1_000, 5_000):
            # One rival has all that the class leaves: both sides are one, at half of alpha each.
            enough = beta.ppf(ALPHA / sides, np.arange(1, m + 1), m - np.arange(1, m + 1) + 1) >= tau
            exact = binom(m, p).sf(m - np.count_nonzero(enough))
            assert chance(a(p), a(1 - p), a(m)).item() == pytest.approx(exact, abs=0.12)


def test_gains_make_up_for_losses_where_both_are_replayed() -> None:
    """An input that loses as many votes as it gains keeps its radius: series is bound to miss it, joint is not."""
    terms = Terms(N, 500, 10, NOISE, ALPHA, 0.001, 1, 0.1)
    series, joint = (method.chance(terms, N // 2, 0.25)(a(0.76), a(0.0), a(2_000.0)) for method in (Series(), Joint()))
    assert series < 0.3
    assert joint > 0.5


def test_an_input_that_needs_few_passes_gets_enough_for_a_flip() -> None:
    """Twenty replays reach .25 if none flips. Beside inputs that take thousands the few more that allow one flip are cheap."""
    beliefs = Beliefs(a(0.97, 0.97, 0.71, 0.71)[:, None], np.zeros((4, 1)))
    terms = Terms(N, 500, 10, NOISE, ALPHA, 0.001, 1, 0.03)
    methods = [Series(), FewFlips(), Joint()]
    choice = plan_budget(beliefs, [m.chance(terms, N // 2, 0.25) for m in methods], Reached(0.25), 2_000, N // 2)
    option = methods[choice.option[0]]
    assert losses_allowed("series", 0.97, 20, 0.25) == 0
    assert isinstance(option, Series)
    assert losses_allowed(option.name, 0.97, int(choice.passes[0]), 0.25) >= 1
    assert choice.passes[0] < 100


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
def test_more_budget_certifies_no_fewer_and_no_fewer_than_equal_shares(
    certificate: str, real_votes: dict[str, np.ndarray]
) -> None:
    """64 real images, many flips. Up to one image, which chance decides."""

    def stored(name: str) -> StoredVotes:
        v = real_votes[name]
        return StoredVotes(v[:, 500:9_000], selection=v[:, :500], fresh=v[:, 9_000:], classes=10)

    cache = recert.certify(
        stored("fp32"), None, noise=NOISE, samples=8_500, selection_samples=500, certificate=certificate
    )
    changed, before = stored("prune20"), 0
    reachable = np.maximum(cache.certify(alpha=ALPHA, certificate="one-sided").radius, cache.certify(alpha=ALPHA).radius) >= 0.25  # fmt: skip
    for samples in (40, 120):
        planned, uniform = (
            recert.recertify(changed, None, cache, samples=samples, alpha=ALPHA, plan=plan)
            for plan in ("accuracy:0.25", "uniform")
        )
        reached = int((planned.radius >= 0.25).sum())
        assert reached >= max(before, int((uniform.radius >= 0.25).sum())) - 1
        before = max(before, reached)
        out = planned.outcome[~reachable]
        assert (planned.forward_passes[~reachable] == 0).all()
        assert set(out) == {"not-certified-before", "left-out-by-plan"}
        assert planned.mean_forward_passes <= 1.1 * samples


def test_with_a_large_budget_fresh_votes_may_reach_what_the_cache_does_not() -> None:
    """A cache of few votes shows no radius of .25; so many fresh ones do."""
    rng = np.random.default_rng(0)
    votes = (rng.random((6, 4_600)) < 0.75).astype(int)
    source = StoredVotes(votes[:, 100:300], selection=votes[:, :100], fresh=votes[:, 300:], classes=2)
    cache = recert.certify(source, None, noise=NOISE, samples=200, selection_samples=100, certificate="one-sided")
    assert (cache.certify(alpha=ALPHA).radius < 0.25).all()
    with pytest.warns(UserWarning, match="certifying anew"):
        result = recert.recertify(source, None, cache, samples=4_000, alpha=ALPHA, plan="accuracy:0.25")
    assert (result.radius >= 0.25).all()
