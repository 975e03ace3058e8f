"""Curves from stored votes: the same as without a store, and complete after drawing alone."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from recert import Gaussian, StoredVotes, certify, recertify
from recert.noise import Stream
from recert.recertification.irs import Irs
from recert.recertification.replays import ReplayMethod
from recert.recertification.scratch import ScratchCached
from recert.sampling import Work, collect
from studies.curves import BASELINE_KEYS, METHODS, Budgets, Curve, Key, all_curves, base_cache, draw_all
from studies.methods import AUTHORS, COHEN
from studies.request import ALPHA, Clock
from tests.studies.conftest import INPUTS, Coins, OpenStore, stores_in

BUDGETS = Budgets(1_000, (0.1, 0.6), (0.05, 0.1, 0.2))


@pytest.fixture(scope="module")
def curves(open_store_of_module: OpenStore) -> dict[Key, Curve]:
    """Drawn with networks first, then computed without any."""
    open_store = open_store_of_module
    with open_store(Coins()) as original, open_store(Coins(changed=True), changed=True) as changed:
        draw_all(changed, base_cache(original, BUDGETS.samples), BUDGETS, Clock())
    with open_store(None) as original, open_store(None, changed=True) as changed:
        return all_curves(changed, base_cache(original, BUDGETS.samples), BUDGETS, Clock())


def test_drawing_alone_leaves_nothing_to_draw(curves: dict[Key, Curve]) -> None:
    assert set(curves) == {*METHODS, *BASELINE_KEYS}
    assert all(np.isfinite(curve.radii).all() for curve in curves.values())


def test_the_authors_baseline_is_drawn_too(open_store: OpenStore) -> None:
    """At large budgets it takes more selection votes than any other: a hundredth of them."""
    with open_store(Coins()) as original, open_store(coins := Coins(changed=True), changed=True) as changed:
        draw_all(changed, base_cache(original, 20_000), Budgets(20_000, (0.01,), (0.6,)), Clock())
    selection = [drawn for (_, stream), drawn in coins.drawn.items() if stream is Stream.SELECTION]
    assert selection == [set(range(120))] * INPUTS


def test_nothing_is_drawn_that_is_not_asked_for_and_nothing_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets, asked = Budgets(1_000, (0.02, 0.05, 0.1, 0.2, 0.4), (0.05, 0.1, 0.2)), []
    for run in (draw_all, all_curves):
        open_store = stores_in(tmp_path / run.__name__)  # each begins with empty stores
        with open_store(Coins()) as original:
            cache = base_cache(original, budgets.samples)
        with (
            open_store(coins := Coins(changed=True), changed=True) as changed,
            monkeypatch.context() as patched,
        ):
            if run is draw_all:
                for method in (ReplayMethod, Irs, ScratchCached):
                    patched.setattr(method, "bound", _never)
            run(changed, cache, budgets, Clock())
        asked.append(coins.drawn)
        assert coins.asked == sum(map(len, coins.drawn.values()))  # none twice
    assert asked[0] == asked[1]


def _never(*_: object) -> None:
    raise AssertionError("something was bounded")


def test_our_methods_stop_at_half_of_the_cache_and_irs_goes_on(curves: dict[Key, Curve]) -> None:
    assert curves["irs", "one-sided"].budgets == (100, 600)
    assert curves["series", "one-sided"].budgets == (100,)


def test_methods_give_what_they_give_on_votes_in_memory(curves: dict[Key, Curve]) -> None:
    def stored(coins: Coins) -> StoredVotes:
        streams = [Stream.ESTIMATION, Stream.SELECTION, Stream.FRESH]
        e, s, f = (np.stack([coins.truth(i, stream, 1_000) for i in range(INPUTS)]) for stream in streams)
        return StoredVotes(e, selection=s[:, :500], fresh=f, classes=3)

    cache = certify(stored(Coins()), None, noise=Gaussian(0.5), samples=1_000, selection_samples=500)
    plain = recertify(stored(Coins(changed=True)), None, cache, samples=100, alpha=ALPHA, method="irs")
    np.testing.assert_array_equal(plain.radius, curves["irs", "one-sided"].results[0].radius)


def test_the_baseline_is_clopper_pearson_on_the_votes_it_says(curves: dict[Key, Curve]) -> None:
    coins = Coins(changed=True)
    result = curves[COHEN, "one-sided"].results[1]  # 100 votes, all of them cached noises
    for i in range(INPUTS):
        hits = int((coins.truth(i, Stream.ESTIMATION, 100) == 0).sum())
        assert result.top_lower[i] == pytest.approx(beta.ppf(ALPHA, hits, 101 - hits), abs=1e-9)
        assert result.forward_passes[i] == 200


def test_the_authors_baseline_has_a_hundredth_of_selection_votes(curves: dict[Key, Curve]) -> None:
    curve = curves[AUTHORS, "one-sided"]
    assert curve.passes == (51.0, 101.0, 202.0)


def test_a_prefix_of_the_votes_makes_a_smaller_cache(open_store: OpenStore) -> None:
    with open_store(coins := Coins()) as votes:
        collect(votes, [Work(i, Stream.ESTIMATION, range(3_000)) for i in range(INPUTS)], "drawing")
        cache = base_cache(votes, 1_000)
    counts = cache.counts(Stream.ESTIMATION)
    assert counts.sum(axis=1).tolist() == [1_000] * INPUTS
    assert counts[0, 0] == (coins.truth(0, Stream.ESTIMATION, 1_000) == 0).sum()
