"""The study of decisions at a radius: others' rules against their definitions, and the whole study on real votes."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm

from studies import STUDIES, at_radius
from studies.csv_tables import tables_in
from studies.folded import _tables
from studies.radius_section import at_radius as section
from studies.radius_section import passes_for
from studies.request import Cell, Request
from studies.results import write_result
from studies.rules_at_radius import cohen, horvath, voracek
from studies.tables import Found
from studies.votes_at_radius import votes_of_both

REAL = Path(__file__).parents[1] / "real_votes" / "votes.npz"


def hits(p: float, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, columns)) < p


def test_cohen_is_clopper_pearson() -> None:
    votes = hits(0.8, 200, 150)
    expected = beta.ppf(0.01, votes.sum(axis=1), 151 - votes.sum(axis=1)) >= 0.72
    assert 0 < expected.sum() < 200
    assert cohen(votes, 0.72, 0.01).shown.tolist() == expected.tolist()


def test_voracek_stops_when_the_prediction_is_so_much_likelier() -> None:
    """Vote by vote, as a gambler plays: each vote is predicted by those before it."""
    threshold, alpha = 0.7, 0.01
    for p, seed in ((0.95, 1), (0.5, 2), (0.71, 3)):
        votes = hits(p, 1, 400, seed)
        log, k, found = 0.0, 0, (False, 400)
        for n, hit in enumerate(votes[0]):
            predicted = (k + 0.5) / (n + 1)
            log += np.log(predicted / threshold) if hit else np.log((1 - predicted) / (1 - threshold))
            k += hit
            if log >= np.log(1 / (2 * alpha)):
                found = (k > threshold * (n + 1), n + 1)
                break
        decided = voracek(votes, threshold, alpha)
        assert (bool(decided.shown[0]), int(decided.votes[0])) == found


def test_voracek_is_wrong_no_more_often_than_alpha() -> None:
    assert voracek(hits(0.7, 4_000, 500), 0.7, 0.05).shown.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4_000)


def test_horvath_has_new_votes_in_each_stage_and_ends_early() -> None:
    good = np.concatenate([np.ones((1, 50), bool), np.zeros((1, 450), bool)], axis=1)
    hopeless = np.zeros((1, 500), bool)
    late = np.concatenate([hits(0.7, 1, 50, 4), np.ones((1, 450), bool)], axis=1)
    decided = horvath(np.concatenate([good, hopeless, late]), 0.7, 0.001, stages=(50, 450), beta=0.001)
    assert decided.shown.tolist() == [True, False, True]
    assert decided.votes.tolist() == [50, 50, 500]
    # Each stage has half of alpha: 17 of 17 votes show .7 at .0024, but not at half of that.
    all_for = np.ones((1, 17 + 1), bool)
    assert beta.ppf(0.0024, 17, 1) > 0.7
    assert not horvath(all_for, 0.7, 0.0024, stages=(17, 1), beta=0.001).shown[0]


def test_passes_at_equal_share_lie_on_the_line_between_two_points() -> None:
    curve = {"share": [0.2, 0.4, 0.3, 0.5], "passes": [10.0, 20.0, 30.0, 60.0]}
    assert passes_for(0.45, curve) == pytest.approx(40.0)
    assert passes_for(0.1, curve) == 10.0
    assert passes_for(0.51, curve) is None


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    request = Request(
        STUDIES["at-radius"], STUDIES["at-radius"].small, Path("none"), Path("none"), "none", votes=REAL, log=lambda line: None
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:  # fewer, to save time
        patch.setattr(at_radius, "RADII", (0.25, 0.5))
        patch.setattr(at_radius, "BUDGETS", (30, 100))
        patch.setattr(at_radius, "MOST", (1_000, 4_000))
        found = at_radius.compute(request, CELL)
    assert found is not None
    return found


CELL = Cell("cifar-resnet20", 0.5, "prune:0.2", 8_500, 32)


def test_every_way_certifies_about_as_many_as_bounds_from_all_votes(result: dict[str, Any]) -> None:
    with np.load(REAL) as file:
        votes = file["prune20"][:32]
    classes = np.array([np.bincount(row[:50], minlength=10).argmax() for row in votes])
    share = (votes[:, 500:] == classes[:, None]).mean(axis=1)
    for radius in ("0.25", "0.5"):
        ways = result["radii"][radius]
        truth = float((share >= norm.cdf(float(radius) / 0.5)).mean())
        for name in ("Cohen, n = 9,500", "Voracek", "Horvath"):
            assert abs(ways[name]["share"] - truth) <= 3 / 32
        assert abs(ways["scratch one-sided"]["share"][0] - truth) <= 3 / 32
        assert abs(ways["cache one-sided"]["share"][-1] - truth) <= 4 / 32
        assert ways["cache one-sided"]["passes"][-1] < ways["scratch one-sided"]["passes"][0]
        assert ways["scratch one-sided"]["passes"][0] < ways["Voracek"]["passes"] < ways["Cohen, n = 9,500"]["passes"]
        assert ways["plan one-sided"]["passes"] == sorted(ways["plan one-sided"]["passes"])


def test_the_section_shows_the_numbers_of_the_file(tmp_path: Path, result: dict[str, Any]) -> None:
    write_result(tmp_path / "at-radius", "cell", result)
    text = section(Found("at-radius", tmp_path))
    row = next(line for line in text.splitlines() if line.startswith("| ResNet-20 | 0.5 | prune:0.2 |"))
    point = result["radii"]["0.25"]["Voracek"]
    assert f"| {point['share']:.1%} ({point['passes']:,.0f}) |" in row
    assert "ResNet-110 at sigma 1" in text.splitlines()[-1]
    assert section(Found("at-radius", tmp_path / "nowhere")) == "not run\n"


def test_the_page_has_the_cells_of_the_section(tmp_path: Path, result: dict[str, Any]) -> None:
    """Columns of a page are found by their headings: two of one name would both show the first."""
    write_result(tmp_path / "at-radius", "cell", result)
    found = Found("at-radius", tmp_path)
    tables, on_page = tables_in(section(found)), tables_in(_tables(found))
    assert len(tables) == len(on_page) == 2
    for rows, shown in zip(tables, on_page, strict=True):
        assert len(set(rows[0])) == len(rows[0])
        assert [row[3:] for row in shown] == [row[3:] for row in rows]
        assert len({tuple(column) for column in zip(*[row[5:] for row in rows], strict=True)}) > 2


def test_a_file_without_the_change_is_refused() -> None:
    request = Request(STUDIES["at-radius"], STUDIES["at-radius"].small, Path(), Path(), "", votes=REAL)
    with (
        pytest.raises(ValueError, match=r"expected prune5 in .*votes.npz, got .*choose --approximations"),
        votes_of_both(request, Cell("cifar-resnet20", 0.5, "prune:0.05", 8_500, 4)),
    ):
        pass
    with (
        pytest.raises(ValueError, match="expected --samples of at most 8500"),
        votes_of_both(request, Cell("cifar-resnet20", 0.5, "fp16", 9_000, 4)),
    ):
        pass


@pytest.mark.skipif("RECERT_TEST_DATA" not in os.environ, reason="needs the votes that RECERT_TEST_DATA names")
def test_the_committed_shares_are_those_of_the_votes() -> None:
    file = Path(os.environ["RECERT_TEST_DATA"]) / "votes_r20_s0.5.npz"
    results = Path(__file__).parents[2] / "results" / "at-radius"
    committed = json.loads((results / "cifar-resnet20-0.5-fp16-n8500.json").read_text())
    request = Request(STUDIES["at-radius"], STUDIES["at-radius"].full, Path(), Path(), "", votes=file)
    with votes_of_both(request, Cell("cifar-resnet20", 0.5, "fp16", 8_500, 500)) as votes:
        found = at_radius._rules(votes, 0.5)
    for name, point in found.items():
        assert point["share"] == pytest.approx(committed["radii"]["0.5"][name]["share"])
