"""Decisions at a radius beside everything else: stores, interruption, networks that fail, Ray, the command line."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import recert
from recert.caching import CachingSource
from recert.cli import app
from recert.cli.requirements import _still_open, enough, said_of
from recert.errors import UnusableInputs
from recert.noise import Stream
from recert.noise.stream import NoisyRows
from recert.requirements import Requirement
from recert.sampling import Sampler
from recert.sequential import Enough

NOISE = recert.Gaussian(0.5)


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()


def inputs(count: int = 12) -> np.ndarray:
    return np.random.default_rng(1).random((count, 3, 2, 2), dtype=np.float32)


def test_votes_are_kept_and_used_again(tmp_path: Path) -> None:
    x, store = inputs(), tmp_path / "store"
    first = recert.certify(network(), x, noise=NOISE, at=0.2, samples=40, store=store)
    second = recert.certify(network(), x, noise=NOISE, at=0.2, samples=2_000, store=store)
    assert np.all(second.certified[first.certified])
    assert second.certified.sum() > first.certified.sum()
    alone = recert.certify(network(), x, noise=NOISE, at=0.2, samples=2_000)
    assert np.array_equal(alone.radius, second.radius)
    assert np.array_equal(alone.forward_passes, second.forward_passes)
    # A certification with a fixed number uses what is there, and is what it would be without.
    cache = recert.certify(network(), x, noise=NOISE, samples=500, selection_samples=60, store=store)
    fresh = recert.certify(network(), x, noise=NOISE, samples=500, selection_samples=60)
    assert np.array_equal(cache.counts(Stream.ESTIMATION), fresh.counts(Stream.ESTIMATION))
    assert np.array_equal(cache.certificates.radius, fresh.certificates.radius)


@pytest.mark.parametrize("batch_size", [None, 8])
def test_a_run_that_is_interrupted_goes_on(tmp_path: Path, batch_size: int | None) -> None:
    """With small batches votes of half of the inputs are under way when it is."""
    x, store, calls = inputs(), tmp_path / "store", [0]

    def stop(_: recert.Certificates) -> bool:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        recert.certify(
            network(), x, noise=NOISE, at=[0.1, 0.3], samples=3_000, store=store, enough=stop, batch_size=batch_size
        )
    drawn: list[int] = []
    again = recert.certify(
        network(), x, noise=NOISE, at=[0.1, 0.3], samples=3_000, store=store, progress=lambda p: drawn.append(p.done), batch_size=batch_size
    )  # fmt: skip
    whole = recert.certify(network(), x, noise=NOISE, at=[0.1, 0.3], samples=3_000, batch_size=batch_size)
    assert np.array_equal(again.radius, whole.radius)
    assert np.array_equal(again.forward_passes, whole.forward_passes)
    assert again.outcome.tolist() == whole.outcome.tolist()


class Watched:
    """A lane that knows how many batches were begun and not read yet."""

    def __init__(self, lane: Any) -> None:
        self._lane, self.under_way, self.begun = lane, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lane, name)

    def submit(self, rows: NoisyRows) -> Any:
        ticket = self._lane.submit(rows)
        self.under_way, self.begun = self.under_way + 1, self.begun + 1

        def read() -> Any:
            self.under_way -= 1
            return ticket()

        return read


def watched(batch_size: int, count: int = 12) -> tuple[Sampler, Watched]:
    sampler = Sampler(network(), inputs(count), noise=NOISE, seed=0, batch_size=batch_size)
    sampler._lane = lane = Watched(sampler._lane)  # type: ignore[assignment]
    return sampler, lane


@pytest.mark.parametrize("kept", [False, True])
def test_half_of_the_inputs_is_drawn_while_votes_of_the_others_are_looked_at(tmp_path: Path, kept: bool) -> None:
    sampler, lane = watched(16, count=40)
    source = CachingSource(sampler, store=tmp_path / "store") if kept else sampler
    seen: list[int] = []

    def look(_: recert.Certificates) -> bool:
        seen.append(lane.under_way)
        return False

    with source if isinstance(source, CachingSource) else nullcontext():
        result = recert.certify(source, None, noise=NOISE, at=[0.1, 0.3], samples=2_000, enough=look)
    assert np.mean(np.array(seen[1:]) > 0) > 0.5
    assert lane.under_way == 0
    # They are counted: batches are full but for some of the last.
    assert result.forward_passes.sum() > 0.9 * 16 * (lane.begun - 8)


def test_of_a_batch_that_few_votes_are_wanted_of_there_is_one_at_a_time() -> None:
    """Two would be filled with noises that could have gone to other inputs."""
    sampler, lane = watched(4_096)
    seen: list[int] = []
    recert.certify(
        sampler, None, noise=NOISE, at=0.2, samples=2_000, enough=lambda _: seen.append(lane.under_way) or False
    )
    assert seen
    assert set(seen) == {0}


def test_votes_that_are_under_way_when_enough_is_known_are_counted(tmp_path: Path) -> None:
    sampler, lane = watched(16, count=40)
    with CachingSource(sampler, store=tmp_path / "store") as source:
        result = recert.certify(
            source, None, noise=NOISE, at=0.2, samples=2_000, enough=lambda _: lane.under_way > 0 and lane.begun > 130
        )
        assert not result.decided.all()  # type: ignore[union-attr]
        assert lane.under_way == 0
        assert result.forward_passes.sum() == source.forward_passes


def test_no_row_of_a_function_is_asked_for_before_votes_are_looked_at() -> None:
    """Each may cost money."""
    asked = [0]

    def function(batch: torch.Tensor) -> np.ndarray:
        asked[0] += len(batch)
        return (batch.flatten(1).sum(dim=1) > 6).long().numpy()

    rows: list[tuple[int, int]] = []

    def look(so_far: recert.Certificates) -> bool:
        rows.append((int(so_far.forward_passes.sum()), asked[0]))
        return False

    recert.certify(function, inputs(), noise=NOISE, at=0.1, samples=500, classes=2, identity="f", enough=look)
    counted = np.array(rows)
    assert len(counted) > 3
    # The first votes are those that it was probed with.
    assert np.array_equal(np.diff(counted[1:, 0]), np.diff(counted[1:, 1]))


def test_equal_inputs_are_decided_once_and_charged_once() -> None:
    x = inputs(3)
    result = recert.certify(network(), np.concatenate([x, x]), noise=NOISE, at=0.2, samples=1_000)
    assert np.array_equal(result.radius[:3], result.radius[3:])
    assert np.all(result.forward_passes[3:] == 0)


def test_an_input_on_which_the_network_raises_is_named_and_others_are_drawn(tmp_path: Path) -> None:
    x = inputs(6)
    x[4] += 100

    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            if bool((batch > 50).any()):
                raise RuntimeError("too bright")
            return self.inner(batch)

    cache = recert.certify(network(), x, noise=NOISE, samples=400, selection_samples=50)
    seen: list[int] = []

    def watch(so_far: recert.Certificates) -> bool:
        seen.append(int(so_far.certified.sum()))
        return False

    with pytest.raises(UnusableInputs, match=r"input 4 .*too bright"):
        recert.recertify(Fails().eval(), x, cache, samples=300, at=0.1, enough=watch)
    assert seen[-1] >= 3


class TestCommandLine:
    @pytest.fixture(scope="class")
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        store = str(tmp_path_factory.mktemp("cache") / "store")
        self.run("certify", "--samples", "600", "--store", store)
        return store

    @staticmethod
    def run(command: str, *more: str) -> Any:
        result = CliRunner().invoke(app, [command, "--model", "digits", "--data", "digits", "--count", "20", *more])
        assert result.exit_code in (0, 3), result.output
        return result

    def test_a_grid(self, tmp_path: Path) -> None:
        result = self.run(
            "certify", "--at", "0.25,0.5", "--samples", "2000", "--store", str(tmp_path / "s"), "--format", "csv"
        )
        header, row = result.stdout.splitlines()[:2]
        assert header == "model,accuracy at 0.25,accuracy at 0.5,out of reach,undecided,passes per input,seconds"
        shares = dict(zip(header.split(",")[1:], map(float, row.split(",")[1:]), strict=True))
        assert shares["accuracy at 0.25"] >= shares["accuracy at 0.5"] > 0.3
        assert shares["passes per input"] < 1_500

    @pytest.mark.parametrize(("limit", "code", "word"), [(0.2, 0, "met"), (0.99, 3, "not met")])
    def test_a_requirement_ends_the_run(self, store: str, limit: float, code: int, word: str) -> None:
        result = self.run(
            "recertify", "--store", store, "--approximation", "prune:0.1", "--at", "0.5", "--require", f"accuracy:0.5>={limit}",
            "--no-keep-votes",
        )  # fmt: skip
        assert result.exit_code == code
        assert f"{word}: accuracy:0.5>={limit}" in result.stderr
        # With which guarantee: certificates, or none.
        said = " ".join(result.stderr.split())
        wanted = (
            "each of its certificates holds with probability at least 0.998"
            if code == 0
            else "at most: these votes show no more"
        )
        assert wanted in said
        # Once it is decided, either way, the rest is not drawn.
        assert "inputs undecided" in result.stderr

    def test_it_goes_with_no_proxy(self) -> None:
        result = CliRunner().invoke(
            app, ["certify", "--model", "digits", "--data", "digits", "--at", "0.5", "--proxy", "int8"]
        )
        assert result.exit_code != 0
        assert "expected no --proxy with --at" in str(result.exception or result.stderr)


class TestRequirementOnAGrid:
    """Ten inputs: six are sure of the smaller radius and have no chance of the larger, two are near the larger, two are sure of both."""

    SHARES = (0.9425,) * 2 + (0.8,) * 6 + (1.0,) * 2
    LABELS = np.zeros(10, dtype=np.int64)

    def certified(self, enough: Enough | None) -> recert.Certificates:
        both = np.random.default_rng(4).random((10, 5_050)) >= np.array(self.SHARES)[:, None]
        votes = recert.StoredVotes(both[:, 50:].astype(int), selection=both[:, :50].astype(int), classes=2)
        return recert.certify(votes, None, noise=NOISE, at=[0.2, 0.8], samples=5_000, enough=enough)

    def test_the_run_ends_when_too_many_are_given_up_beyond_a_smaller_radius(self) -> None:
        whole = self.certified(None)
        assert whole.radius[2:].tolist() == [0.2] * 6 + [0.8] * 2
        ended = self.certified(enough(["accuracy:0.8>=0.5"], self.LABELS))
        assert ended.decided is not None
        # Four at most of ten can be shown at .8.
        assert 6 <= (ended.decided & (ended.radius < 0.8)).sum() < 10
        assert ended.samples.sum() < whole.samples.sum()

    def test_inputs_are_open_until_they_are_given_up_or_have_had_their_votes(self) -> None:
        wanted, shares = Requirement.parse("accuracy:0.8>=0.5"), []
        whole = self.certified(lambda so_far: shares.append(_still_open(wanted, so_far, self.LABELS)) or False)
        assert shares[0] == 1.0
        assert shares == sorted(shares, reverse=True)
        assert shares[-1] == 0.0
        assert whole.decided is not None
        assert whole.decided.all()


def test_certificates_of_a_family_are_said_to_hold_together() -> None:
    result = recert.certify(network(), inputs(), noise=NOISE, at=0.1, samples=2_000, family="bonferroni")
    said = said_of("accuracy:0.1>=0.1", True, 0.5, result, result.prediction)
    assert "its certificates hold together with probability at least 0.999" in said


def test_a_store_with_a_plan_keeps_it(tmp_path: Path) -> None:
    """Votes that decide are added beside; what the store promises, and claims, stays."""
    x, store = inputs(), tmp_path / "store"
    planned = recert.certify(network(), x, noise=NOISE, samples=300, plan="acr", store=store)
    recert.certify(network(), x, noise=NOISE, at=0.2, samples=900, store=store)
    again = recert.Cache.open(store)
    assert again.manifest.planned == planned.manifest.planned
    assert np.array_equal(again.certificates.radius, planned.certificates.radius)
    with pytest.raises(ValueError, match="expected no plan with at="):
        recert.certify(network(), x, noise=NOISE, at=0.2, samples=900, plan="acr")
