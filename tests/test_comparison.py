"""`compare`: curves are what each run alone gives, every vote is drawn once, and speed-ups follow from the curves' points."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest

import recert
from recert import Gaussian, StoredVotes
from recert.comparison import Comparison, Curve, compare
from recert.noise import Stream
from recert.sampling import VoteChunk, Work

INPUTS, SAMPLES, SELECTION, CLASSES = 24, 800, 100, 4
SECONDS_PER_VOTE = 0.002
BUDGETS, BASELINE_BUDGETS = (80, 40, 160), (700, 50, 200)  # in no order
METHODS = ("series", "irs")


class TimedVotes(StoredVotes):
    """Stored votes that took a known time each, and remember how often each was drawn."""

    def __init__(self, votes: StoredVotes) -> None:
        self.__dict__.update(votes.__dict__)
        self.drawn: Counter[tuple[int, Stream, int]] = Counter()

    def draw(self, works: Sequence[Work], task: str, progress: object) -> Iterator[VoteChunk]:
        for chunk in super().draw(works, task, None):
            samples = chunk.work.samples[chunk.start : chunk.start + len(chunk.votes)]
            self.drawn.update((chunk.work.position, chunk.work.stream, int(sample)) for sample in samples)
            yield VoteChunk(chunk.work, chunk.start, chunk.votes, SECONDS_PER_VOTE * len(chunk.votes))


def votes() -> tuple[StoredVotes, StoredVotes]:
    """A made-up model, unsure of some inputs, and a modification of it that flips 1% of the votes."""
    rng = np.random.default_rng(0)
    shape = (INPUTS, SELECTION + 2 * SAMPLES)
    base = np.where(rng.random(shape) < rng.uniform(-0.1, 1, (INPUTS, 1)), 1, rng.integers(0, CLASSES, shape))
    changed = np.where(rng.random(shape) < 0.01, rng.integers(0, CLASSES, shape), base)
    cuts = [SELECTION, SELECTION + SAMPLES]
    streams = [np.split(v, cuts, axis=1) for v in (base, changed)]
    original, modified = (StoredVotes(e, selection=s, fresh=f, classes=CLASSES) for s, e, f in streams)
    return original, modified


LABELS = np.where(np.arange(INPUTS) % 6 == 0, 2, 1)  # one input in six is predicted wrong


@pytest.fixture(scope="module")
def cache() -> recert.Cache:
    return recert.certify(votes()[0], None, noise=Gaussian(0.5), samples=SAMPLES, selection_samples=SELECTION)


@pytest.fixture(scope="module")
def source() -> TimedVotes:
    return TimedVotes(votes()[1])


@pytest.fixture(scope="module")
def found(cache: recert.Cache, source: TimedVotes) -> Comparison:
    return compare(
        source, None, cache, LABELS, budgets=BUDGETS, baseline_budgets=BASELINE_BUDGETS, methods=METHODS, alpha=0.004
    )


def test_irs_is_compared_one_sided_and_the_others_as_the_cache_is(found: Comparison) -> None:
    assert {name: curve.certificate for name, curve in found.methods.items()} == {
        "series": "two-sided",
        "irs": "one-sided",
    }
    assert set(found.baselines) == {
        (name, kind) for name in ("scratch", "scratch-cached") for kind in ("one-sided", "two-sided")
    }
    for (name, kind), curve in found.baselines.items():
        assert (curve.name, curve.certificate) == (name, kind)
    for name, kind in (("series", "two-sided"), ("irs", "one-sided")):
        for baseline in ("scratch", "scratch-cached"):
            assert found.baseline(baseline, found.methods[name]) is found.baselines[baseline, kind]
    assert found.curves == [*found.methods.values(), *found.baselines.values()]


def test_a_certificate_that_is_asked_for_holds_for_all(cache: recert.Cache) -> None:
    asked = compare(votes()[1], None, cache, LABELS, budgets=(60,), methods=METHODS, certificate="one-sided")
    assert {curve.certificate for curve in asked.curves} == {"one-sided"}
    assert {name for name, _ in asked.baselines} == {"scratch", "scratch-cached"}
    assert {curve.budgets for curve in asked.curves} == {(60,)}  # the baselines' too, unless they are told
    assert {result.settings.alpha for curve in asked.curves for result in curve.results} == {2 * cache.manifest.alpha}


def test_too_few_samples_for_a_baseline_are_refused(cache: recert.Cache) -> None:
    with pytest.raises(ValueError, match=r"expected between \d+ and .* got 3; with fewer"):
        compare(votes()[1], None, cache, LABELS, budgets=(60,), baseline_budgets=(3,), methods=METHODS)


def test_every_point_is_what_a_run_of_its_own_gives(found: Comparison, cache: recert.Cache) -> None:
    """Radii, passes and settings: that votes were remembered changes nothing."""
    for curve in found.curves:
        ours = curve.name in METHODS
        assert curve.budgets == tuple(sorted(BUDGETS if ours else BASELINE_BUDGETS))
        for budget, result, acr in zip(curve.budgets, curve.results, curve.radii, strict=True):
            alone = recert.recertify(
                votes()[1], None, cache, samples=budget, alpha=0.004, method=curve.name, certificate=curve.certificate
            )
            for setting in (
                "method",
                "certificate",
                "alpha",
                "error",
                "samples",
                "selection_samples",
                "model",
                "noise",
            ):
                assert getattr(result.settings, setting) == getattr(alone.settings, setting)
            assert result.radius.tolist() == alone.radius.tolist()
            assert result.forward_passes.tolist() == alone.forward_passes.tolist()
            right = result.certified & (result.prediction == LABELS)
            assert acr == pytest.approx(result.radius[right].sum() / INPUTS, rel=1e-12)
    assert found.methods["series"].radii[0] < found.methods["series"].radii[-1]


def test_passes_are_the_mean_over_all_inputs(found: Comparison, cache: recert.Cache) -> None:
    """Cohen's baseline pays for its selection votes on every input, the other one only for what the original certified."""
    for kind in ("one-sided", "two-sided"):
        certified = cache.certify(alpha=0.004, certificate=kind).certified.mean()
        assert 0 < certified < 1
        sizes = np.array(sorted(BASELINE_BUDGETS))
        assert found.baselines["scratch", kind].passes == pytest.approx(sizes + 100)
        assert found.baselines["scratch-cached", kind].passes == pytest.approx(sizes * certified)
    for curve in found.curves:
        assert curve.passes == pytest.approx([result.forward_passes.sum() / INPUTS for result in curve.results])


def test_every_pass_has_the_price_of_those_that_were_drawn(found: Comparison) -> None:
    for curve in found.curves:
        assert curve.seconds_per_pass == pytest.approx(SECONDS_PER_VOTE, rel=1e-9)
        assert curve.seconds == pytest.approx([SECONDS_PER_VOTE * passes for passes in curve.passes], rel=1e-9)


def test_every_vote_is_drawn_once(found: Comparison, source: TimedVotes) -> None:
    assert set(source.drawn.values()) == {1}
    charged = sum(int(result.forward_passes.sum()) for curve in found.curves for result in curve.results)
    assert len(source.drawn) < charged / 3
    fresh = {sample for _, stream, sample in source.drawn if stream is Stream.FRESH}
    assert fresh == set(range(max(BASELINE_BUDGETS)))


def line(points: list[tuple[float, float]], radius: float) -> float:
    """Cost at an ACR between two neighbouring points."""
    ordered = sorted(points)
    for (r0, c0), (r1, c1) in pairwise(ordered):
        if r0 <= radius <= r1:
            return c0 + (c1 - c0) * (radius - r0) / (r1 - r0)
    raise AssertionError(f"{radius} lies outside of the curve")


def by_hand(ours: Curve, theirs: Curve) -> tuple[float, float]:
    """The ratio of areas by a sum over many thin slices, and the mean ratio of costs at 100 places of the common range."""
    mine, other = (list(zip(c.radii, c.passes, strict=True)) for c in (ours, theirs))
    low, high = max(min(mine), min(other))[0], min(max(mine), max(other))[0]
    middles = low + (high - low) * (np.arange(20_000) + 0.5) / 20_000
    area = sum(line(other, float(r)) for r in middles) / sum(line(mine, float(r)) for r in middles)
    places = [min(high, low + (high - low) * i / 99) for i in range(100)]
    return area, sum(line(other, r) / line(mine, r) for r in places) / 100


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("baseline", ["scratch", "scratch-cached"])
def test_speedups_follow_from_the_points_of_the_curves(found: Comparison, method: str, baseline: str) -> None:
    ours = found.methods[method]
    theirs = found.baseline(baseline, ours)
    area, ratio = by_hand(ours, theirs)
    speedups = ours.speedups(theirs)
    assert float(speedups["by area"]) == pytest.approx(area, rel=1e-4)
    assert float(speedups["by ratio"]) == pytest.approx(ratio, rel=1e-9)
    in_seconds = recert.metrics.speedup_by_area(ours.seconds, ours.radii, theirs.seconds, theirs.radii)
    assert float(in_seconds) == pytest.approx(area, rel=1e-4)
    assert [float(own) for own in ours.speedups(ours).values()] == [1.0, 1.0]
