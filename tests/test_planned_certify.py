"""`certify(plan=...)`: votes shared out by the selection votes, every claim at the number of votes of its own input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm

import recert
from recert import Cache, Gaussian, StoredVotes
from recert.cache.manifest import MANIFEST
from recert.errors import ContextMismatch, CorruptCache, IncompleteCache
from recert.planning import Objective, Selection, votes_to_bound
from recert.votes import SelectionCounts
from tests.cache.stores import OPTIONS, all_votes, files, inputs, make, network, rewrite_manifest
from tests.halfspaces import HalfSpace
from tests.test_coverage import SIGMA, assert_covered, misses, points

NOISE = Gaussian(0.5)
PLANS = ["acr", "accuracy:0.25"]


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
@pytest.mark.parametrize("plan", PLANS)
def test_coverage(plan: str, certificate: str) -> None:
    """Inputs at three distances, a thousand of each: numbers of votes differ, and every claim is missed at most alpha often."""
    truth, alpha = HalfSpace([1.0, 0.0, 0.0], 0.0), 0.05
    x = np.concatenate([points(SIGMA * norm.ppf(p), seed=i, count=1_000) for i, p in enumerate((0.6, 0.8, 0.97))])
    cache = recert.certify(
        truth,
        x,
        noise=NOISE,
        samples=100,
        selection_samples=20,
        alpha=alpha,
        seed=3,
        certificate=certificate,
        plan=plan,
    )
    result = cache.certificates
    assert len(set(result.samples.tolist())) > 5
    assert result.samples.mean() == pytest.approx(100, rel=0.02)
    for i in range(3):
        rows = np.arange(1_000 * i, 1_000 * (i + 1))
        assert_covered(misses(result.take(rows), truth, x[rows]), alpha, 1_000)


class Drawn:
    """Inputs with more and less certain votes, of which all but the selection votes may be drawn anew."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.p = np.linspace(0.4, 0.999, 40)[:, None]
        self.selection = (rng.random((40, 100)) < self.p).astype(int)

    def certified(self, seed: int, **options: Any) -> recert.Certificates:
        rng = np.random.default_rng(seed)
        votes = (rng.random((40, 6_000)) < rng.permutation(self.p)).astype(int)
        source = StoredVotes(votes, selection=self.selection, classes=2)
        options = {"samples": 150, "selection_samples": 100, "plan": "acr", **options}
        return recert.certify(source, None, noise=NOISE, **options).certificates


@pytest.mark.parametrize("plan", PLANS)
def test_no_estimation_vote_enters_the_plan(plan: str) -> None:
    """Those of every input are others, and more certain or less: the numbers of votes are the same."""
    drawn = Drawn()
    first = drawn.certified(1, plan=plan)
    assert len(set(first.samples.tolist())) > 5
    for seed in (2, 3, 4):
        again = drawn.certified(seed, plan=plan)
        assert again.samples.tolist() == first.samples.tolist()
        assert again.top_votes.tolist() != first.top_votes.tolist()


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
def test_every_input_is_bounded_at_its_own_number_of_votes(certificate: str) -> None:
    result = Drawn().certified(1, certificate=certificate)
    each = 0.001 if certificate == "one-sided" else 0.0005
    some = (result.samples > 0) & (result.top_votes > 0)
    k, n = result.top_votes[some], result.samples[some]
    np.testing.assert_allclose(result.top_lower[some], beta.ppf(each, k, n - k + 1), rtol=1e-9)
    assert (result.forward_passes == result.samples + 100).all()
    out = result.samples == 0
    assert out.any()
    assert set(result.outcome[out]) == {"left-out-by-plan"}
    assert not result.certified[out].any()
    assert (result.top_lower[out] == 0).all()
    assert (result.runner_up_upper[out] == 1).all()
    assert (result.radius[out] == 0).all()
    assert "plan acr, 150 in the mean" in result.guarantee


@pytest.mark.parametrize(("plan", "gain"), [("acr", 1.15), ("accuracy:0.25", 2.0), ("accuracy:0.5", 2.0)])
def test_a_plan_gives_more_than_equal_shares_of_more_votes(
    plan: str, gain: float, real_votes: dict[str, np.ndarray]
) -> None:
    v = real_votes["fp32"]
    source = StoredVotes(v[:, 500:], selection=v[:, :500], classes=10)
    planned, uniform = (
        recert.certify(source, None, noise=NOISE, samples=samples, selection_samples=500, plan=name).certificates
        for name, samples in ((plan, 600), ("uniform", round(gain * 600)))
    )
    assert planned.samples.mean() <= 600
    if plan == "acr":
        assert planned.radius.mean() >= uniform.radius.mean()
    else:
        radius = float(plan.split(":")[1])
        assert (planned.radius >= radius).sum() >= (uniform.radius >= radius).sum()


def test_a_plan_keeps_to_what_there_is() -> None:
    """Of stored votes no more can be drawn; and none is given to an input that cannot be certified."""
    counts = SelectionCounts(np.array([[250, 250, 0], [100, 390, 10], [0, 0, 500]]))
    settings: dict[str, Any] = {"alpha": 0.001, "sides": 1, "noise": NOISE}
    found = votes_to_bound(Selection(counts), Objective(), mean=1_000, most=1_400, **settings)
    assert found[0] < found[1] <= 1_400
    assert found.sum() <= 3_000
    hopeless = votes_to_bound(Selection(counts), Objective(1.0), mean=100, most=100_000, **settings)
    assert hopeless[:2].tolist() == [0, 0]
    assert hopeless[2] > 100


def test_the_order_of_inputs_does_not_matter() -> None:
    """Many inputs with equal selection votes, of which some get more where the budget ends; and repeats, which get it once."""
    rng = np.random.default_rng(5)
    selection = np.repeat(np.arange(50) < 36, 60).reshape(50, 60).T.astype(int)
    votes, digests = rng.integers(0, 2, (60, 3_000)), rng.permutation(60)

    def numbers(rows: np.ndarray) -> dict[int, int]:
        source = StoredVotes(votes[rows], selection=selection[rows], classes=2)
        source.digests = [f"{digest:064x}" for digest in digests[rows]]
        result = recert.certify(source, None, noise=NOISE, samples=97, selection_samples=50, plan="acr").certificates
        return dict(zip(digests[rows].tolist(), result.samples.tolist(), strict=True))

    found = numbers(np.arange(60))
    assert len(set(found.values())) > 1
    assert sum(found.values()) <= 60 * 97
    assert numbers(rng.permutation(60)) == found
    assert numbers(np.append(np.arange(60), [7, 7])) == found


def stopped_after(votes: int, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planned run that is interrupted once so many votes have been drawn."""
    real, drawn = recert.sampling.Sampler.draw, 0

    def draw(self: Any, *args: Any) -> Any:
        nonlocal drawn
        for chunk in real(self, *args):
            drawn += len(chunk.votes)
            if drawn > votes:
                raise KeyboardInterrupt
            yield chunk

    with monkeypatch.context() as patch:
        patch.setattr(recert.sampling.Sampler, "draw", draw)
        with pytest.raises(KeyboardInterrupt):
            make(store, plan="acr")


@pytest.mark.parametrize("votes", [40, 119, 500, 1_200])
def test_an_interrupted_run_continues_with_the_same_plan(
    votes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six inputs with 20 selection votes each: stopped among these, at the last of them, and among the votes that bound."""
    whole = make(tmp_path / "whole", plan="acr")
    stopped_after(votes, tmp_path / "cut", monkeypatch)
    cut = json.loads((tmp_path / "cut" / MANIFEST).read_text())
    assert cut["plan"] == "acr"
    if votes < 120:
        assert not cut["planned"]
        with pytest.raises(IncompleteCache, match="shared out"):
            _ = Cache.open(tmp_path / "cut").certificates
        assert any("lacks votes" in line for line in Cache.open(tmp_path / "cut").verify())
    else:
        assert cut["planned"] == list(whole.manifest.planned), "recorded before the first of these votes"
    continued = make(tmp_path / "cut")  # the store knows its plan
    assert continued.manifest.planned == whole.manifest.planned
    assert (
        all_votes(continued)
        == all_votes(whole)
        == all_votes(recert.certify(network(), inputs(), plan="acr", **OPTIONS))
    )
    reopened = Cache.open(tmp_path / "cut")
    assert reopened.verify() == []
    assert reopened.certificates.samples.tolist() == whole.certificates.samples.tolist()
    assert len(set(whole.manifest.planned)) > 1


def test_the_recorded_plan_is_kept_whatever_a_later_version_would_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_after(500, tmp_path, monkeypatch)
    planned = json.loads((tmp_path / MANIFEST).read_text())["planned"]
    monkeypatch.setattr(recert.certification, "votes_to_bound", None)
    assert list(make(tmp_path).manifest.planned) == planned
    # Another alpha is no other plan: the votes are those that were planned.
    assert list(make(tmp_path, alpha=0.01).manifest.planned) == planned


def test_later_inputs_are_planned_on_their_own(tmp_path: Path) -> None:
    first = make(tmp_path, slice(0, 3), plan="acr").manifest
    whole = make(tmp_path, plan="acr")
    assert whole.manifest.planned[:3] == first.planned
    assert sum(whole.manifest.planned[3:]) <= 3 * OPTIONS["samples"]
    assert whole.manifest.looks == (300,)
    assert whole.certificates.samples.tolist() == list(whole.manifest.planned)


def test_more_votes_or_another_plan_is_another_look(tmp_path: Path) -> None:
    first = make(tmp_path, plan="acr")
    assert make(tmp_path, plan="acr").manifest.looks == (300,)
    more = make(tmp_path, plan="acr", samples=600)
    assert more.manifest.looks == (300, 600)
    assert sum(more.manifest.planned) > sum(first.manifest.planned)
    other = make(tmp_path, plan="accuracy:.10", samples=600)
    assert (other.manifest.plan, other.manifest.looks) == ("accuracy:0.1", (300, 600, 600))
    assert "at another size" in other.certificates.guarantee
    equal = make(tmp_path, plan="uniform", samples=600)
    assert (equal.manifest.plan, equal.manifest.planned, len(equal.manifest.looks)) == ("", (), 4)
    assert equal.certificates.samples.tolist() == [600] * 6
    undisturbed = recert.certify(network(), inputs(), **{**OPTIONS, "samples": 600})
    assert all_votes(equal) == all_votes(undisturbed)
    with pytest.raises(ContextMismatch, match="samples"):
        make(tmp_path, plan="acr", samples=300)


def test_looks_in_memory_are_told_apart_by_their_plan() -> None:
    x = inputs() + np.float32(3)  # inputs that no other test has
    one = recert.certify(network(), x, **OPTIONS)
    assert one.sizes == (300,)
    assert recert.certify(network(), x, plan="acr", **OPTIONS).sizes == (300, 300)


def test_what_needs_equal_votes_says_what_to_do(tmp_path: Path) -> None:
    cache = make(tmp_path, plan="acr")
    changed = network(1)
    for refused in (
        lambda: recert.recertify(changed, inputs(), cache, samples=50),
        lambda: recert.audit(network(), inputs(), cache),
        lambda: recert.select({"one": changed}, inputs(), cache, labels=np.zeros(6, int)),
    ):
        with pytest.raises(IncompleteCache, match=r"plan acr, 300 in the mean.*--plan uniform"):
            refused()
    equal = make(tmp_path, plan="uniform")
    assert len(recert.recertify(changed, inputs(), equal, samples=50, method="scratch-cached")) == 6


def test_shards_are_merged_with_their_plans(tmp_path: Path) -> None:
    shards = [make(tmp_path / name, rows, plan="acr") for name, rows in (("a", slice(0, 3)), ("b", slice(3, 6)))]
    whole = recert.cache.merge(tmp_path / "whole", [tmp_path / "a", tmp_path / "b"])
    assert whole.manifest.planned == shards[0].manifest.planned + shards[1].manifest.planned
    assert whole.missing() == []
    make(tmp_path / "c", slice(2, 5), plan="acr")
    with pytest.raises(ContextMismatch, match="shared them out on its own"):
        recert.cache.merge(tmp_path / "all", [tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    make(tmp_path / "d", slice(0, 3))
    with pytest.raises(ContextMismatch, match="plan"):
        recert.cache.merge(tmp_path / "all", [tmp_path / "b", tmp_path / "d"])


def test_stores_without_a_plan_are_written_as_before(tmp_path: Path) -> None:
    make(tmp_path)
    before = files(tmp_path)
    assert not {"plan", "planned"} & json.loads(before[MANIFEST]).keys()
    make(tmp_path, plan="uniform")
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "wrong",
    [{"planned": [1] * 7}, {"planned": [-2]}, {"planned": [1.5]}, {"planned": ["3"]}, {"planned": 3}, {"plan": 3}, {"plan": ""}, {"planned": [2**70]}],
    ids=str,
)  # fmt: skip
def test_a_forged_plan_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    make(tmp_path, plan="acr")
    rewrite_manifest(tmp_path, lambda m: m | wrong)
    with pytest.raises(CorruptCache):
        Cache.open(tmp_path)


def test_a_store_never_claims_with_more_votes_than_it_holds(tmp_path: Path) -> None:
    make(tmp_path, plan="acr")
    rewrite_manifest(tmp_path, lambda m: m | {"planned": [n + 1_000 for n in m["planned"]]})
    with pytest.raises(IncompleteCache, match="lacks 1000 of"):
        _ = Cache.open(tmp_path).certificates


def test_an_unknown_plan() -> None:
    with pytest.raises(ValueError, match="a plan of acr, accuracy:RADIUS or uniform"):
        recert.certify(network(), inputs(), plan="best", **OPTIONS)
