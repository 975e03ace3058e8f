"""What is found or spent once at the start: batch sizes are kept with the store, and compiling is told, timed and left out where it does not pay."""

import gc
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import nn

import recert
from recert.cache.batches import BATCHES, Batches
from recert.engines import compiling
from recert.engines.compiling import CompileCost, compile_cost
from recert.models.inference import PreparedModel, prepare
from recert.models.numerics import Numerics
from recert.sampling import sampler as sampler_module
from recert.storage import Directory
from tests.cache.stores import OPTIONS, inputs, make, network
from tests.test_cli import recert as recert_command

ELSEWHERE = Numerics.from_text({"device": "cuda", "processor": "some GPU", "dtype": "float32", "batch_size": "1"})


def at(size: int, **more: str) -> Numerics:
    return Numerics.from_text({**ELSEWHERE.to_text(), "batch_size": str(size), **more})


def test_the_size_of_the_votes_is_used_where_they_were_drawn(tmp_path: Path) -> None:
    cache = make(tmp_path)
    numerics = cache.manifest.numerics
    assert cache.batches.size(numerics) == cache.batches.size(None) == cache.manifest.batch_size
    cache.batches.note(numerics)
    assert not (tmp_path / BATCHES).exists()


def test_a_size_that_was_found_is_known_to_later_commands_on_the_same_machine_and_numerics(tmp_path: Path) -> None:
    make(tmp_path)
    assert recert.Cache.open(tmp_path).batches.size(ELSEWHERE) is None
    recert.Cache.open(tmp_path).batches.note(at(512, memory_format="contiguous"))
    later = recert.Cache.open(tmp_path)
    assert later.batches.size(ELSEWHERE) == 512
    for other in ({"processor": "another GPU"}, {"dtype": "bfloat16"}, {"compiled": "True"}):
        assert later.batches.size(at(1, **other)) is None
    assert later.verify() == []


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"%s": "512"}', '{"%s": 0}', '{"%s": 1e9}', '{"%s": true}', '{"%s": 2097152}', "{" * 9]
)
def test_a_file_that_says_nonsense_says_nothing(tmp_path: Path, text: str) -> None:
    directory = Directory(tmp_path)
    batches = Batches(directory, Numerics.from_text({"device": "cpu", "batch_size": "8"}))
    batches.note(at(512))
    key = next(iter(json.loads((tmp_path / BATCHES).read_text())))
    (tmp_path / BATCHES).write_text(text.replace("%s", key))
    assert Batches(directory, Numerics.from_text({"device": "cpu"})).size(ELSEWHERE) is None


def test_re_certifying_elsewhere_takes_the_size_that_was_found_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that was made on another machine: the batch is not its own, is found once, and is then known."""
    monkeypatch.setattr("recert.models.digest.platform.machine", lambda: "another machine")
    make(tmp_path, batch_size=7)
    monkeypatch.undo()
    usual = []
    monkeypatch.setattr(sampler_module, "usual_batch_size", lambda *_: usual.append(1) or 24)
    sizes = [
        recert.recertify(network(1), inputs(), tmp_path, samples=100).settings.numerics.batch_size for _ in range(2)
    ]
    assert sizes == [24, 24]
    assert len(usual) == 1
    assert recert.recertify(network(1), inputs(), tmp_path, samples=100, batch_size=6).settings.numerics.batch_size == 6


def test_a_store_of_this_machine_is_replayed_in_its_own_batches(tmp_path: Path) -> None:
    make(tmp_path, batch_size=7)
    assert recert.recertify(network(1), inputs(), tmp_path, samples=100).settings.numerics.batch_size == 7


def test_what_compiling_costs_is_reckoned_from_a_timed_pass() -> None:
    made = prepare(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).eval())
    cost = compile_cost(made, inputs(), 1_000, 32)
    assert cost.passes == 1_000 * len(inputs())
    assert 0 < cost.seconds_per_pass < 0.1
    assert cost.compiling == pytest.approx(compiling.SECONDS_TO_BEGIN + 2 * compiling.SECONDS_PER_LAYER["cpu"])


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """torch.compile replaced by nothing. A function of our own in its place would be part of what a model is known by."""
    compile = Mock(side_effect=lambda model, **_: model)
    monkeypatch.setattr(torch, "compile", compile)
    return compile


def cost_of(monkeypatch: pytest.MonkeyPatch, seconds_per_pass: float) -> None:
    monkeypatch.setattr(compiling, "seconds_per_pass", lambda *_: seconds_per_pass)


@pytest.mark.parametrize(("seconds", "compile", "expected"), [
    (1e-6, "auto", False), (1.0, "auto", True), (1e-6, True, True), (1.0, False, False),
])  # fmt: skip
def test_compiled_if_it_pays_or_if_asked_for(
    seconds: float, compile: bool | str, expected: bool, compilers: Mock, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    cost_of(monkeypatch, seconds)
    caplog.set_level(logging.INFO, "recert")
    cache = recert.certify(network(), inputs(), **OPTIONS, execution=recert.Execution(compile=compile))
    assert compilers.called is expected
    assert cache.manifest.numerics.text("compiled") == str(expected)
    said = " ".join(caplog.messages)
    assert ("compiled in 0." in said) is expected
    assert ("not compiled: compiling is expected to take" in said) is (compile == "auto" and not expected)
    assert ("though" in said) is (compile is True)


def test_a_network_that_is_not_compiled_is_the_network_itself() -> None:
    """Its identity, and so the stores that it may continue, are those of a network that nobody wanted to compile."""
    plain = network()
    assert recert.Execution(compile="auto").prepared(plain, inputs(), 10) is plain
    made = recert.Execution(compile=True).prepared(plain, inputs(), 10)
    assert isinstance(made, PreparedModel)
    assert made.inference.compiled


def test_a_store_is_continued_as_it_was_begun(tmp_path: Path, compilers: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    automatic = recert.Execution(compile="auto")
    for begun, later in ((1.0, 1e-9), (1e-9, 1.0)):
        store = tmp_path / str(begun)
        cost_of(monkeypatch, begun)
        first = recert.certify(network(), inputs(), **OPTIONS, store=store, execution=automatic)
        cost_of(monkeypatch, later)
        more = recert.certify(network(), inputs(), **{**OPTIONS, "samples": 400}, store=store, execution=automatic)
        assert more.manifest.numerics == first.manifest.numerics
    with pytest.raises(recert.errors.ContextMismatch):
        recert.certify(network(), inputs(), **{**OPTIONS, "samples": 500}, store=tmp_path / "1.0")


def test_planned_looks_are_about_one_network(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ValueError, match="compile=True or False with planned looks"):
        recert.recertify(network(1), inputs(), tmp_path, samples=100, looks=2, execution=recert.Execution(compile="auto"))  # fmt: skip


def test_what_cannot_be_compiled_is_run_as_it_is() -> None:
    def function(batch: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(batch), dtype=torch.int64)

    for model in (function, prepare(network())):
        assert recert.Execution(compile="auto").prepared(model, inputs(), 10**9) is model
    with pytest.raises(ValueError, match="compile to be True, False or 'auto'"):
        recert.Execution(compile="always")


def test_the_rule_is_seconds_against_seconds() -> None:
    cost = CompileCost(compiling=11.0, passes=359_000, seconds_per_pass=1e-4, share_saved=0.13)
    assert cost.saved == pytest.approx(359_000 * 1e-4 * 0.13)
    assert not cost.pays
    assert str(cost).startswith("compiling is expected to take 11 s and to save 4.67 s of the 35.9 s that 359,000")


def test_the_command_line_says_what_compiling_costs_and_when_the_first_votes_came(tmp_path: Path) -> None:
    call = [
        "certify",
        "--model",
        "digits",
        "--data",
        "digits",
        "--count",
        "2",
        "--samples",
        "200",
        "--store",
        str(tmp_path / "run"),
    ]
    said = recert_command(*call, "--compile-auto")
    assert said.returncode == 0, said.stderr
    assert "not compiled: compiling is expected to take 6 s and to save" in said.stderr
    found = re.search(r"first votes ([0-9.]+) s after the start, all done after ([0-9.]+) s", said.stderr)
    assert found is not None
    assert 0 < float(found[1]) <= float(found[2])
    both = recert_command(*call, "--compile", "--compile-auto")
    assert (both.returncode, "--compile or --compile-auto, got both" in both.stderr) == (1, True)


def test_a_command_leaves_the_collector_and_the_log_of_a_program_as_they_were() -> None:
    log = logging.getLogger("recert")
    before = gc.get_threshold(), gc.get_freeze_count(), log.level, list(log.handlers)
    assert recert_command("models").returncode == 0
    assert (gc.get_threshold(), gc.get_freeze_count(), log.level, log.handlers) == before


def test_a_cache_is_read_and_written_without_pandas(tmp_path: Path) -> None:
    """pyarrow imports it where it is installed, which takes longer than reading most caches."""
    make(tmp_path / "run")
    program = """
import sys, numpy as np, recert
from tests.cache.stores import inputs, make, network
make(sys.argv[1] + "/other")
recert.recertify(network(1), inputs(), sys.argv[1] + "/run", samples=100)
recert.recertify(network(1), inputs(), sys.argv[1] + "/run", samples=150)
sys.exit("pandas" in sys.modules)
"""
    assert (
        subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=Path(__file__).parent.parent).returncode == 0
    )
