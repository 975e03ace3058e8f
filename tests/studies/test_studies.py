"""Studies on votes with a known truth, and the paper's own numbers where they are pure computation."""

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, binom

from recert import Numerics
from recert.errors import MissingVotes
from recert.noise import Stream
from studies import (
    STUDIES,
    accuracy,
    binomial,
    costs,
    coverage,
    disparity,
    distribution,
    gamma,
    networks,
    soundness,
)
from studies.page import section
from studies.request import Cell, Request
from studies.results import read_result, write_result
from studies.run import pack, run
from studies.stores import About
from tests.studies.conftest import FLIPS, INPUTS, PROBABILITIES, Coins, about


@pytest.fixture
def request_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """A request whose networks are coins."""

    def open_network(request: Request, spec: networks.NetworkSpec, batch_size: int | None) -> tuple[Coins, About]:
        coins = Coins(changed=spec.approximation != "original", seed=spec.seed)
        return coins, about(coins)

    monkeypatch.setattr(networks, "open_network", open_network)

    def make(study: str, **changes: object) -> Request:
        grid = replace(
            STUDIES[study].small, networks=("coins",), approximations=("changed",), samples=(1_000,), count=INPUTS
        )
        made = Request(
            study=STUDIES[study],
            grid=grid,
            store=tmp_path / "store",
            out=tmp_path / "out",
            data="coins",
            log=lambda line: None,
        )
        return replace(made, **changes)  # type: ignore[arg-type]

    return make


CELL = Cell("coins", 0.5, "changed", 1_000, INPUTS)


def test_disparity_is_the_share_of_flips_and_its_bound(request_for) -> None:  # type: ignore[no-untyped-def]
    result = disparity.compute(request_for("disparity"), CELL)
    flips = [
        int(
            (Coins().truth(i, Stream.ESTIMATION, 1_000) != Coins(changed=True).truth(i, Stream.ESTIMATION, 1_000)).sum()
        )
        for i in range(INPUTS)
    ]
    assert result["share"] == pytest.approx(np.mean(flips) / 1_000)
    assert abs(result["share"] - FLIPS) < 4 * np.sqrt(FLIPS / 12_000)
    assert result["zeta"] == pytest.approx(np.mean([beta.ppf(0.999, k + 1, 1_000 - k) for k in flips]))
    assert result["zeta without flips"] == pytest.approx(1 - 0.001 ** (1 / 1_000))


def test_accuracy_counts_majorities(request_for) -> None:  # type: ignore[no-untyped-def]
    result = accuracy.compute(request_for("accuracy"), CELL)
    assert result["standard"] == 1.0
    assert result["smoothed"] == 1.0  # class 0 has more than half of every input's votes
    assert result["smoothed, abstentions wrong"] <= 1.0


def test_distribution_adds_up(request_for) -> None:  # type: ignore[no-untyped-def]
    result = distribution.compute(request_for("distribution"), replace(CELL, approximation="original"))
    assert sum(result["shares"]) == pytest.approx(1.0)
    assert result["above half"] == pytest.approx(np.mean(PROBABILITIES > 0.55), abs=2 / INPUTS)


def test_gamma_of_one_half_would_draw_fresh_votes_everywhere(request_for) -> None:  # type: ignore[no-untyped-def]
    result = gamma.compute(request_for("gamma"), CELL)
    assert list(result["ACR"]) == ["0.9", "0.95", "0.975", "0.99", "0.995", "0.999"]
    above = result["share above"]
    assert above["0.9"] >= above["0.99"] >= above["0.999"]


def test_bounds_hold_against_independent_votes(request_for) -> None:  # type: ignore[no-untyped-def]
    request = request_for("soundness")
    result = soundness.compute(request, CELL)
    for method, counts in result["methods"].items():
        assert counts["claims"] > 0, method
        assert counts["above the upper bound"] == 0, method
        assert 0 <= counts["mean distance to the estimate"] < 0.2


def test_bounds_of_many_caches_are_as_often_too_high_as_they_may_be(request_for) -> None:  # type: ignore[no-untyped-def]
    result = coverage.compute(request_for("coverage"), replace(CELL, samples=200))
    for method, counts in result["methods"].items():
        assert counts["claims"] > 150, method
        assert counts["expected at most"] == pytest.approx(0.002 * counts["claims"])
        assert counts["above the estimate"] <= binom.ppf(0.9999, counts["claims"], 0.002), method


def test_bounds_that_are_too_high_are_counted(request_for, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """With alpha = .3 bounds are too high often, and the study has to count that."""
    monkeypatch.setattr(coverage, "ALPHA", 0.3)
    monkeypatch.setattr(coverage, "BLOCKS", 25)
    result = coverage.compute(request_for("coverage"), replace(CELL, samples=200))
    assert result["methods"]["series"]["above the estimate"] > 0.1 * result["methods"]["series"]["claims"]


def test_soundness_would_notice_a_bound_that_is_too_high() -> None:
    class Result:
        certified = np.array([True, True])
        prediction = np.array([0, 0])
        top_lower = np.array([0.95, 0.5])

    counts = soundness.checked(Result(), np.array([[900, 100], [900, 100]]), 1_000)  # type: ignore[arg-type]
    assert counts["above the upper bound"] == counts["above the estimate"] == 1


def test_binomial_reproduces_the_papers_sample_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binomial, "PROBABILITIES", (0.05, 0.5))
    monkeypatch.setattr(binomial, "WIDTHS", (0.005,))
    request = Request(STUDIES["binomial"], STUDIES["binomial"].full, Path(), Path(), "")
    result = binomial.compute(request, None)
    at = dict(zip(result["settings"]["probabilities"], result["samples"]["clopper-pearson"]["0.005"], strict=True))
    assert at[0.05] == pytest.approx(41_500, rel=0.02)
    assert at[0.5] == pytest.approx(216_900, rel=0.01)


def test_a_study_is_resumed_and_computed_elsewhere(  # type: ignore[no-untyped-def]
    request_for, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(costs.SHARES, "speedup", ((0.01, 0.1), (0.1, 0.2)))
    lines: list[str] = []
    request = request_for("speedup", log=lines.append)
    assert run(replace(request, draw_only=True))
    assert not (tmp_path / "out").exists()
    assert run(replace(request, may_draw=False))  # no network any more
    file = tmp_path / "out" / "speedup" / f"{CELL.name}.json"
    result = read_result(file)
    assert result["settings"] == costs.settings(request, CELL)
    assert result["curves"]["irs one-sided"]["budgets"] == [12, 100]
    before = file.stat().st_mtime_ns
    assert run(request)
    assert "there already" in lines[-1]
    assert file.stat().st_mtime_ns == before
    assert pack(tmp_path / "store", tmp_path / "votes.tar") == [tmp_path / "votes-1.tar"]
    with tarfile.open(tmp_path / "votes-1.tar") as archive:
        assert {name.split("/")[0] for name in archive.getnames()} == {"coins-0.5-original", "coins-0.5-changed"}
        archive.extractall(tmp_path / "elsewhere", filter="data")
    there = replace(request, store=tmp_path / "elsewhere", out=tmp_path / "again", may_draw=False)
    assert run(there)
    again = read_result(tmp_path / "again" / "speedup" / f"{CELL.name}.json")
    assert again["curves"] == result["curves"]


def test_a_cell_in_which_nothing_is_certified_is_written(request_for, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    grid = replace(request_for("speedup").grid, samples=(20,), count=2)  # too few votes about inputs that are too close
    request = request_for("speedup", grid=grid)
    assert run(replace(request, draw_only=True))
    assert run(replace(request, may_draw=False))
    result = read_result(tmp_path / "out" / "speedup" / f"{replace(CELL, samples=20).name}.json")
    assert result["curves"]["auto two-sided"]["passes"] == [0.0]
    for found in result["speedups"]["auto two-sided over scratch two-sided"].values():
        assert found["value"] is None
        assert "no input could be certified" in found["reason"]
    assert "—" in section("speedup", tmp_path / "out")


@pytest.mark.parametrize("study", ["gamma", "soundness", "coverage"])
def test_what_was_drawn_alone_is_enough(  # type: ignore[no-untyped-def]
    request_for, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "BLOCKS", 4)
    assert run(request_for(study, draw_only=True))
    assert run(request_for(study, may_draw=False))


def test_missing_votes_leave_a_cell_out_and_say_so(request_for) -> None:  # type: ignore[no-untyped-def]
    lines: list[str] = []
    assert not run(request_for("disparity", may_draw=False, log=lines.append))
    assert "left out" in lines[-1]


def test_votes_drawn_otherwise_leave_a_cell_out_and_say_so(request_for, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    assert run(request_for("disparity", draw_only=True))
    elsewhere = Coins(changed=True, numerics=Numerics.from_text({"device": "elsewhere"}))
    monkeypatch.setattr(networks, "open_network", lambda *arguments: (elsewhere, about(elsewhere)))
    lines: list[str] = []
    assert not run(request_for("soundness", log=lines.append))  # asks for votes that the other study did not draw
    assert "left out: the cache was made with" in lines[-1]


def test_results_are_small_rounded_and_finite(tmp_path: Path) -> None:
    path = write_result(tmp_path, "a", {"x": 1 / 3, "list": [1, 2.5], "none": None})
    assert read_result(path) == {"x": 0.333333, "list": [1, 2.5], "none": None}
    assert "[1, 2.5]" not in path.read_text() or len(path.read_text().splitlines()) < 8
    with pytest.raises(ValueError, match="finite"):
        write_result(tmp_path, "b", {"x": float("nan")})


def test_weights_are_found_or_named() -> None:
    assert networks.load_network("cifar-resnet20", 1, None).name == "cifar-resnet20-1.0"
    with pytest.raises(ValueError, match=r"there is no nowhere/cifar-resnet110-0.25.safetensors either; .* --weights"):
        networks.load_network("cifar-resnet110", 0.25, Path("nowhere"))


def test_a_real_network_is_drawn_and_computed(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    grid = replace(
        STUDIES["disparity"].small, networks=("digits",), approximations=("prune:0.2",), samples=(200,), count=4
    )
    request = Request(STUDIES["disparity"], grid, tmp_path / "s", tmp_path / "o", "digits", log=lambda line: None)
    assert run(request)
    with networks.open_votes(replace(request, may_draw=False), request.cells[0], "prune:0.2") as votes:
        assert votes.first(Stream.ESTIMATION, 200).shape == (4, 200)
        assert votes.seconds_per_pass > 0
        assert votes.numerics.text("device") == "cpu"
        with pytest.raises(MissingVotes):  # no more than that
            votes.first(Stream.ESTIMATION, 201)
    result = read_result(tmp_path / "o" / "disparity" / "digits-0.5-prune-0.2-n200.json")
    assert 0 < result["share"] < 0.2
