"""The search behind joint_lower does not stop early: the bound nearly rises with the votes (its box moves a little), and so does what is returned."""

import numpy as np
import pytest

from recert.bounds import joint, joint_lower
from recert.bounds.joint import joint_about


def test_an_outcome_whose_probability_has_plateaus() -> None:
    """With 20 replays the probability rises in steps, and secants alone once ended .017 below the bound."""
    k = np.arange(1_585, 1_606)
    found = joint_lower(k, 2_000, 3, 20, 3, 100, 0.05)
    assert found[k == 1_598] > 0.5325
    assert np.diff(found).min() >= -2e-4


def outcomes(seed: int, count: int) -> np.ndarray:
    """Outcomes as they may be drawn: few and many votes and replays, rare and frequent flips."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        n, m0 = int(rng.choice([200, 500, 2_000, 10_000])), int(rng.choice([0, 1, 5, 20, 100]))
        m1 = int(rng.integers(5, min(n // 3, 500)))
        k = rng.binomial(n, 1 - rng.random() ** 2 * 0.6)
        f, g = rng.binomial(m1, rng.random() ** 3 * 0.3), rng.binomial(m0, rng.random() ** 2 * 0.3)
        rows.append((k, n, f, m1, g, m0, float(rng.choice([0.2, 0.05, 0.002, 1e-6]))))
    return np.array(rows)


@pytest.mark.parametrize("seed", [0, 1])
def test_no_outcome_is_bounded_below_one_with_fewer_votes(seed: int) -> None:
    rows = outcomes(seed, 300)
    found = joint_lower(*rows.T)
    assert (found > 0.3).mean() > 0.6
    for fewer in (1, 2, 5):
        before = rows.copy()
        before[:, 0] = np.maximum(rows[:, 0] - fewer, 0)
        lost = joint_lower(*before.T) - found
        assert lost.max() <= 5e-4, rows[lost.argmax()]


def test_a_bound_that_is_not_proven_is_mostly_the_one_that_is() -> None:
    """Outcomes as re-certification has them: hundreds of replays, error .002."""
    rng, rows = np.random.default_rng(1), []
    for _ in range(200):
        n, m1 = int(rng.choice([2_000, 8_500, 10_000])), int(rng.integers(20, 600))
        m0, k = int(rng.choice([0, m1 // 10, m1 // 3])), rng.binomial(n, 1 - rng.random() ** 2 / 2)
        flips = rng.random() ** 3 * 0.2 * (1 - k / n)
        rows.append((k, n, rng.binomial(m1, flips), m1, rng.binomial(m0, min(0.5, flips)), m0, 0.002))
    columns = np.array(rows).T
    proven, about = joint_lower(*columns), joint_about(*columns)
    apart = np.abs(about - proven)[proven > 0.3]
    assert (apart == 0).mean() > 0.8
    assert apart.mean() < 1e-4
    assert apart.max() < 5e-3
    groups = np.arange(0, 200, 4)
    assert np.allclose(joint_about(*columns, groups=groups), np.minimum.reduceat(about, groups), rtol=0, atol=5e-3)


def test_little_is_lost_by_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a search with a twelfth of it finds, on outcomes as re-certification has them: less than 1e-4 in the mean."""
    rng, rows = np.random.default_rng(7), []
    for _ in range(40):
        n, m = [(1_000, 100), (8_500, 300), (10_000, 1_000)][rng.integers(3)]
        k = rng.binomial(n, 1 - rng.random() ** 2 / 2)
        m1, flips = int(m * k / n), min(0.5, float(rng.choice([0.004, 0.04, 0.24])) * (1 - k / n))
        rows.append((k, n, rng.binomial(m1, flips), m1, rng.binomial(m - m1, flips), m - m1, 0.001))
    columns = np.array(rows).T
    usual = joint_lower(*columns)
    for name in ("_TOLERANCE", "_RELATIVE_TOLERANCE"):
        monkeypatch.setattr(joint, name, getattr(joint, name) / 12)
    lost = joint_lower(*columns) - usual
    assert (usual > 0).all()
    assert lost.mean() < 9e-5  # the finer search may itself lose 1e-5
    assert lost.max() < 2e-4
    assert lost.min() > -2e-5
