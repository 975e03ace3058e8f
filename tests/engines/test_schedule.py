"""The schedule without a cluster: whatever dies, refuses or comes late, every vote leaves once and in order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recert.engines import schedule as schedules
from recert.engines.admission import Admission, check_alike
from recert.engines.schedule import DEATHS, Job, Schedule
from recert.engines.units import Units
from recert.engines.worker import Answer, Facts, Refusal
from recert.errors import LostWorkers, UnusableInputs, UnusableModel
from recert.models.numerics import Numerics
from recert.noise import Stream
from recert.sampling import Work


def truth(position: int, samples: range | np.ndarray) -> np.ndarray:
    """A vote that tells whose it is."""
    return ((131 * position + 7 * np.asarray(samples, dtype=np.int64)) % 251).astype(np.uint8)


def answered(job: Job, *, refusing: frozenset[int] = frozenset()) -> Answer:
    works = [s.as_work() for s in job.slices]
    failures = {i: "ValueError: no" for i, work in enumerate(works) if work.position in refusing}
    good = [truth(w.position, w.samples) for i, w in enumerate(works) if i not in failures]
    return Answer(np.concatenate([*good, np.zeros(0, np.uint8)]), np.full(len(good), 0.01), failures)


works_strategy = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 40)).map(lambda t: Work(t[0], Stream.ESTIMATION, range(t[1]))), max_size=12
)  # fmt: skip


@given(works_strategy, st.integers(1, 9), st.integers(1, 4))
def test_units_cover_every_sample_once_and_end_at_batches(works: list[Work], batch_size: int, batches: int) -> None:
    units = Units(works, batch_size)
    taken = []
    while units.batches_left:
        unit = units.take(batches)
        if units.batches_left:
            assert sum(s.length for s in unit) == batches * batch_size
        taken += [(id(s.work), i) for s in unit for i in s.work.samples[s.start : s.start + s.length]]
    assert taken == [(id(work), i) for work in works for i in work.samples]
    assert units.take(1) == ()


@given(
    works_strategy,
    st.integers(1, 9),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
    st.sets(st.integers(0, 5), max_size=2),
)
@settings(max_examples=200, deadline=None)
def test_any_order_any_deaths_any_refusals(works, batch_size, workers, random, refusing) -> None:  # type: ignore[no-untyped-def]
    schedule = Schedule(works, batch_size)
    out: list[tuple[int, Job]] = []
    chunks = []
    while not schedule.complete:
        for worker in range(workers):
            idle = all(w != worker for w, _ in out)
            if (job := schedule.next_job(worker, workers, idle=idle)) is not None:
                out.append((worker, job))
        worker, job = out.pop(random.randrange(len(out)))
        if random.random() < 0.2 and job.deaths < DEATHS - 1:
            schedule.lost(job, "killed")
        else:
            schedule.finish(job, worker, answered(job, refusing=frozenset(refusing)))
        chunks += list(schedule.ready())
    assert set(schedule.failures) == {w.position for w in works if len(w.samples)} & refusing
    assert schedule.done == schedule.samples
    expected = [(w.position, v) for w in works if w.position not in refusing for v in truth(w.position, w.samples)]
    assert [(c.work.position, v) for c in chunks for v in c.votes] == expected
    for chunk in chunks:
        here = chunk.work.samples[chunk.start : chunk.start + len(chunk.votes)]
        assert np.array_equal(chunk.votes, truth(chunk.work.position, here))


def test_what_kills_every_worker_is_found_and_given_up_alone() -> None:
    """Input 1 kills whoever draws it. The others, in the same unit, do not go down with it."""
    works = [Work(i, Stream.ESTIMATION, range(4)) for i in range(3)]
    schedule = Schedule(works, batch_size=12)
    chunks, deaths = [], 0
    while not schedule.complete:
        job = schedule.next_job(0, 1, idle=True)
        assert job is not None
        if any(s.work.position == 1 for s in job.slices):
            schedule.lost(job, "segmentation fault")
            deaths += 1
        else:
            schedule.finish(job, 0, answered(job))
        chunks += list(schedule.ready())
    assert set(schedule.failures) == {1}
    assert "segmentation fault" in schedule.failures[1]
    assert [c.work.position for c in chunks] == [0, 2]
    assert deaths <= 2 * DEATHS


def test_a_second_worker_is_asked_and_the_first_was_wrong() -> None:
    schedule = Schedule([Work(0, Stream.ESTIMATION, range(4))], batch_size=4)
    job = schedule.next_job(0, 2, idle=True)
    assert job is not None
    assert schedule.finish(job, 0, answered(job, refusing=frozenset({0}))) is None
    assert schedule.next_job(0, 2, idle=True) is None, "the worker that refused is not asked again"
    again = schedule.next_job(1, 2, idle=True)
    assert again is not None
    assert schedule.finish(again, 1, answered(again)) == 0
    assert not schedule.failures
    assert [len(c.votes) for c in schedule.ready()] == [4]


def test_no_more_is_drawn_ahead_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "UNITS_AHEAD", 3)
    schedule = Schedule([Work(0, Stream.ESTIMATION, range(10))], batch_size=1)
    first = schedule.next_job(0, 1, idle=True)
    assert first is not None
    while (job := schedule.next_job(0, 1, idle=True)) is not None:
        assert job.unit < 3
        schedule.finish(job, 0, Answer(truth(0, job.slices[0].as_work().samples), np.array([2.0])))
    assert list(schedule.ready()) == []
    schedule.finish(first, 0, answered(first))
    assert sum(len(c.votes) for c in schedule.ready()) == 3
    assert schedule.next_job(0, 1, idle=True) is not None


def facts(**changed: str) -> Facts:
    numerics = {"device": "cpu", "torch": "2.11.0", "batch_size": "64", **changed}
    return Facts(10, Numerics.from_text(numerics), "AVX512", "here")


def test_only_workers_that_compute_alike() -> None:
    check_alike(facts(), facts())
    with pytest.raises(LostWorkers, match=r"torch = 2\.11\.0 on here and 2\.12\.0 on here; .*--allow-numerics"):
        check_alike(facts(), facts(torch="2.12.0"))
    with pytest.raises(LostWorkers, match="instructions = AVX512 on here and AVX2"):
        check_alike(facts(), Facts(10, facts().numerics, "AVX2", "there"))
    mixed = Admission(allow_numerics=True)
    assert mixed.reason_against(facts()) is None
    assert mixed.reason_against(facts(torch="2.12.0")) is None


def test_workers_that_cannot_start() -> None:
    admission = Admission(allow_numerics=False)
    with pytest.raises(UnusableModel, match=r"no logits \(on node n1\)"):
        admission.reason_against(Refusal("no logits", "n1"))
    assert admission.reason_against(facts()) is None
    assert admission.reason_against(Refusal("no module", "n2")) == "no module (on node n2)"
    assert "out of memory" in str(admission.reason_against(facts(batch_size="32")))
    admission.count_death_at_start("killed", others_work=False)
    admission.count_death_at_start("killed", others_work=False)
    with pytest.raises(LostWorkers, match="3 workers in a row died as they started, the last by: killed"):
        admission.count_death_at_start("killed", others_work=False)
    admission.count_death_at_start("killed", others_work=True)
    assert admission.too_many_deaths(1)
    assert not admission.too_many_deaths(2)


def test_failed_inputs_are_named() -> None:
    error = UnusableInputs({7: ("ab" * 32, "ValueError: seven"), 3: ("cd" * 32, "RuntimeError: three")}, 10)
    assert "2 of 10 inputs: input 3 (cdcdcdcdcdcd): RuntimeError: three; input 7 (abababababab)" in str(error)
