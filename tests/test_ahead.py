"""Votes that a device draws while the plan is made: the same certificates, every vote drawn once and paid for."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor

import numpy as np
import pytest

import recert
from recert.errors import UnusableInputs
from recert.noise import Stream
from recert.recertification import drawing, run
from recert.sampling.work import ProgressCallback, VoteChunk, Work

INPUTS, CACHED, BATCH = 120, 2_000, 256
COLUMNS = ("radius", "top_lower", "runner_up_upper", "replayed", "kept", "lost", "gained", "prediction")


class Device(recert.StoredVotes):
    """Votes that come as from a device: it notes what was drawn, and says how much it computes unasked."""

    passes_at_once = BATCH
    passes_ahead = 0
    failing = False

    def watched(self, passes_ahead: int) -> "Device":
        self.passes_ahead, self.votes, self.draws, self.under_way = passes_ahead, Counter[tuple[int, Stream, int]](), list[int](), 0  # fmt: skip
        return self

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        assert not self.under_way, "a source draws one thing after the other"
        self.draws.append(sum(len(work.samples) for work in works))
        self.under_way = self.draws[-1]
        for chunk in super().draw(works, task, progress):
            self.votes.update((chunk.work.position, chunk.work.stream, int(each)) for each in chunk.work.samples)
            self.under_way -= len(chunk.votes)
            yield chunk
        if self.failing:
            raise UnusableInputs({0: ("input 0", "it fails")}, INPUTS)


def votes(flips: float) -> tuple[recert.Cache, Device]:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(4, 0.4), INPUTS)
    draw = lambda size: np.stack([rng.choice(4, size, p=p) for p in shares])  # noqa: E731
    original, others = draw(CACHED), draw(CACHED)
    changed = np.where(rng.random(original.shape) < flips, others, original)
    stored = recert.StoredVotes(original, selection=draw(200), classes=4)
    cache = recert.certify(
        stored, None, noise=recert.Gaussian(0.5), samples=CACHED, selection_samples=200, certificate="two-sided"
    )
    return cache, Device(changed, fresh=draw(CACHED), classes=4)


def recertified(cache: recert.Cache, source: Device, certificate: str = "two-sided", **asked: str) -> recert.Certificates:  # fmt: skip
    return recert.recertify(source, None, cache, samples=150, certificate=certificate, **asked)


@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
@pytest.mark.parametrize("flips", [0.0, 0.02, 0.4])
def test_certificates_are_the_same_and_no_vote_is_drawn_twice(certificate: str, flips: float) -> None:
    cache, source = votes(flips)
    alone = recertified(cache, source.watched(0), certificate)
    usual = source.draws
    ahead = recertified(cache, source.watched(10**6), certificate)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(ahead, name), getattr(alone, name), err_msg=name)
    assert max(source.votes.values()) == 1
    # What is drawn ahead stands behind the first draw, in whole batches, and is missing from the next.
    assert source.draws[0] > usual[0] > 0
    assert source.draws[0] % BATCH == 0
    assert source.draws[1] < usual[1]
    # All of it is paid for, by the inputs that it is about.
    of_rows = Counter[int]()
    for (row, _, _), number in source.votes.items():
        of_rows[row] += number
    assert ahead.forward_passes.tolist() == [of_rows[row] for row in range(INPUTS)]
    most = 1.01 if flips < 0.1 else 1.05
    assert alone.forward_passes.sum() <= ahead.forward_passes.sum() <= most * alone.forward_passes.sum()


def test_votes_are_under_way_while_the_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, source = votes(0.02)
    recertified(cache, source.watched(10**6))  # makes the first plan, which is remembered
    left = list[int]()
    choose = run.choose

    def noted(*arguments):  # type: ignore[no-untyped-def]
        left.append(source.under_way)
        return choose(*arguments)

    monkeypatch.setattr(run, "choose", noted)
    recertified(cache, source.watched(10**6))
    assert len(left) == 1
    assert left[0] >= BATCH
    assert source.under_way == 0, "waited for in the end"


def test_bounds_of_the_first_inputs_wait_until_others_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need the interpreter now and then, and so does what asks for the next votes."""
    cache, source = votes(0.02)
    source.watched(10**6)
    begun, bounded = list[int](), drawing.bounded

    def noted(block: drawing.Block, pool: Executor | None) -> drawing.Block:
        if pool is not None:
            begun.append(len(source.draws))
        return bounded(block, pool)

    monkeypatch.setattr(drawing, "bounded", noted)
    monkeypatch.setattr(run, "bounded", noted)
    recertified(cache, source)
    assert len(source.draws) == 2
    assert set(begun) == {2}


@pytest.mark.parametrize("asked", [{"plan": "uniform"}, {"plan": "accuracy:0.3"}, {"method": "scratch-cached"}])
def test_nothing_is_drawn_ahead_where_it_might_be_drawn_for_nothing(asked: dict[str, str]) -> None:
    cache, source = votes(0.02)
    alone, usual = recertified(cache, source.watched(0), **asked), source.draws
    ahead = recertified(cache, source.watched(10**6), **asked)
    assert source.draws == usual
    assert ahead.forward_passes.tolist() == alone.forward_passes.tolist()


def test_a_source_is_heard_to_its_end() -> None:
    """There it names inputs on which the network failed."""
    cache, source = votes(0.02)
    source.failing = True
    for passes_ahead in (0, 10**6):
        with pytest.raises(UnusableInputs, match="it fails"):
            recertified(cache, source.watched(passes_ahead))


def test_a_source_that_keeps_votes_says_what_its_own_computes() -> None:
    _, source = votes(0.02)
    assert recert.CachingSource(source.watched(3 * BATCH)).passes_ahead == 3 * BATCH
