"""The radius had nothing flipped: that of certifying the original again from its own cache, with as many replays."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, norm

import recert
from recert import Gaussian, StoredVotes
from recert.certificates import Certificates

SIGMA, INPUTS, SAMPLES = 0.5, 6, 2_000


def votes_of(rng: np.random.Generator, count: int) -> np.ndarray:
    """Three classes; most votes of each input are for class 0, from nearly all to a bare majority."""
    top = np.linspace(0.97, 0.6, INPUTS)[:, None]
    draws = rng.random((INPUTS, count))
    return np.where(draws < top, 0, np.where(draws < top + 0.6 * (1 - top), 1, 2)).astype(np.int64)


def source_of(estimation: np.ndarray, selection: np.ndarray) -> StoredVotes:
    fresh = votes_of(np.random.default_rng(9), SAMPLES)
    return StoredVotes(estimation, selection=selection, fresh=fresh, classes=3)


@pytest.fixture(scope="module")
def votes() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return votes_of(rng, SAMPLES), votes_of(rng, 200)


@pytest.fixture(scope="module")
def original(votes: tuple[np.ndarray, np.ndarray]) -> StoredVotes:
    return source_of(*votes)


@pytest.fixture(scope="module")
def changed(votes: tuple[np.ndarray, np.ndarray]) -> StoredVotes:
    """Every twentieth vote is another one."""
    estimation, flip = votes[0].copy(), np.random.default_rng(5).random(votes[0].shape) < 0.05
    return source_of(np.where(flip, (estimation + 1) % 3, estimation), votes[1])


def certified(source: StoredVotes, original: StoredVotes, method: object, certificate: str) -> Certificates:
    kind = "one-sided" if method == "irs" else certificate
    cache = recert.certify(
        original, None, noise=Gaussian(SIGMA), samples=SAMPLES, selection_samples=200, certificate=kind
    )
    return recert.recertify(source, None, cache, samples=400, method=method, plan="uniform")  # type: ignore[arg-type]


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
@pytest.mark.parametrize("method", ["series", "joint", "paired", "irs"])
def test_it_is_what_the_original_gets_from_as_many_replays(
    changed: StoredVotes, original: StoredVotes, method: str, certificate: str
) -> None:
    after = certified(changed, original, method, certificate)
    same = certified(original, original, method, certificate)
    assert same.lost.sum() == same.gained.sum() == 0
    assert after.lost.sum() > 0
    assert after.radius_without_flips is not None
    # Of joint bounds it is searched as they are, and not proven: within what their search leaves.
    np.testing.assert_allclose(
        after.radius_without_flips, same.radius, rtol=0, atol=1e-3 if method == "joint" else 1e-12
    )
    assert same.radius_without_flips is not None
    assert same.radius_without_flips.tolist() == same.radius.tolist()
    assert (after.radius < after.radius_without_flips).any()


def test_fresh_votes_are_compared_with_the_cached_share(
    changed: StoredVotes, original: StoredVotes, votes: tuple[np.ndarray, np.ndarray]
) -> None:
    found = certified(changed, original, recert.Irs(reuse_threshold=0.0), "one-sided")
    assert found.radius_without_flips is not None
    assert (found.replayed == 0).all()
    for top, radius in zip((votes[0] == 0).sum(axis=1).tolist(), found.radius_without_flips.tolist(), strict=True):
        k = round(top * 400 / SAMPLES)
        lower = beta.ppf(0.002, k, 400 - k + 1)
        assert radius == pytest.approx(max(0.0, SIGMA * norm.ppf(lower)), abs=1e-9)


def test_it_is_known_whatever_auto_chose(changed: StoredVotes, original: StoredVotes) -> None:
    cache = recert.certify(original, None, noise=Gaussian(SIGMA), samples=SAMPLES, selection_samples=200)
    found = recert.recertify(changed, None, cache, samples=1_200)
    assert {"scratch-cached", "scratch"} & set(found.method)  # fresh votes, beyond half of the cache
    assert found.radius_without_flips is not None
    assert not np.isnan(found.radius_without_flips).any()


def test_baselines_and_the_original_have_none_and_inputs_without_votes_have_0(
    changed: StoredVotes, original: StoredVotes
) -> None:
    cache = recert.certify(original, None, noise=Gaussian(SIGMA), samples=SAMPLES, selection_samples=200)
    assert cache.certificates.radius_without_flips is None
    for method in ("scratch", "scratch-cached"):
        assert certified(changed, original, method, "two-sided").radius_without_flips is None
    planned = recert.recertify(changed, None, cache, samples=40, plan="acr")
    left_out = planned.outcome == "left-out-by-plan"
    assert left_out.any()
    assert planned.radius_without_flips is not None
    assert (planned.radius_without_flips[left_out] == 0).all()


def test_it_is_stored_and_may_be_missing(changed: StoredVotes, original: StoredVotes, tmp_path: Path) -> None:
    found = certified(changed, original, "series", "two-sided")
    partly = replace(found, radius_without_flips=np.array([np.nan, *found.radius_without_flips[1:]]))  # type: ignore[index]
    for name, result in (("whole", found), ("partly", partly), ("missing", replace(found, radius_without_flips=None))):
        result.to_parquet(tmp_path / f"{name}.parquet")
        read = Certificates.from_parquet(tmp_path / f"{name}.parquet")
        np.testing.assert_array_equal(read.radius_without_flips, result.radius_without_flips)
        assert ("radius_without_flips" in read.to_arrow().column_names) == (name != "missing")
    assert found.radius_without_flips is not None
    assert found[[2, 0]].radius_without_flips.tolist() == found.radius_without_flips[[2, 0]].tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", [-0.1, np.inf])
def test_a_column_that_holds_no_radii_is_refused(
    changed: StoredVotes, original: StoredVotes, tmp_path: Path, wrong: float
) -> None:
    found = certified(changed, original, "series", "two-sided")
    replace(found, radius_without_flips=np.full(INPUTS, wrong)).to_parquet(tmp_path / "r.parquet")
    with pytest.raises(recert.errors.NotAResult, match="radius_without_flips holds something that is not a radius"):
        Certificates.from_parquet(tmp_path / "r.parquet")
