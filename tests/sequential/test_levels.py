"""How alpha is divided between the votes that are not replayed and the replays: the error of a claim, summed over all outcomes."""

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

import recert
from recert.sequential import Replays
from recert.sequential.beliefs import WEIGHTS, Believed, Levels, levels_for
from recert.votes import SelectionCounts

NOISE, ALPHA = recert.Gaussian(1.0), 0.1


def chosen(selected: int, of: int, tau: float, size: int, alpha: float = ALPHA) -> tuple[Levels, np.ndarray]:
    """For one input and radius, whose class must be above tau: levels and bets."""
    selection, classes = SelectionCounts(np.array([[selected, of - selected]])), np.array([0])
    radii = np.array([norm.ppf(tau)])
    believed = Believed.of(selection, classes, NOISE, radii, np.array([[tau]]), runner_up=False)
    return levels_for(believed, size, np.array([[alpha]])), believed.stakes(np.array([0]), classes)[0, 0]


def test_levels_and_the_whole_cache_spend_alpha_and_no_more() -> None:
    for selected, of, tau, size in (
        (500, 500, 0.7, 8_500),
        (430, 500, 0.84, 8_500),
        (60, 100, 0.55, 300),
        (20, 100, 0.9, 9),
    ):
        for alpha in (0.3, 0.001, 1e-40):
            levels, _ = chosen(selected, of, tau, size, alpha)
            errors, of_change = levels.errors[0, 0], np.exp(-levels.costs[0, 0]) * alpha
            whole = errors[-1] + of_change[-1]  # a union bound: one part for the cache, the other for the change
            spent = errors[0] + (of_change[:-1] * np.diff(np.append(errors[:-1], 1.0))).sum()
            assert 0.5 * alpha < spent + whole <= alpha * (1 + 1e-9)
            # The proof asks for this: the larger the error of the bound, the less has the change.
            assert np.all(np.diff(of_change[:-1]) <= 0)
            assert np.all(of_change <= 1 + 1e-9)
            assert 0 < levels.replays[0, 0] <= size // 4


def wealth(slack: np.ndarray, stakes: np.ndarray, z: np.ndarray, f: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Of counts (unchanged, lost, gained) x slacks, from the definition."""
    odds = stakes / (1 - slack[:, None])
    z, f, g = (count[..., None, None] for count in (z, f, g))
    return ((1 + odds * slack[:, None]) ** z * (1 - stakes) ** f * (1 + odds * (1 + slack[:, None])) ** g) @ WEIGHTS


def lower(k: int, n: int, errors: np.ndarray) -> np.ndarray:
    return np.zeros(len(errors)) if k == 0 else beta.ppf(errors, k, n - k + 1)


def error_of_levels(tau: float, p: float, lost: float, gained: float, size: int, selected: int) -> float:
    """P(a claim that the changed model's share is above tau), whenever one looks, with bounds and bets worked out here."""
    levels, stakes = chosen(selected, 100, tau, size)
    most, errors = int(levels.replays[0, 0]), levels.errors[0, 0, :-1]
    rest, total = size - most, 0.0
    f, g = np.mgrid[: most + 1, : (most if gained else 0) + 1]
    for k in range(rest + 1):
        chance, slack = binom.pmf(k, rest, p), lower(k, rest, errors) - tau
        if chance < 1e-9 or slack.min() <= 0:
            continue
        law = np.zeros(f.shape)
        law[0, 0] = 1.0
        for t in range(1, most + 1):
            new = law * (1 - lost - gained)
            new[1:] += law[:-1] * lost
            new[:, 1:] += law[:, :-1] * gained
            has = wealth(slack, stakes, np.maximum(t - f - g, 0), f, g)
            over = np.all(has >= np.exp(levels.costs[0, 0, :-1]) / ALPHA, axis=-1)
            total += chance * new[over].sum()
            law = np.where(over, 0.0, new)
    return total


@pytest.mark.parametrize(
    ("tau", "p", "gained", "selected"), [(0.6, 1.0, 0.0, 90), (0.5, 0.9, 0.0, 90), (0.7, 0.8, 0.0, 99), (0.5, 0.8, 0.1, 80)]
)  # fmt: skip
def test_levels_show_a_share_too_high_no_more_often_than_their_part_of_alpha(
    tau: float, p: float, gained: float, selected: int
) -> None:
    """The changed model's share is tau, so that every claim is wrong. The votes that bound the original are not replayed."""
    wrong = error_of_levels(tau, p, p - tau + gained, gained, 100 if gained else 200, selected)
    assert wrong <= 0.9 * ALPHA
    # Half of that would be a waste where the original is sure, and twice as much a mistake that this notices.
    assert wrong > 0.45 * ALPHA or p < 1


@pytest.mark.parametrize(("tau", "p"), [(0.5, 1.0), (0.6, 0.97), (0.6, 0.8)])
def test_the_whole_cache_shows_a_share_too_high_no_more_often_than_its_part_of_alpha(tau: float, p: float) -> None:
    """Here the replayed noises are among those that bound the original. Of each path: how often the original voted for the class, and what
    was lost."""
    size, most, alpha = 40, 30, 0.9
    levels, stakes = chosen(95, 100, tau, size, alpha)
    error, enough = levels.errors[0, 0, -1:], np.exp(levels.costs[0, 0, -1]) / alpha
    hits, f = np.mgrid[: most + 1, : most + 1]
    total = 0.0
    for k in range(size + 1):
        slack, law = lower(k, size, error) - tau, np.zeros(f.shape)
        if slack[0] <= 0:
            continue
        law[0, 0] = 1.0
        for t in range(1, most + 1):
            new = law * (1 - p)
            new[1:] += law[:-1] * tau
            new[1:, 1:] += law[:-1, :-1] * (p - tau)
            over = wealth(slack, stakes, np.maximum(t - f, 0), f, np.zeros_like(f))[..., 0] >= enough
            total += (new[over] * binom.pmf(k - hits[over], size - t, p)).sum()
            law = np.where(over, 0.0, new)
    assert 0 < total <= 0.1 * alpha


def test_levels_have_no_noise_that_bounds_the_original() -> None:
    """Beyond their noises they would bet on votes that their own bounds rest on. From there on only the whole cache counts."""
    size, alpha, at = 2_000, 0.01, 0.5
    votes = {0: np.tile([0, 0, 0, 0, 1], size // 5)}
    selection, counts = SelectionCounts(np.array([[80, 20]])), np.array([[1_600, 400]])
    tally = Replays(
        selection, counts, lambda rows: votes, NOISE, np.array([at]), size=size, alpha=alpha, runner_up=False
    )
    row = np.array([0])
    tally.begin(row)
    levels, stakes = chosen(80, 100, norm.cdf(at), size, alpha)
    most = int(levels.replays[0, 0])
    assert tally.next_noises(0, size)[-1] < most
    whole = lower(1_600, size, levels.errors[0, 0, -1:]) - norm.cdf(at)
    for passed, by_levels in ((most, True), (most + 1, False)):
        votes_before = np.array([passed])
        tally._noises[0] = passed
        log = tally.evidence(row).log[0, 0]
        has = np.log(wealth(whole, stakes, votes_before, 0 * votes_before, 0 * votes_before)[0, 0])
        assert (log > has - levels.costs[0, 0, -1] + 1e-6) is np.bool_(by_levels)
    assert tally.next_noises(0, size)[-1] == size - 2  # the last noise is none on which the class was voted for
