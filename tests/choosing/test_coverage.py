"""What `select` claims, where it is hardest: the choice among candidates does not spoil the winner's certificates.

The original always votes for the class. A candidate does so with a probability such that its certificate is false exactly if none of
M replays flips, which happens as often as its error allows. Every certificate that counts is then a false one, and a
choice that looks at the votes that claim finds more of them.
"""

import numpy as np
from scipy.stats import binomtest, norm

import recert
from recert.choosing import Chosen

SIGMA, ALPHA = 0.5, 0.2
INPUTS, SAMPLES, SELECTION, CANDIDATES, RUNS = 40, 200, 40, 8, 40
REPLAYS = SAMPLES // 2


def truth(error: float, votes: int = REPLAYS) -> float:
    """The probability of the class for which M votes without a flip have about this probability; a little less, for what bounds give away."""
    return float(error ** (1 / votes)) * (1 - 3e-4)


def radius_of(probability: float) -> float:
    """Within this radius no perturbation changes the smoothed class; beyond it one may (Cohen et al., Theorem 2)."""
    return SIGMA * float(norm.ppf(probability))


def setting(seed: int, probability: float, *, original: int = 1) -> tuple[recert.Cache, dict[str, recert.StoredVotes]]:
    """A cache of an original that always votes for one class, and candidates that vote for class 1 with this probability."""
    rng = np.random.default_rng(seed)
    shapes = {"estimation": (INPUTS, SAMPLES), "selection": (INPUTS, SELECTION)}
    always = {stream: np.full(shape, original) for stream, shape in shapes.items()}
    cache = recert.certify(
        recert.StoredVotes(**always, classes=2), None, noise=recert.Gaussian(SIGMA), samples=SAMPLES, selection_samples=SELECTION, alpha=ALPHA / 2,
        certificate="one-sided",
    )  # fmt: skip
    drawn = [
        {stream: (rng.random(shape) < probability).astype(int) for stream, shape in shapes.items()}
        for _ in range(CANDIDATES)
    ]
    return cache, {f"candidate {i}": recert.StoredVotes(**votes, classes=2) for i, votes in enumerate(drawn)}


def chosen(seed: int, probability: float, *, tolerance: float, family: str | None = None) -> Chosen:
    cache, candidates = setting(seed, probability)
    result = recert.select(
        candidates, None, cache, np.ones(INPUTS, int), metric=f"accuracy:{radius_of(probability)}", tolerance=tolerance,
        alpha=ALPHA, cost={name: float(i) for i, name in enumerate(candidates)}, samples=SAMPLES, family=family,
    )  # fmt: skip
    if result.certificates is not None:
        assert (result.certificates.replayed == REPLAYS).all()  # as the truth supposes
    return result


def false(result: recert.Certificates | None, probability: float) -> int:
    """Certificates that claim more than is true."""
    return 0 if result is None else int(np.sum(result.certified & (result.radius > radius_of(probability))))


def excess(counts: list[int]) -> float:
    """By how many standard errors the share of false certificates exceeds alpha, runs being independent."""
    shares = np.array(counts) / INPUTS
    return float((shares.mean() - ALPHA) / (shares.std(ddof=1) / np.sqrt(len(shares))))


def test_the_first_finalist_uses_up_what_it_is_given_and_no_more() -> None:
    """Every candidate would do, so the first wins, at alpha / 2: for each input its certificate is false that often."""
    p = truth(ALPHA / 2)
    counts = [false(chosen(seed, p, tolerance=1.0).certificates, p) for seed in range(RUNS)]
    assert binomtest(sum(counts), RUNS * INPUTS, p**REPLAYS).pvalue > 1e-3


def test_the_winners_certificates_are_wrong_at_most_alpha_often() -> None:
    """Only candidates with false certificates reach the target: one after the other is tried until one has enough of them."""
    p = truth(ALPHA / 2)
    results = [chosen(seed, p, tolerance=0.96) for seed in range(RUNS)]
    assert excess([false(result.certificates, p) for result in results]) < 3
    assert sum(result.winner is not None for result in results) >= 3
    assert max(result.finalists for result in results) >= 2  # finals that failed, and others after them


def test_gains_use_up_what_they_are_given_and_no_more() -> None:
    """The original never names the label, so that a candidate's own votes certify it: falsely if all M of them are for the label."""
    p = truth(ALPHA / 2, votes=SAMPLES)
    counts = []
    for seed in range(RUNS):
        cache, candidates = setting(seed, p, original=0)
        result = recert.select(
            candidates, None, cache, np.ones(INPUTS, int), metric="acr", tolerance=0.0, alpha=ALPHA,
            cost={name: float(i) for i, name in enumerate(candidates)}, samples=SAMPLES,
        ).certificates  # fmt: skip
        assert result is not None
        assert (result.samples == SAMPLES).all()
        assert (result.prediction == 1).all()
        counts.append(false(result, p))
    assert binomtest(sum(counts), RUNS * INPUTS, p**SAMPLES).pvalue > 1e-3


def test_choosing_by_the_votes_that_claim_is_wrong_more_often() -> None:
    """The test above can fail: the best of all candidates, each certified at the whole alpha, exceeds it."""
    p = truth(ALPHA)
    counts = []
    for seed in range(RUNS):
        cache, candidates = setting(seed, p)
        results = [
            recert.recertify(model, None, cache, samples=REPLAYS, alpha=ALPHA, method="series", plan="uniform")
            for model in candidates.values()
        ]
        counts.append(max(false(result, p) for result in results))
    assert excess(counts) > 3


def test_bonferroni_certificates_hold_together() -> None:
    """Each of the first finalist's certificates has alpha / 2N, and all of it is used up; one false one is a miss."""
    p = truth(ALPHA / 2 / INPUTS)
    results = [chosen(seed, p, tolerance=1.0, family="bonferroni") for seed in range(RUNS)]
    missed = sum(false(result.certificates, p) > 0 for result in results)
    assert binomtest(missed, RUNS, ALPHA, alternative="greater").pvalue > 1e-3
    assert missed > 0
    assert results[0].family == INPUTS
