"""A source that keeps its votes: the same votes in any order of asking, in memory, on disk, after it was opened anew or killed."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recert
from recert import Cache, Gaussian, StoredVotes
from recert.cache import merge, writer
from recert.caching import CachingSource
from recert.errors import ContextMismatch, IncompleteCache, MissingVotes, StoreBusy, UnknownInputs
from recert.models.identity import ModelIdentity
from recert.models.numerics import Numerics
from recert.noise import Stream
from recert.sampling import ProgressCallback, Sampler, VoteChunk, VoteSource, Work, collect, is_vote_source
from recert.spot_check import TASK as CHECK
from tests.cache.stores import inputs, make, network

NOISE = Gaussian(0.5)
STREAMS = (Stream.SELECTION, Stream.ESTIMATION, Stream.FRESH)
CLASSES, INPUTS, SAMPLES = 5, 4, 3_000


class Drawing(StoredVotes):
    """Votes that exist, drawn as a model's are: in chunks, with seconds, of a known noise. Counts them."""

    def __init__(self, seed: int = 0, **facts: object) -> None:
        rng = np.random.default_rng(seed)
        estimation, selection, fresh = (rng.integers(-1, CLASSES, (INPUTS, SAMPLES)) for _ in range(3))
        super().__init__(estimation, selection=selection, fresh=fresh, classes=CLASSES)
        self.noise, self.seed = NOISE, 1
        self.drawn: list[tuple[str, Stream, int]] = []
        self.fails_after: int | None = None
        for name, value in facts.items():
            setattr(self, name, value)

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        for work in works:
            for start in range(0, len(work.samples), 70):
                piece = work.samples[start : start + 70]
                if self.fails_after is not None and len(self.drawn) + len(piece) > self.fails_after:
                    raise KeyboardInterrupt
                if task != CHECK:  # a few stored votes are replayed whenever a store is opened
                    self.drawn += [(self.digests[work.position], work.stream, int(sample)) for sample in piece]
                (chunk,) = super().draw([Work(work.position, work.stream, piece)], task, progress)
                yield VoteChunk(work, start, chunk.votes, 0.5 * len(piece))


samples = st.one_of(
    st.builds(lambda start, length: range(start, start + length), st.integers(0, 2_000), st.integers(0, 900)),
    st.builds(
        lambda seed, count, stop: np.sort(np.random.default_rng(seed).choice(stop, min(count, stop), replace=False)),
        st.integers(0, 99), st.integers(0, 300), st.integers(1, SAMPLES),
    ),
)  # fmt: skip
draws = st.lists(
    st.lists(st.builds(Work, st.integers(0, INPUTS - 1), st.sampled_from(STREAMS), samples), min_size=1, max_size=4),
    min_size=1, max_size=6,
)  # fmt: skip


TRUTH = Drawing()


def same(source: VoteSource, works: list[Work]) -> None:
    truth = collect(TRUTH, works, "test")
    TRUTH.drawn.clear()
    for work, found, true in zip(works, collect(source, works, "test"), truth, strict=True):
        assert np.array_equal(found.votes, true.votes), work


@settings(max_examples=40, deadline=None, derandomize=True)
@given(draws)
def test_votes_in_memory_are_those_of_the_source_and_drawn_once(asked: list[list[Work]]) -> None:
    inner = Drawing()
    source = CachingSource(inner)
    for works in [*asked, *asked]:
        same(source, works)
    wanted = {(inner.digests[w.position], w.stream, int(s)) for works in asked for w in works for s in w.samples}
    assert len(inner.drawn) == len(wanted) == source.forward_passes
    assert set(inner.drawn) == wanted


@settings(max_examples=12, deadline=None, derandomize=True)
@given(draws, st.sampled_from([200, 2**25]), st.sampled_from([3, 1_024]), st.sampled_from([256, 2**20]))
def test_votes_on_disk_are_those_of_the_source_and_drawn_once(
    asked: list[list[Work]], votes_per_part: int, largest_gap: int, longest: int
) -> None:
    """However they are cut into parts and rows, with the store opened anew between draws."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(writer, "VOTES_PER_PART", votes_per_part)
        patch.setattr(writer, "LARGEST_GAP", largest_gap)
        patch.setattr(writer, "LONGEST_WITH_GAPS", longest)
        passes, wanted = 0, set()
        for works in [*asked, *asked]:
            inner = Drawing()
            with CachingSource(inner, store=folder) as source:
                same(source, works)
                passes += source.forward_passes
            wanted |= {(inner.digests[w.position], w.stream, int(s)) for w in works for s in w.samples}
        assert passes == len(wanted)
        if not wanted:
            assert list(Path(folder).iterdir()) == []
            return
        cache = Cache.open(folder)
        assert cache.verify() == []
        assert sum(cache.totals(stream)[0] for stream in STREAMS) == passes
        found = CachingSource.from_store(folder)
        for works in asked:
            same(found, works)
        merged = merge(Path(folder) / "merged", [folder, folder])
        assert [merged.totals(stream)[0] for stream in STREAMS] == [cache.totals(stream)[0] for stream in STREAMS]
        for works in asked:
            same(CachingSource.from_store(Path(folder) / "merged"), works)


SOME = [Work(0, Stream.ESTIMATION, np.array([3, 40, 41, 900])), Work(2, Stream.FRESH, range(10))]
MORE = [Work(0, Stream.ESTIMATION, np.array([3, 5, 900, 901])), Work(2, Stream.FRESH, range(5, 30))]


def kept(store: Path, works: Sequence[Work] = SOME, **facts: object) -> None:
    with CachingSource(Drawing(**facts), store=store) as source:  # type: ignore[arg-type]
        collect(source, works, "test")


def test_a_store_alone_answers_and_says_what_it_lacks(tmp_path: Path) -> None:
    kept(tmp_path / "run")
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    source = CachingSource.from_store(tmp_path / "run")
    assert (source.noise, source.seed, source.classes) == (NOISE, 1, CLASSES)
    assert (source.digests, source.identity) == (Drawing().digests, Drawing().identity)
    assert is_vote_source(source)
    same(source, SOME)
    with pytest.raises(MissingVotes, match="lacks 2 estimation votes and 20 fresh votes; draw them with CachingSource"):
        collect(source, MORE, "test")
    assert source.forward_passes == 0
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    with pytest.raises(FileNotFoundError):
        CachingSource.from_store(tmp_path / "nothing")


def test_seconds_are_those_of_the_first_draw_shared_out_evenly(tmp_path: Path) -> None:
    memory = CachingSource(Drawing())
    assert memory.seconds_per_pass == 0
    collect(memory, SOME, "test")
    assert memory.seconds_per_pass == 0.5
    assert [drawn.seconds for drawn in collect(memory, SOME, "test")] == [2.0, 5.0]
    kept(tmp_path)
    stored = CachingSource.from_store(tmp_path)
    assert stored.seconds_per_pass == 0.5
    assert [drawn.seconds for drawn in collect(stored, SOME, "test")] == [2.0, 5.0]
    with CachingSource(Drawing(), store=tmp_path) as source:
        collect(source, MORE, "test")
        assert (source.seconds_per_pass, source.forward_passes) == (0.5, 22)
        source.close()
        collect(source, [Work(1, Stream.SELECTION, range(6))], "test")  # a closed source may draw again
        assert (source.seconds_per_pass, source.forward_passes) == (0.5, 28)
    cache = Cache.open(tmp_path)
    assert [cache.totals(stream) for stream in STREAMS] == [(6, 3.0), (6, 3.0), (30, 15.0)]


REFUSED: dict[str, dict[str, object]] = {
    "model weights": {"identity": ModelIdentity("other", Drawing().identity.structure)},
    "noise": {"noise": Gaussian(0.25)},
    "seed": {"seed": 2},
    "classes": {"classes": CLASSES + 1},
    "input shape": {"input_shape": (3,)},
    "numerics.source": {"numerics": Numerics.from_text({"source": "another device"})},
}


@pytest.mark.parametrize("field", REFUSED)
def test_a_store_of_something_else_is_refused_by_name(tmp_path: Path, field: str) -> None:
    kept(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    facts = {name: value for name, value in REFUSED[field].items() if name != "seed"}
    other = Drawing(**facts)
    other.seed = REFUSED[field].get("seed", 1)  # type: ignore[assignment]
    with pytest.raises(ContextMismatch, match=f"was made with {field} = ") as error:
        CachingSource(other, store=tmp_path)
    assert error.value.field == field
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def test_numerics_are_mixed_on_request_and_recorded(tmp_path: Path) -> None:
    kept(tmp_path)
    other = Drawing(numerics=Numerics.from_text({"source": "another device"}))
    with CachingSource(other, store=tmp_path, allow_numerics=True) as source:
        collect(source, MORE, "test")
        other.numerics = Numerics.from_text({"source": "a third"})  # as when memory runs out while votes are drawn
        collect(source, [Work(1, Stream.FRESH, range(3))], "test")
        assert source.numerics.to_text() == {"source": "stored votes, another device, a third"}
    assert Cache.open(tmp_path).manifest.numerics.to_text() == {"source": "stored votes, another device, a third"}


def test_votes_of_no_known_noise_and_of_other_streams_are_not_stored(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a source that knows its noise and seed"):
        CachingSource(StoredVotes(np.zeros((1, 5), int)), store=tmp_path)
    unnamed = Drawing(identity=ModelIdentity("callable", "unnamed"))
    with pytest.raises(ValueError, match="expected a model with a name"):
        CachingSource(unnamed, store=tmp_path)
    with pytest.raises(ValueError, match="a source of votes, a store of them, or both"):
        CachingSource(None)
    with CachingSource(Drawing(), store=tmp_path) as source, pytest.raises(ValueError, match="got calibration"):
        collect(source, [Work(0, Stream.CALIBRATION, range(3))], "test")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_draw_keeps_what_it_drew(tmp_path: Path) -> None:
    """Also without a `with` block: only the votes of the chunk that failed are drawn again."""
    works = [Work(i, Stream.ESTIMATION, np.arange(0, 1_000, 3)) for i in range(INPUTS)]
    first = Drawing(fails_after=700)
    source = CachingSource(first, store=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        collect(source, works, "test")
    assert Cache.open(tmp_path).totals(Stream.ESTIMATION) == (len(first.drawn), 0.5 * len(first.drawn))
    source.close()
    second = Drawing()
    with CachingSource(second, store=tmp_path) as again:
        same(again, works)
    assert len(first.drawn) > 600
    assert not set(first.drawn) & set(second.drawn)
    assert len(first.drawn) + len(second.drawn) == INPUTS * 334


def test_two_sources_write_in_turns_and_take_up_each_others_votes(tmp_path: Path) -> None:
    one, other = Drawing(), Drawing()
    first, second = CachingSource(one, store=tmp_path), CachingSource(other, store=tmp_path)
    collect(first, SOME, "test")
    with pytest.raises(StoreBusy, match="another process is writing"):
        collect(second, SOME, "test")
    first.close()
    same(second, SOME)  # opened when the store was empty
    assert other.drawn == []
    same(second, MORE)
    assert len(other.drawn) == 22
    second.close()
    assert Cache.open(tmp_path).verify() == []


def test_a_source_that_needs_nothing_takes_no_lock(tmp_path: Path) -> None:
    kept(tmp_path)
    with Cache.locked(tmp_path), CachingSource(inner := Drawing(), store=tmp_path) as source:
        same(source, SOME)
    assert inner.drawn == []


def test_repeated_inputs_are_drawn_once() -> None:
    inner = Drawing()
    inner.digests = [inner.digests[0]] * INPUTS
    inner._votes = {stream: np.repeat(votes[:1], INPUTS, axis=0) for stream, votes in inner._votes.items()}
    source = CachingSource(inner)
    works = [Work(0, Stream.FRESH, range(5)), Work(1, Stream.FRESH, np.array([2, 7])), Work(2, Stream.FRESH, range(9))]
    found = collect(source, works, "test")
    assert sorted(sample for _, _, sample in inner.drawn) == list(range(9))
    assert np.array_equal(found[1].votes, found[2].votes[[2, 7]])


def test_a_cache_of_a_certified_model_is_used_and_extended(tmp_path: Path) -> None:
    """Its complete votes are not drawn again, its certificates stay, and its inputs stay the only ones."""
    before = make(tmp_path)
    certified = before.certificates
    options = {"noise": NOISE, "seed": 1, "batch_size": 32}
    sampler = Sampler(network(), inputs(), **options)  # type: ignore[arg-type]
    works = [Work(i, stream, range(40)) for i in range(6) for stream in STREAMS]
    works += [Work(0, Stream.ESTIMATION, np.array([100, 299, 350, 400]))]
    with CachingSource(sampler, store=tmp_path) as source:
        found = [drawn.votes.tolist() for drawn in collect(source, works, "test")]
        assert source.forward_passes == 6 * 40 - 6 * 20 + 6 * 40 - 6 * 40 + 6 * 40 + 2
    assert found == [drawn.votes.tolist() for drawn in collect(sampler, works, "test")]
    after = Cache.open(tmp_path)
    assert after.verify() == []
    assert after.manifest.looks == before.manifest.looks
    assert after.certificates.radius.tolist() == certified.radius.tolist()
    assert after.certificates.top_votes.tolist() == certified.top_votes.tolist()
    grown = recert.certify(network(), inputs(), **options, samples=500, selection_samples=20, store=tmp_path)  # type: ignore[arg-type]
    memory = recert.certify(network(), inputs(), **options, samples=500, selection_samples=20)  # type: ignore[arg-type]
    assert grown.verify() == []
    assert [grown.votes(d).tolist() for d in grown.digests] == [memory.votes(d).tolist() for d in grown.digests]
    assert grown.certificates.radius.tolist() == memory.certificates.radius.tolist()
    other = Sampler(network(), inputs(7), **options)  # type: ignore[arg-type]
    with pytest.raises(UnknownInputs, match="promises all votes of its inputs"):
        CachingSource(other, store=tmp_path)


NEEDS_ALL: dict[str, Callable[[Path, Cache], object]] = {
    "certify": lambda store, cache: cache.certify(alpha=0.1),
    "certificates": lambda store, cache: cache.certificates,
    "counts": lambda store, cache: cache.counts(Stream.ESTIMATION),
    "votes": lambda store, cache: cache.votes(cache.digests[0]),
    "recertify": lambda store, cache: recert.recertify(network(1), inputs(), store, samples=100),
    "recertify without a plan": lambda store, cache: recert.recertify(
        network(1), inputs(), store, samples=100, method="irs"
    ),
    "audit": lambda store, cache: recert.audit(network(), inputs(), store),
    "select": lambda store, cache: recert.select({"a": network(1)}, inputs(), store, [0] * 6),
}


@pytest.mark.parametrize("verb", NEEDS_ALL)
def test_scattered_votes_certify_nothing(tmp_path: Path, verb: str) -> None:
    with CachingSource(Sampler(network(), inputs(), noise=NOISE, seed=1, batch_size=32), store=tmp_path) as source:
        collect(source, [Work(0, Stream.ESTIMATION, np.array([1, 5]))], "test")
    cache = Cache.open(tmp_path)
    assert "scattered votes" in repr(cache)
    assert cache.missing() == cache.verify() == []
    with pytest.raises(
        IncompleteCache, match=r"expected a cache with all votes of its inputs, .*run certify with this"
    ):
        NEEDS_ALL[verb](tmp_path, cache)


def test_certify_makes_scattered_votes_complete(tmp_path: Path) -> None:
    options = {"noise": NOISE, "seed": 1, "batch_size": 32}
    with CachingSource(Sampler(network(), inputs(), **options), store=tmp_path) as source:  # type: ignore[arg-type]
        collect(source, [Work(i, Stream.ESTIMATION, np.array([1, 5, 6, 150, 299, 320])) for i in range(3)], "test")
    drawn: list[recert.Progress] = []
    cache = make(tmp_path, progress=drawn.append)
    assert drawn[-1].total == 6 * 320 - 3 * 5
    memory = recert.certify(network(), inputs(), **options, samples=300, selection_samples=20)  # type: ignore[arg-type]
    assert cache.manifest.looks == (300,)
    assert Cache.open(tmp_path).verify() == []
    for opened in (cache, Cache.open(tmp_path)):
        assert opened.certificates.radius.tolist() == memory.certificates.radius.tolist()
        assert [opened.votes(d).tolist() for d in memory.digests] == [memory.votes(d).tolist() for d in memory.digests]


def test_many_scattered_votes_make_few_parts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inner = StoredVotes(rng.integers(0, CLASSES, (60, SAMPLES)))
    inner.noise, inner.seed = NOISE, 1
    with CachingSource(inner, store=tmp_path) as source:
        for _ in range(3):
            works = [Work(i, Stream.ESTIMATION, np.sort(rng.choice(SAMPLES, 200, replace=False))) for i in range(60)]
            collect(source, works, "test")
    cache = Cache.open(tmp_path)
    (name,) = cache.part_names()
    data, rows = cache.part(name)
    assert len(rows) == 3 * 60
    assert len(data) < 0.8 * source.forward_passes + 2 * SAMPLES * 180 / 8  # a null costs about a bit
    assert all(row.known is not None for row in rows)


def test_a_work_is_handed_out_before_the_next_is_drawn(tmp_path: Path) -> None:
    """So that its bound is computed meanwhile. Known works at the front cost no wait at all."""
    works = [Work(i, Stream.ESTIMATION, range(100)) for i in range(INPUTS)]
    for store in (None, tmp_path):
        inner = Drawing()
        with CachingSource(inner, store=store) as source:
            collect(source, works[:1], "test")
            chunks = source.draw(works, "test", None)
            drawn = []
            for _ in works:
                next(chunks)
                drawn.append(len(inner.drawn))
        assert drawn == [100, 200, 300, 400]


def test_a_source_that_gives_too_few_votes_is_an_error() -> None:
    class Lazy(Drawing):
        def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
            yield from list(super().draw(works, task, progress))[:-1]

    with pytest.raises(ValueError, match="expected 30 more votes of Lazy, got none"):
        collect(CachingSource(Lazy()), [Work(0, Stream.FRESH, range(100))], "test")


def test_ranges_with_steps(tmp_path: Path) -> None:
    works = [Work(0, Stream.FRESH, range(5, 50, 3)), Work(1, Stream.FRESH, range(0, 9, 2))]
    inner = Drawing()
    with CachingSource(inner, store=tmp_path) as source:
        same(source, works)
    assert [sample for _, _, sample in inner.drawn] == [*range(5, 50, 3), *range(0, 9, 2)]
    same(CachingSource.from_store(tmp_path), works)


def test_votes_that_are_handed_out_are_the_caller_s(tmp_path: Path) -> None:
    source = CachingSource(Drawing())
    for work in (Work(0, Stream.FRESH, range(30)), Work(0, Stream.FRESH, np.arange(0, 30, 7))):
        (chunk,) = source.draw([work], "test", None)
        chunk.votes[:] = 77
    same(source, [Work(0, Stream.FRESH, range(30))])


def test_fresh_votes_are_no_part_of_what_certificates_took(tmp_path: Path) -> None:
    before = make(tmp_path).certificates.seconds
    with CachingSource(Sampler(network(), inputs(), noise=NOISE, seed=1, batch_size=32), store=tmp_path) as source:
        collect(source, [Work(i, Stream.FRESH, range(500)) for i in range(6)], "test")
    assert Cache.open(tmp_path).certificates.seconds.tolist() == before.tolist()


PROGRAM = """
import sys, numpy as np
from recert.cache import writer
from recert.caching import CachingSource
from recert.sampling import Work, collect
from tests.test_caching import Drawing, STREAMS, kill_works
writer.VOTES_PER_PART = 5_000
source = CachingSource(Drawing(), store=sys.argv[1])
for works in kill_works():
    collect(source, works, "test")
    print("drawn", flush=True)
"""


def kill_works() -> Iterator[list[Work]]:
    rng = np.random.default_rng(7)
    for _ in range(200):
        yield [
            Work(i, STREAMS[i % 3], np.sort(rng.choice(SAMPLES, 150, replace=False)))
            for i in rng.permutation(INPUTS).tolist()
        ]


@pytest.mark.parametrize("trial", range(2))
def test_a_killed_process_leaves_a_sound_store_that_is_continued(tmp_path: Path, trial: int) -> None:
    run = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    for _ in range(40 + 60 * trial):
        run.stdout.readline()
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL, "the run was over before it was killed"
    killed = Cache.open(tmp_path)
    assert killed.verify() == []
    found = {
        (row.digest, row.stream, int(s)) for p in killed.part_names() for row in killed.part(p)[1] for s in row.samples
    }
    assert len(found) > 3_000
    inner = Drawing()
    with CachingSource(inner, store=tmp_path) as source:
        for works in kill_works():
            same(source, works)
    assert not set(inner.drawn) & found
    assert Cache.open(tmp_path).verify() == []
    for works in kill_works():
        same(CachingSource.from_store(tmp_path), works)
        break


def test_a_source_inside_another_object_is_one() -> None:
    """Somebody's wrapper that counts or replaces votes hands everything else through."""

    class Wrapper:
        def __init__(self, inner: VoteSource) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    inner = Drawing()
    source = recert.open_source(Wrapper(inner), None, noise=NOISE, seed=1)  # type: ignore[arg-type]
    same(source, SOME)
    assert not is_vote_source(object())
