"""Re-certification keeps its votes: interrupted, killed, repeated or enlarged, it draws only what is missing, and claims the same."""

import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recert
from recert import Cache, Certificates
from recert.cache import merge
from recert.cache.cache import Cache as CacheClass
from recert.errors import ContextMismatch
from recert.keeping import SUFFIX
from recert.sampling import ProgressCallback, Sampler, VoteChunk, Work
from recert.spot_check import TASK as CHECK
from tests.cache.stores import files

COUNTS: dict[str, Any] = {
    "noise": recert.Gaussian(0.3),
    "samples": 1_000,
    "selection_samples": 50,
    "seed": 1,
    "batch_size": 32,
}
INPUTS = 24


def network(change: float = 0.0, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    made = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).eval()
    with torch.no_grad():
        for weights in made.parameters():
            weights += change * torch.randn_like(weights)
    return made


def inputs() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(INPUTS, 4)).astype(np.float32) * 2


class Counting(Sampler):
    """A sampler that counts its votes, but for those that it is asked to compare with kept ones, and is stopped after some."""

    def __init__(self, model: nn.Module, stops_after: float = float("inf"), **options: Any) -> None:
        super().__init__(model, inputs(), **{"noise": COUNTS["noise"], "seed": 1, "batch_size": 32, **options})
        self.drawn, self.stops_after = 0, stops_after

    def draw(
        self, works: Sequence[Work], task: str = "", progress: ProgressCallback | None = None
    ) -> Iterator[VoteChunk]:
        for chunk in super().draw(works, task, progress):
            if self.drawn + len(chunk.votes) > self.stops_after:
                raise KeyboardInterrupt
            self.drawn += 0 if task == CHECK else len(chunk.votes)
            yield chunk


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("original") / "run"
    recert.certify(network(), inputs(), **COUNTS, store=store)
    return store


@pytest.fixture
def store(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


@pytest.fixture
def memory() -> Cache:
    """The same cache in memory: what is re-certified from it is never kept."""
    return recert.certify(network(), inputs(), **COUNTS)


def kept_in(store: Path) -> list[Path]:
    beside = store.with_name(store.name + SUFFIX)
    return sorted(beside.iterdir()) if beside.exists() else []


def same(one: Certificates, other: Certificates) -> None:
    """Every column but how long it took."""
    for column in fields(Certificates):
        if column.name not in ("seconds", "settings"):
            np.testing.assert_array_equal(
                getattr(one, column.name), getattr(other, column.name), column.name
            )  # nan equals nan
    assert one.settings.numerics == other.settings.numerics


def passes(result: Certificates) -> int:
    return int(result.forward_passes.sum())


@pytest.mark.parametrize("method", ["auto", "joint", "irs", "scratch"])
def test_a_repeated_run_draws_nothing_and_claims_the_same(store: Path, memory: Cache, method: str) -> None:
    truth = recert.recertify(network(0.02), inputs(), memory, samples=150, method=method)
    runs = [Counting(network(0.02)) for _ in range(2)]
    results = [recert.recertify(run, None, store, samples=150, method=method) for run in runs]
    for result in results:
        same(result, truth)
        assert 0 < result.seconds.sum() < 60
    assert [run.drawn for run in runs] == [passes(truth), 0]
    assert [result.settings.drawn for result in results] == [None, 0]
    (kept,) = kept_in(store)
    assert Cache.open(kept).verify() == []


def test_an_interrupted_run_continues_where_it_stopped(store: Path, memory: Cache) -> None:
    truth = recert.recertify(network(0.02), inputs(), memory, samples=200)
    stopped = Counting(network(0.02), stops_after=passes(truth) // 2)
    with pytest.raises(KeyboardInterrupt):
        recert.recertify(stopped, None, store, samples=200)
    rest = Counting(network(0.02))
    result = recert.recertify(rest, None, store, samples=200)
    same(result, truth)
    assert stopped.drawn > passes(truth) // 2 - 64
    assert stopped.drawn + rest.drawn == passes(truth)
    assert result.settings.drawn == rest.drawn


PROGRAM = """
import sys, recert
from recert.cache import writer
from tests.test_keeping import inputs, network
writer.VOTES_PER_PART = 300
def tell(progress):
    print(progress.done, flush=True)
recert.recertify(network(0.02), inputs(), sys.argv[1], samples=200, progress=tell)
"""


def test_a_killed_run_is_continued(store: Path, memory: Cache) -> None:
    run = subprocess.Popen([sys.executable, "-c", PROGRAM, str(store)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    for _ in range(60):
        run.stdout.readline()
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL, "the run was over before it was killed"
    (kept,) = kept_in(store)
    opened = Cache.open(kept)
    assert opened.verify() == []
    before = sum(opened.totals(stream)[0] for stream in recert.Stream)
    rest = Counting(network(0.02))
    result = recert.recertify(rest, None, store, samples=200)
    truth = recert.recertify(network(0.02), inputs(), memory, samples=200)
    same(result, truth)
    assert before >= 900
    assert rest.drawn == passes(truth) - before


def test_a_larger_budget_and_another_method_draw_the_difference(store: Path, memory: Cache) -> None:
    model, drawn = network(0.02), 0
    for options in ({"samples": 100}, {"samples": 200}, {"samples": 200, "method": "series"}):
        truth = recert.recertify(model, inputs(), memory, **options)  # type: ignore[arg-type]
        run = Counting(model)
        same(recert.recertify(run, None, store, **options), truth)  # type: ignore[arg-type]
        assert run.drawn < 0.7 * passes(truth) or not drawn
        drawn += run.drawn
    (kept,) = kept_in(store)
    assert sum(Cache.open(kept).totals(stream)[0] for stream in recert.Stream) == drawn
    uniform = {
        "samples": 100,
        "method": "series",
        "certificate": "one-sided",
        "plan": "uniform",
        "keep": store.with_name("other"),
    }
    small = recert.recertify(Counting(model), None, store, **uniform)  # type: ignore[arg-type]
    run = Counting(model)
    large = recert.recertify(run, None, store, **{**uniform, "samples": 150})  # type: ignore[arg-type]
    assert run.drawn == passes(large) - passes(small) > 0


def test_looks_cost_the_same_with_kept_votes(store: Path, memory: Cache) -> None:
    for cache in (store, memory):
        recert.recertify(network(0.03), inputs(), cache, samples=100)
    again = [recert.recertify(network(0.03), inputs(), cache, samples=200) for cache in (store, memory)]
    assert again[0].settings.together == again[1].settings.together
    assert again[0].guarantee == again[1].guarantee
    assert "re-certified 2 times" in again[0].guarantee


def test_other_models_seeds_and_numerics_have_stores_of_their_own(store: Path, memory: Cache) -> None:
    for model, options in ((network(0.02), {}), (network(0.04), {}), (network(0.02), {"batch_size": 16})):
        truth = recert.recertify(model, inputs(), memory, samples=150, **options)  # type: ignore[arg-type]
        run = Counting(model, **options)
        same(recert.recertify(run, None, store, samples=150), truth)
        assert run.drawn == passes(truth)
    assert len(kept_in(store)) == 3
    shutil.rmtree(store)
    recert.certify(network(), inputs(), **{**COUNTS, "seed": 2}, store=store)
    run = Counting(network(0.02), seed=2)
    assert passes(recert.recertify(run, None, store, samples=150)) == run.drawn > 0
    assert len(kept_in(store)) == 4


def test_nothing_is_kept_on_request_in_memory_or_of_what_has_no_name(store: Path, memory: Cache) -> None:
    model = network(0.02)
    beside_memory = set(Path.cwd().iterdir())
    recert.recertify(model, inputs(), store, samples=100, keep=False)
    recert.recertify(model, inputs(), memory, samples=100)
    recert.recertify(lambda x: model(x), inputs(), store, samples=100)
    assert kept_in(store) == []
    assert set(Path.cwd().iterdir()) == beside_memory
    with pytest.raises(ValueError, match="a model with a name"):
        recert.recertify(lambda x: model(x), inputs(), store, samples=100, keep=store.with_name("votes"))
    with pytest.raises(ValueError, match="expected keep to be True, False or a folder"):
        recert.recertify(model, inputs(), store, samples=100, keep=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected no folder to keep votes in with a CachingSource"):
        recert.recertify(recert.CachingSource(Counting(model)), None, store, samples=100, keep="votes")


def test_a_callable_with_a_name_and_a_folder_of_choice(store: Path, memory: Cache) -> None:
    model, folder = network(0.02), store.with_name("votes")
    options: dict[str, Any] = {"samples": 100, "identity": "my-api-1", "keep": folder}
    for cache in (store, memory):  # the votes are the model's, whichever cache they were drawn for
        result = recert.recertify(lambda x: model(x), inputs(), cache, **options)
    assert result.settings.drawn == 0
    assert kept_in(store) == []
    assert len(list(folder.iterdir())) == 1


def test_the_cache_is_left_as_it_was(store: Path, tmp_path: Path) -> None:
    before = files(store)
    result = recert.recertify(network(0.02), inputs(), store, samples=100)
    after = files(store)
    assert {name: data for name, data in after.items() if not name.startswith("_look-")} == before
    assert Cache.open(store).verify() == []
    merged = merge(tmp_path / "merged", [store])
    assert merged.certificates.radius.tolist() == Cache.open(store).certificates.radius.tolist()
    assert kept_in(tmp_path / "merged") == []
    same(recert.recertify(network(0.02), inputs(), merged, samples=100), result)


def told(found: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in found if "are not kept" in str(each.message)]


def test_where_nothing_can_be_written_there_is_one_warning(store: Path, memory: Cache) -> None:
    truth = recert.recertify(network(0.02), inputs(), memory, samples=100)
    store.with_name(store.name + SUFFIX).write_text("a file where the folder would be")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = recert.recertify(network(0.02), inputs(), store, samples=100)
    same(result, truth)
    assert len(told(found)) == 1
    assert result.settings.drawn is None


def test_while_another_process_writes_votes_are_read_and_not_written(store: Path, memory: Cache) -> None:
    first = recert.recertify(network(0.02), inputs(), store, samples=100)
    truth = recert.recertify(network(0.02), inputs(), memory, samples=200)
    (kept,) = kept_in(store)
    before = files(kept)
    run = Counting(network(0.02))
    with CacheClass.locked(kept), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        same(recert.recertify(run, None, store, samples=200), truth)
    assert "another process is writing" in " ".join(told(found))
    assert len(told(found)) == 1
    assert files(kept) == before
    assert 0 < run.drawn < passes(truth)
    assert passes(first) > 0


@pytest.mark.parametrize("when", ["before", "later"])
def test_a_damaged_store_of_votes_costs_no_result(
    store: Path, memory: Cache, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = recert.recertify(network(0.02), inputs(), memory, samples=100)
    recert.recertify(network(0.02), inputs(), store, samples=100)
    (kept,) = kept_in(store)
    (part,) = kept.glob("part-*")
    if when == "before":
        part.write_bytes(part.read_bytes()[:-1])
    else:  # it is whole when the store is opened
        monkeypatch.setattr(Cache, "part", lambda self, name: (_ for _ in ()).throw(OSError("the disk is gone")))
    run = Counting(network(0.02))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        same(recert.recertify(run, None, store, samples=100), truth)
    assert len(told(found)) == 1
    assert run.drawn == passes(truth)


def test_a_disk_that_fills_up_costs_no_result(store: Path, memory: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = recert.recertify(network(0.02), inputs(), memory, samples=100)

    def full(self: Cache, rows: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Cache, "_write_part", full)
    monkeypatch.setattr("recert.cache.writer.VOTES_PER_PART", 100)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        same(recert.recertify(network(0.02), inputs(), store, samples=100), truth)
    assert len(told(found)) == 1
    monkeypatch.undo()
    run = Counting(network(0.02))
    same(recert.recertify(run, None, store, samples=100), truth)
    assert run.drawn == passes(truth)


def test_votes_are_drawn_first_and_bounded_later(store: Path, memory: Cache) -> None:
    recert.draw_votes(Counting(network(0.02)), None, store, samples=150)
    assert not [name for name in files(store) if name.startswith("_look-")]
    run = Counting(network(0.02))
    same(
        recert.recertify(run, None, store, samples=150), recert.recertify(network(0.02), inputs(), memory, samples=150)
    )
    assert run.drawn == 0


def test_repeated_inputs_are_drawn_and_counted_once(store: Path, memory: Cache) -> None:
    twice = np.concatenate([inputs(), inputs()[:5]])
    truth = recert.recertify(network(0.02), twice, memory, samples=100)
    first, again = (recert.recertify(network(0.02), twice, store, samples=100) for _ in range(2))
    same(first, truth)
    same(again, truth)
    assert (first.settings.drawn, again.settings.drawn) == (None, 0)


def test_a_store_behind_a_url() -> None:
    url = "memory://keeping/run"
    recert.certify(network(), inputs(), **COUNTS, store=url)
    first, again = (recert.recertify(network(0.02), inputs(), url, samples=100) for _ in range(2))
    same(first, again)
    assert again.settings.drawn == 0
    assert Cache.open(url).verify() == []


LABELS = np.zeros(INPUTS, dtype=np.int64)


def test_compare_draws_what_recertify_has_not_and_the_other_way_round(store: Path, memory: Cache) -> None:
    sweep: dict[str, Any] = {"budgets": [100, 200], "methods": ["series"]}
    truth = recert.compare(network(0.02), inputs(), memory, LABELS, **sweep)
    before = recert.recertify(network(0.02), inputs(), store, samples=200, method="series")
    run = Counting(network(0.02))
    compared = recert.compare(run, None, store, LABELS, **sweep)
    for ours, theirs in zip(compared.curves, truth.curves, strict=True):
        assert (ours.budgets, ours.radii, ours.passes) == (theirs.budgets, theirs.radii, theirs.passes)
    assert run.drawn == compared.drawn == truth.drawn - passes(before)
    again = Counting(network(0.02))
    assert recert.compare(again, None, store, LABELS, **sweep).drawn == again.drawn == 0
    assert recert.recertify(again, None, store, samples=100, method="series").settings.drawn == 0
    assert recert.compare(network(0.02), inputs(), store, LABELS, **sweep, keep=False).drawn == truth.drawn


def test_select_keeps_the_votes_of_every_candidate(store: Path, memory: Cache) -> None:
    labels = np.maximum(memory.certificates.prediction, 0)
    candidates = {f"change {change}": network(change) for change in (0.3, 0.02, 0.01)}
    options: dict[str, Any] = {
        "metric": "acr",
        "tolerance": 0.1,
        "cost": dict(zip(candidates, (1, 2, 3), strict=True)),
    }
    truth, first, again = (
        recert.select(candidates, inputs(), cache, labels, **options) for cache in (memory, store, store)
    )
    for chosen in (first, again):
        assert (chosen.winner, chosen.entries) == (truth.winner, truth.entries)
        assert chosen.certificates is not None
        assert truth.certificates is not None
        same(chosen.certificates, truth.certificates)
    assert (truth.drawn, first.drawn, again.drawn) == (truth.passes, truth.passes, 0)
    assert len(kept_in(store)) == 3
    assert truth.winner is not None
    known = recert.recertify(candidates[truth.winner], inputs(), store, samples=100)
    assert known.settings.drawn is not None


def test_select_warns_once_however_many_candidates_there_are(store: Path) -> None:
    store.with_name(store.name + SUFFIX).write_text("a file where the folder would be")
    candidates = {f"change {change}": network(change) for change in (0.02, 0.01)}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        recert.select(candidates, inputs(), store, LABELS)
    assert len(told(found)) == 1


def test_a_certification_by_proxy_keeps_the_votes_of_the_model(tmp_path: Path) -> None:
    options: dict[str, Any] = {**COUNTS, "proxy": network(0.02), "transfer": 200}
    truth = recert.certify_by_proxy(network(), inputs(), **options)
    results = [recert.certify_by_proxy(network(), inputs(), **options, store=tmp_path / "run") for _ in range(2)]
    for result in results:
        same(result.certificates, truth.certificates)
    assert [result.certificates.settings.drawn for result in results] == [None, 0]
    recert.certify_by_proxy(network(), inputs(), **options, store=tmp_path / "other", keep=False)
    assert kept_in(tmp_path / "other") == []


def test_candidates_that_are_the_same_model_are_no_error(store: Path) -> None:
    candidates = {"one": network(0.02), "two": network(0.02)}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        recert.select(candidates, inputs(), store, LABELS)
    assert told(found) == []
    assert len(kept_in(store)) == 1


@pytest.mark.parametrize("url", ["https://example.org/run", "simplecache::s3://bucket/run"])
def test_nothing_is_sent_to_a_web_server(url: str, memory: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cache, "store", property(lambda self: url))
    with pytest.warns(UserWarning, match="are not kept.*nothing can be written to"):
        recert.recertify(network(0.02), inputs(), memory, samples=100)


class FromOutside(nn.Module):
    """A network whose last layer is scaled by what an environment variable says: no digest of the model sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network(0.02)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x)
        return logits * float(os.environ.get("RECERT_TEST_SCALE", "1"))


@pytest.mark.parametrize("asked_for", [False, True])
def test_kept_votes_that_the_model_does_not_give_any_more_are_not_used(
    store: Path, memory: Cache, tmp_path: Path, asked_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"samples": 150, "keep": str(tmp_path / "kept") if asked_for else True}
    recert.recertify(FromOutside(), inputs(), store, **options)
    recert.recertify(FromOutside(), inputs(), store, **options)  # the same: its votes are used
    monkeypatch.setenv("RECERT_TEST_SCALE", "-1")
    truth = recert.recertify(FromOutside(), inputs(), memory, samples=150)
    if asked_for:
        with pytest.raises(ContextMismatch, match=r"another class on [0-9]+ of 64 noises that were replayed"):
            recert.recertify(FromOutside(), inputs(), store, **options)
    else:
        with pytest.warns(
            UserWarning, match=r"votes of the changed model are not kept.* another class on [0-9]+ of 64"
        ):
            result = recert.recertify(FromOutside(), inputs(), store, **options)
        assert np.array_equal(result.prediction, truth.prediction)
        assert result.forward_passes.sum() == truth.forward_passes.sum()
