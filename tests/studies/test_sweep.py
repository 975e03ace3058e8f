"""Curves from kept votes: the same as without a file, and complete after drawing alone."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import beta

from recert import Gaussian, StoredVotes, bounds, certify, recertify
from recert.comparison import BASELINES
from recert.noise import Stream
from recert.sampling import Work, collect
from recert.studies.request import ALPHA, Clock
from recert.studies.sweep import AUTHORS, BASELINE_KEYS, METHODS, Budgets, Sweep, base_cache, draw, sweep
from tests.studies.conftest import INPUTS, Coins, Keep

BUDGETS = Budgets(1_000, (0.1, 0.6), (0.05, 0.1, 0.2))


@pytest.fixture(scope="module")
def swept(keep_all: Keep) -> Sweep:
    """Drawn with networks first, then computed without any."""
    keep = keep_all
    original, changed = keep(Coins()), keep(Coins(changed=True), changed=True)
    draw(changed, base_cache(original, BUDGETS.samples), BUDGETS, Clock())
    original.save()
    changed.save()
    original, changed = keep(None), keep(None, changed=True)
    return sweep(changed, base_cache(original, BUDGETS.samples), BUDGETS, Clock())


def test_drawing_alone_leaves_nothing_to_draw(swept: Sweep) -> None:
    assert set(swept.curves) == {*METHODS, *BASELINE_KEYS}
    assert all(np.isfinite(curve.radii).all() for curve in swept.curves.values())


def test_the_authors_baseline_is_drawn_too(keep: Keep) -> None:
    """At large budgets it takes more selection votes than any other: a hundredth of them."""
    original, changed = keep(Coins()), keep(Coins(changed=True), changed=True)
    draw(changed, base_cache(original, 20_000), Budgets(20_000, (0.01,), (0.6,)), Clock())
    assert all(len(known) == 120 for _, stream, _, known in changed._slots.items() if stream is Stream.SELECTION)


def test_nothing_is_drawn_that_is_not_asked_for_and_nothing_is_bounded(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets, asked = Budgets(1_000, (0.02, 0.05, 0.1, 0.2, 0.4), (0.05, 0.1, 0.2)), []
    for run in (draw, sweep):
        original, changed = keep(Coins()), keep(coins := Coins(changed=True), changed=True)
        cache = base_cache(original, budgets.samples)
        with monkeypatch.context() as patched:
            if run is draw:
                for method in ("series", "paired", "joint"):
                    patched.setattr(bounds, f"{method}_lower", _never(getattr(bounds, f"{method}_lower")))
            run(changed, cache, budgets, Clock())
        asked.append({(p, s): known.copy() for p, s, _, known in changed._slots.items()})
        assert coins.asked == sum(known.sum() for known in asked[-1].values())
    assert asked[0].keys() == asked[1].keys()
    for key, known in asked[0].items():
        np.testing.assert_array_equal(known, asked[1][key])


def _never(bound: Callable[..., object]) -> Callable[..., object]:
    """Fails where a method calls it; tables of planning may."""

    def called(*arguments: object) -> object:
        assert "planning" in sys._getframe(1).f_globals["__name__"]
        return bound(*arguments)

    return called


def test_our_methods_stop_at_half_of_the_cache_and_irs_goes_on(swept: Sweep) -> None:
    assert swept.curves["irs", "one-sided"].budgets == (100, 600)
    assert swept.curves["series", "one-sided"].budgets == (100,)


def test_methods_give_what_they_give_on_votes_in_memory(swept: Sweep) -> None:
    def stored(coins: Coins) -> StoredVotes:
        streams = [Stream.ESTIMATION, Stream.SELECTION, Stream.FRESH]
        e, s, f = (np.stack([coins.truth(i, stream, 1_000) for i in range(INPUTS)]) for stream in streams)
        return StoredVotes(e, selection=s[:, :500], fresh=f, classes=3)

    cache = certify(stored(Coins()), None, noise=Gaussian(0.5), samples=1_000, selection_samples=500)
    plain = recertify(stored(Coins(changed=True)), None, cache, samples=100, alpha=ALPHA, method="irs")
    np.testing.assert_array_equal(plain.radius, swept.curves["irs", "one-sided"].results[0].radius)


def test_the_baseline_is_clopper_pearson_on_the_votes_it_says(swept: Sweep) -> None:
    coins = Coins(changed=True)
    result = swept.curves[BASELINES[0], "one-sided"].results[1]  # 100 votes, all of them cached noises
    for i in range(INPUTS):
        hits = int((coins.truth(i, Stream.ESTIMATION, 100) == 0).sum())
        assert result.top_lower[i] == pytest.approx(beta.ppf(ALPHA, hits, 101 - hits), abs=1e-9)
        assert result.forward_passes[i] == 200


def test_the_authors_baseline_has_a_hundredth_of_selection_votes(swept: Sweep) -> None:
    curve = swept.curves[AUTHORS, "one-sided"]
    assert curve.passes == (51.0, 101.0, 202.0)


def test_a_prefix_of_the_votes_makes_a_smaller_cache(keep: Keep) -> None:
    votes = keep(coins := Coins())
    collect(votes, [Work(i, Stream.ESTIMATION, range(3_000)) for i in range(INPUTS)], "drawing")
    cache = base_cache(votes, 1_000)
    counts = cache.counts(Stream.ESTIMATION)
    assert counts.sum(axis=1).tolist() == [1_000] * INPUTS
    assert counts[0, 0] == (coins.truth(0, Stream.ESTIMATION, 1_000) == 0).sum()
