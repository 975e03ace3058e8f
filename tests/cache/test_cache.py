"""The cache: round trip, resume, refusal of the wrong context, and damage of every kind."""

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

import recert
from recert import Cache, Gaussian
from recert.cache import parts, writer
from recert.errors import ContextMismatch, CorruptCache, IncompleteCache, StoreBusy, UnknownInputs
from recert.models.numerics import Numerics
from recert.noise import Stream
from recert.storage import Directory

OPTIONS = {"noise": Gaussian(0.5), "samples": 300, "selection_samples": 20, "seed": 1, "batch_size": 32}


def network(seed: int = 0, width: int = 8) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3)).eval()


def inputs(count: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)


def all_votes(cache: Cache) -> list[bytes]:
    return [cache.votes(d, s).tobytes() for d in cache.digests for s in (Stream.SELECTION, Stream.ESTIMATION)]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "VOTES_PER_PART", 150)


def test_stored_and_in_memory_hold_the_same_votes(tmp_path: Path) -> None:
    memory = recert.certify(network(), inputs(), **OPTIONS)
    stored = recert.certify(network(), inputs(), **OPTIONS, store=tmp_path / "run")
    opened = Cache.open(tmp_path / "run")
    assert all_votes(memory) == all_votes(stored) == all_votes(opened)
    assert opened.verify() == []
    for column in ("prediction", "radius", "top_votes", "outcome"):
        expected = getattr(memory.certificates, column).tolist()
        assert getattr(opened.certificates, column).tolist() == expected


def test_parts_are_plain_parquet(tmp_path: Path, small_parts: None) -> None:
    cache = recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)
    files = sorted(tmp_path.glob("part-*.parquet"))
    assert len(files) > 3
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    first = [r for r in rows if r["input"].hex() == cache.digests[0] and r["stream"] == "estimation"]
    votes = [v for r in sorted(first, key=lambda r: r["start"]) for v in r["votes"]]
    assert votes == cache.votes(cache.digests[0]).tolist()
    assert {"input", "stream", "start", "length", "counts", "seconds", "votes"} == set(rows[0])


def test_remote_storage_through_fsspec() -> None:
    url = "memory://bucket/run"
    cache = recert.certify(network(), inputs(), **OPTIONS, store=url)
    assert all_votes(Cache.open(url)) == all_votes(cache)
    assert Cache.open(url).verify() == []


def test_new_inputs_are_appended_and_old_ones_cost_nothing(tmp_path: Path) -> None:
    recert.certify(network(), inputs(4), **OPTIONS, store=tmp_path)
    drawn: list[recert.Progress] = []
    cache = recert.certify(network(), inputs(6), **OPTIONS, store=tmp_path, progress=drawn.append)
    assert drawn[-1].total == 2 * 320
    assert all_votes(cache) == all_votes(recert.certify(network(), inputs(6), **OPTIONS))
    assert len(Cache.open(tmp_path).digests) == 6


def test_repeated_inputs_are_drawn_once() -> None:
    x = inputs(3)
    drawn: list[recert.Progress] = []
    result = recert.certify(network(), x[[0, 1, 0, 2, 1]], **OPTIONS, progress=drawn.append).certificates
    assert drawn[-1].total == 3 * 320
    assert result.forward_passes.tolist() == [320, 320, 0, 320, 0]
    assert result.radius[2] == result.radius[0]
    assert result.index.tolist() == [0, 1, 2, 3, 4]


def test_more_samples_extend_a_store_and_are_a_second_look(tmp_path: Path) -> None:
    recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)
    drawn: list[recert.Progress] = []
    longer = {**OPTIONS, "samples": 500}
    cache = recert.certify(network(), inputs(), **longer, store=tmp_path, progress=drawn.append)
    assert drawn[-1].total == 6 * 200
    assert all_votes(cache) == all_votes(recert.certify(network(), inputs(), **longer))
    assert cache.manifest.looks == (300, 500)
    assert "each look holds on its own" in cache.certificates.guarantee
    with pytest.raises(ContextMismatch, match="samples = 500, but here it is 300"):
        recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)


def test_alpha_is_not_context(tmp_path: Path) -> None:
    first = recert.certify(network(), inputs(), **OPTIONS, store=tmp_path, alpha=0.001)
    again = recert.certify(network(), inputs(), **OPTIONS, store=tmp_path, alpha=0.05)
    assert (again.certificates.top_lower > first.certificates.top_lower).all()
    assert again.certify(alpha=0.001).top_lower.tolist() == first.certificates.top_lower.tolist()


class Scaled(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, batch: Tensor) -> Tensor:
        return self.inner(2 * batch)


class Halved(Scaled):
    def forward(self, batch: Tensor) -> Tensor:
        return self.inner(batch / 2)


CONTEXTS = {
    "model weights": (network(1), {}),
    "noise": (network(), {"noise": Gaussian(0.25)}),
    "seed": (network(), {"seed": 2}),
    "numerics.batch_size": (network(), {"batch_size": 16}),
}


@pytest.mark.parametrize("field", CONTEXTS)
def test_another_context_is_refused_by_name(tmp_path: Path, field: str) -> None:
    recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    model, changed = CONTEXTS[field]
    with pytest.raises(ContextMismatch, match=f"was made with {field} = ") as error:
        recert.certify(model, inputs(), **{**OPTIONS, **changed}, store=tmp_path)
    assert error.value.field == field
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def test_another_structure_or_shape_is_refused(tmp_path: Path) -> None:
    recert.certify(Scaled(network()).eval(), inputs(), **OPTIONS, store=tmp_path / "a")
    with pytest.raises(ContextMismatch, match="model structure"):
        recert.certify(Halved(network()).eval(), inputs(), **OPTIONS, store=tmp_path / "a")
    flat = nn.Sequential(nn.Flatten(), network()).eval()
    recert.certify(flat, inputs(), **OPTIONS, store=tmp_path / "b")
    with pytest.raises(ContextMismatch, match="input shape"):
        recert.certify(flat, inputs().reshape(6, 2, 2), **OPTIONS, store=tmp_path / "b")


def test_numerics_may_be_mixed_on_request_and_are_recorded(tmp_path: Path) -> None:
    recert.certify(network(), inputs(3), **OPTIONS, store=tmp_path)
    cache = recert.certify(
        network(),
        inputs(6),
        **{**OPTIONS, "batch_size": 16},
        store=tmp_path,
        execution=recert.Execution(allow_numerics=True),
    )
    assert cache.manifest.numerics.text("batch_size") == "32, 16"


def test_a_callable_must_be_named_to_be_stored(tmp_path: Path) -> None:
    inner = network()
    with pytest.raises(ValueError, match="expected identity"):
        recert.certify(lambda b: inner(b), inputs(), **OPTIONS, store=tmp_path)
    recert.certify(lambda b: inner(b), inputs(), **OPTIONS, store=tmp_path, identity="api-1")
    with pytest.raises(ContextMismatch, match="model structure = api-1, but here it is api-2"):
        recert.certify(lambda b: inner(b), inputs(), **OPTIONS, store=tmp_path, identity="api-2")


class Stop(Exception):
    pass


def test_an_interrupted_run_keeps_what_it_drew_and_continues(tmp_path: Path, small_parts: None) -> None:
    def stop_at_half(progress: recert.Progress) -> None:
        if progress.done > progress.total / 2:
            raise Stop

    with pytest.raises(Stop):
        recert.certify(network(), inputs(), **OPTIONS, store=tmp_path, progress=stop_at_half)
    partial = Cache.open(tmp_path)
    with pytest.raises(IncompleteCache, match="run the same certify again"):
        _ = partial.certificates
    assert any("lacks votes" in problem for problem in partial.verify())
    drawn: list[recert.Progress] = []
    cache = recert.certify(network(), inputs(), **OPTIONS, store=tmp_path, progress=drawn.append)
    assert drawn[-1].total < 0.5 * 6 * 320
    assert all_votes(cache) == all_votes(recert.certify(network(), inputs(), **OPTIONS))


def test_what_an_interrupted_run_drew_with_is_recorded(tmp_path: Path) -> None:
    """And the same call continues it, although the smaller batches of the last run made its numerics mixed."""
    wanted = recert.certify(network(), inputs(), **OPTIONS).manifest
    cache = Cache.continue_or_create(wanted, tmp_path, wanted.inputs, allow_numerics=False)

    def stop_in_the_middle() -> None:
        with cache.writing() as part:
            part.add(wanted.inputs[0], Stream.SELECTION, 0, np.zeros(20, dtype=np.uint8), 0.1)
            cache.record_numerics(Numerics.from_text({**wanted.numerics.to_text(), "batch_size": "16"}))
            raise Stop

    with pytest.raises(Stop):
        stop_in_the_middle()
    interrupted = Cache.open(tmp_path)
    assert interrupted.manifest.numerics.text("batch_size") == "32, 16"
    assert interrupted.manifest.parts == tuple(file.name for file in tmp_path.glob("part-*"))
    finished = recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)
    assert finished.verify() == []
    assert "mixed numerics (batch_size)" in finished.certificates.guarantee
    with pytest.raises(ContextMismatch, match=r"numerics\.batch_size = 32, 16, but here it is 8"):
        recert.certify(network(), inputs(), **{**OPTIONS, "batch_size": 8}, store=tmp_path)


@pytest.mark.parametrize("reverse", [False, True])
def test_parts_that_contradict_each_other_are_refused(tmp_path: Path, reverse: bool) -> None:
    """Votes in another order have the same counts. A part that says the same votes once more does no harm."""
    cache = recert.certify(network(), inputs(2), **OPTIONS, store=tmp_path)
    (genuine,) = cache.part_names()
    for seconds in range(1, 9):  # another hash each, so that the stray comes before and after in the alphabet
        rows = [
            replace(row, seconds=float(seconds), votes=np.flip(row.votes) if reverse else row.votes)  # type: ignore[arg-type]
            for row in cache.part(genuine)[1]
        ]
        name, data = parts.encode(rows, 3, cache.manifest.context)
        (tmp_path / name).write_bytes(data)
        if reverse:
            message = f"{genuine} and {name} hold different votes for input {rows[0].digest[:12]}"
            with pytest.raises(CorruptCache, match=message):
                Cache.open(tmp_path)
            assert len(cache.verify()) == 1
            assert message in cache.verify()[0]
        else:
            assert all_votes(Cache.open(tmp_path)) == all_votes(cache)
            assert cache.verify() == []
        (tmp_path / name).unlink()


def test_a_part_that_overlaps_another_or_itself_is_refused(tmp_path: Path) -> None:
    cache = recert.certify(network(), inputs(1), **OPTIONS, store=tmp_path)
    (genuine,) = cache.part_names()
    row = cache.part(genuine)[1][1]
    assert row.votes is not None
    late = replace(row, start=10, seconds=7.0)
    for rows, holder in (([late], genuine), ([replace(row, start=900)] * 2, None)):
        name, data = parts.encode(rows, 3, cache.manifest.context)
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CorruptCache, match=f"{name} holds votes of input .* that {holder or name} holds too"):
            Cache.open(tmp_path)
        (tmp_path / name).unlink()


def damaged_part(tmp_path: Path) -> Path:
    recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)
    return next(tmp_path.glob("part-*.parquet"))


@pytest.mark.parametrize("position", [0, 100, 0.3, 0.6, 0.9, -1])
def test_a_flipped_byte_is_found(tmp_path: Path, position: float) -> None:
    part = damaged_part(tmp_path)
    cache = Cache.open(tmp_path)
    data = bytearray(part.read_bytes())
    data[int(position * len(data)) if isinstance(position, float) else position] ^= 0x04
    part.write_bytes(bytes(data))
    with pytest.raises(CorruptCache, match=f"{part.name} is damaged"):
        Cache.open(tmp_path)
    assert any(part.name in problem for problem in cache.verify())
    with pytest.raises(CorruptCache):
        cache.votes(cache.digests[0])


def test_a_missing_and_a_truncated_part_are_found(tmp_path: Path) -> None:
    part = damaged_part(tmp_path)
    cache = Cache.open(tmp_path)
    data = part.read_bytes()
    part.write_bytes(data[: len(data) // 2])
    assert any("damaged" in problem for problem in cache.verify())
    part.unlink()
    assert f"{part.name} is missing" in cache.verify()
    with pytest.raises(CorruptCache, match=f"lacks {part.name}"):
        Cache.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda m: m | {"schema": 99}, "schema 1, got 99"), (lambda m: {}, "cannot be read"), (lambda m: m | {"extra": 1}, "unknown fields: extra"),
     (lambda m: {k: v for k, v in m.items() if k != "seed"}, "fields: seed"), (lambda m: [], "cannot be read")],
)  # fmt: skip
def test_a_bad_manifest_is_refused(tmp_path: Path, change: object, message: str) -> None:
    recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)
    file = tmp_path / "_manifest.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))  # type: ignore[operator]
    with pytest.raises(CorruptCache, match=message):
        Cache.open(tmp_path)


def test_counts_that_do_not_match_the_votes_are_found(tmp_path: Path) -> None:
    cache = recert.certify(network(), inputs(1), **OPTIONS, store=tmp_path)
    old = next(tmp_path.glob("part-*"))
    context = cache.manifest.context
    rows = parts.decode(old.name, old.read_bytes(), context, 3)
    name, data = parts.encode([replace(row, counts=row.counts + 1) for row in rows], 3, context)
    old.unlink()
    (tmp_path / name).write_bytes(data)
    (tmp_path / "_manifest.json").write_bytes(replace(cache.manifest, parts=(name,)).to_json())
    assert any("do not match its votes" in problem for problem in Cache.diagnose(tmp_path))
    with pytest.raises(CorruptCache, match="do not match its votes"):
        Cache.open(tmp_path)


def test_parts_of_another_cache_are_refused(tmp_path: Path) -> None:
    """A lost manifest or copied parts must never mix the votes of two models."""
    recert.certify(network(0), inputs(), **OPTIONS, store=tmp_path / "a")
    recert.certify(network(1), inputs(), **OPTIONS, store=tmp_path / "b")
    (tmp_path / "a" / "_manifest.json").unlink()
    with pytest.raises(CorruptCache, match="holds parts of a cache but no _manifest"):
        recert.certify(network(1), inputs(), **OPTIONS, store=tmp_path / "a")
    for part in (tmp_path / "a").glob("part-*"):
        (tmp_path / "b" / part.name).write_bytes(part.read_bytes())
    with pytest.raises(CorruptCache, match="belongs to another cache"):
        Cache.open(tmp_path / "b")
    assert any("belongs to another cache" in problem for problem in Cache.diagnose(tmp_path / "b"))


def test_no_cache_here(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"_manifest\.json"):
        Cache.open(tmp_path / "nothing")


def test_inputs_that_are_not_in_the_cache_are_named(tmp_path: Path) -> None:
    cache = recert.certify(network(), inputs(4), **OPTIONS)
    with pytest.raises(UnknownInputs, match=r"2 of 6 inputs are not in the cache \(inputs 4, 5\)"):
        recert.recertify(network(1), inputs(6), cache, samples=100)
    with pytest.raises(UnknownInputs, match="made for other data"):
        recert.recertify(network(1), inputs(4) + 1, cache, samples=100)


def hold(path: str, ready: "multiprocessing.synchronize.Event", done: "multiprocessing.synchronize.Event") -> None:  # type: ignore[name-defined]
    with Directory(path).locked():
        ready.set()
        done.wait(30)


def test_two_processes_do_not_write_to_one_store(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(str(tmp_path), ready, done))
    other.start()
    assert ready.wait(60)
    with pytest.raises(StoreBusy, match="another process is writing"):
        recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)
    done.set()
    other.join()
    assert recert.certify(network(), inputs(), **OPTIONS, store=tmp_path).verify() == []


@pytest.mark.parametrize("classes", [3, 300])
def test_wide_votes_survive_the_round_trip(tmp_path: Path, classes: int) -> None:
    votes = np.random.default_rng(0).integers(-1, classes, size=(3, 200))
    source = recert.StoredVotes(votes, selection=votes[:, :20], classes=classes)
    recert.certify(source, None, noise=Gaussian(1.0), samples=200, selection_samples=20, store=tmp_path)
    opened = Cache.open(tmp_path)
    for row, digest in zip(votes, opened.digests, strict=True):
        back = opened.votes(digest).astype(int)
        assert np.where(back >= classes, -1, back).tolist() == row.tolist()
    assert opened.certificates.nobody.tolist() == [(v == -1).sum() + (v[:20] == -1).sum() for v in votes]
