"""Workers that are killed, run out of memory, or hold a network that raises: real ones, on a cluster of this machine."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import recert
from recert import Cache, Progress
from recert.errors import IncompleteCache, UnusableInputs
from tests.engines.clusters import started_ray
from tests.engines.networks import RaisesOnBright, RunsOutOfMemory, Slow, Wrapped, digits_inputs, on_engine
from tests.faults.undisturbed import COUNTS, OPTIONS, stored_votes, undisturbed_votes, votes


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started_ray(cpus=2):
        yield


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, bytes]:
    return undisturbed_votes()


def pids(folder: Path) -> set[int]:
    return {int(file.name.removeprefix("pid-")) for file in folder.glob("pid-*")}


def test_a_worker_killed_outright_is_replaced_and_its_work_drawn_again(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    killed: list[int] = []

    def kill_one(progress: Progress) -> None:
        working = pids(tmp_path) - {os.getpid()}
        if not killed and progress.done > progress.total / 4 and len(working) == 2:
            killed.append(working.pop())
            os.kill(killed[0], signal.SIGKILL)

    with on_engine("ray", Slow(tmp_path).eval(), digits_inputs(), **OPTIONS, workers=2) as remote:
        cache = recert.certify(
            remote, digits_inputs(), **OPTIONS, **COUNTS, store=tmp_path / "store", progress=kill_one
        )
        assert remote.workers_started == 3
    assert killed, "the run was over before a worker could be killed"
    assert votes(cache) == stored_votes(tmp_path / "store") == undisturbed


def test_a_worker_without_memory_is_replaced_and_its_votes_are_not_used(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    """A smaller batch could change the last bit of a logit, so what such a worker draws is drawn again by another."""
    with on_engine("ray", RunsOutOfMemory(tmp_path).eval(), digits_inputs(), **OPTIONS, workers=2) as remote:
        cache = recert.certify(remote, digits_inputs(), **OPTIONS, **COUNTS)
        assert remote.workers_started == 3
    assert (tmp_path / "out of memory").exists()
    assert votes(cache) == undisturbed
    assert cache.manifest.numerics.text("batch_size") == str(OPTIONS["batch_size"])


def test_an_input_on_which_the_network_raises_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    x = digits_inputs()
    x[2, 0, 0, 0] = 100.0
    others = undisturbed_votes(x[[0, 1, 3, 4]])
    model = RaisesOnBright(tmp_path).eval()
    with (
        on_engine("ray", model, x, **OPTIONS, workers=2) as remote,
        pytest.raises(UnusableInputs, match=r"1 of 5 inputs: input 2 \([0-9a-f]{12}\): RuntimeError: the image is too bright\."),
    ):  # fmt: skip
        recert.certify(remote, x, **OPTIONS, **COUNTS, store=tmp_path / "store")
    cache = Cache.open(tmp_path / "store")
    digest = cache.digests[2]
    assert votes(cache.about(list(others))) == others
    assert {missing for missing, _, _ in cache.missing()} == {digest}
    with pytest.raises(IncompleteCache, match=digest[:12]):
        cache.votes(digest)


def test_a_network_that_no_worker_can_load_is_refused_in_words(tmp_path: Path) -> None:
    class Unloadable(Wrapped):
        def __reduce__(self) -> tuple[object, ...]:
            return __import__, ("a_module_that_is_only_here",)

    with (
        pytest.raises(recert.errors.UnusableModel, match="No module named 'a_module_that_is_only_here'"),
        on_engine("ray", Unloadable(tmp_path).eval(), digits_inputs(), **OPTIONS, workers=1),
    ):
        pass
