"""The first lines of a page against counts by hand: what was kept, lost and gained, and what the budget and the change cost."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from recert.report import Result
from recert.report.alignment import align
from recert.report.difference import Difference, original_of
from recert.report.input_table import Compared, first_rows, inputs_as_csv, telling_rows
from recert.report.page import compared_inputs, verdicts_of
from recert.report.summary import mean_interval, summarise
from recert.report.verdict import conclusion, percent_of, radius_of_verdicts, verdicts
from tests.report.conftest import MakeResult

#           kept  lost: budget  lost: change  gained  abstains: budget  abstains: change  wrong before  another class
BEFORE = [0.9, 0.6, 0.6, 0.4, 0.3, 0.3, 0.8, 0.7]
WITHOUT = [0.8, 0.4, 0.55, 0.6, 0.0, 0.2, 0.8, 0.7]
AFTER = [0.8, 0.4, 0.45, 0.6, 0.0, 0.0, 0.8, 0.6]
LABELS = [1, 1, 1, 1, 1, 1, 2, 1]


def written(make_result: MakeResult, name: str, radius: list[float], method: str, **columns: object) -> Result:
    """A result of eight inputs with these radii; class 1 wherever it is certified."""
    made = make_result(name, 8, method=method)
    r = np.array(radius)
    c = replace(
        made.certificates, radius=r, prediction=np.where(r > 0, 1, -1),
        outcome=np.where(r > 0, "certified", "left-out-by-plan").astype(object), **columns,
    )  # fmt: skip
    return replace(made, certificates=c, labels=np.array(LABELS))


@pytest.fixture
def results(make_result: MakeResult) -> list[Result]:
    known = {"radius_without_flips": np.array(WITHOUT), "lost": np.arange(8), "gained": np.zeros(8, int),
             "replayed": np.full(8, 500), "forward_passes": np.full(8, 510)}  # fmt: skip
    after = written(make_result, "int8", AFTER, "auto", **known)
    other = np.where(np.arange(8) == 7, 3, after.certificates.prediction)
    after = replace(after, certificates=replace(after.certificates, prediction=other))
    return align([written(make_result, "base", BEFORE, "certify"), after])


def test_losses_are_told_apart(results: list[Result]) -> None:
    difference = Difference(results[0], results[1])
    assert difference.what_happened(0.5) == [
        "", "lost at 0.5: budget", "lost at 0.5: change", "gained at 0.5", "abstains now: budget", "abstains now: change", "", "another class",
    ]  # fmt: skip
    losses = difference.losses(0.5)  # the seventh is wrong with both, the last is now another class: lost to the change
    assert (losses.before, losses.after, losses.lost, losses.gained) == (4, 2, 3, 1)
    assert (losses.to_budget, losses.to_change) == (1, 2)
    assert difference.average_radii == pytest.approx(
        (3.8 / 8, (0.8 + 0.4 + 0.55 + 0.6 + 0.2) / 8, (0.8 + 0.4 + 0.45 + 0.6) / 8)
    )


def test_the_sentence_says_the_numbers(results: list[Result]) -> None:
    changed, original = verdicts_of(results, [0.25, 0.5, 1.0])
    assert changed.sentence == (
        "certified at radius 0.5 on 2 of 8 inputs (original 4; 3 lost: 1 to the budget, 2 to the change; 1 gained); another class on 1 of 6 "
        "inputs that both certify; 0.70% of replayed votes flipped; 510 passes per input (original 1,100)."
    )
    assert original.sentence == "certified at radius 0.5 on 4 of 8 inputs; 0 abstained; 1,100 passes per input."
    assert conclusion([changed, original]) == "Of the 4 inputs that the original certifies at radius 0.5, int8 keeps 1."


def test_files_without_the_column_do_not_say_what_cost_it(results: list[Result]) -> None:
    old = [replace(r, certificates=replace(r.certificates, radius_without_flips=None)) for r in results]
    verdict = verdicts_of(old, [0.5])[0]
    assert "(original 4; 3 lost; 1 gained)" in verdict.sentence
    assert verdict.losses is not None
    assert verdict.losses.to_change is None
    assert verdict.difference is not None
    assert verdict.difference.what_happened(0.5)[1:6] == ["lost at 0.5", "lost at 0.5", "gained at 0.5", "abstains now", "abstains now"]  # fmt: skip
    partly = np.array([np.nan, *WITHOUT[1:]])
    some = replace(results[0], certificates=replace(results[0].certificates, radius_without_flips=partly))
    assert Difference(some, results[1]).without_flips is None


def test_without_labels_what_is_certified_counts(results: list[Result]) -> None:
    bare = [replace(r, labels=None) for r in results]
    losses = Difference(bare[0], bare[1]).losses(0.5)
    assert (losses.before, losses.after, losses.lost, losses.gained) == (5, 4, 2, 1)


def test_requirements_pass_or_fail(results: list[Result]) -> None:
    results[0] = replace(results[0], requirements=("accuracy:0.3>=0.25",))
    changed, original = verdicts_of(results, [0.5], ["abstained<=0.1"])
    assert changed.radius == 0.3
    assert [(check.requirement, check.met, check.value) for check in changed.checks] == [
        ("accuracy:0.3>=0.25", True, 0.5), ("abstained<=0.1", False, 0.25),
    ]  # fmt: skip
    assert (changed.passed, original.passed) == (False, True)
    assert conclusion([changed, original]) == "int8 does not meet what was required; base does."
    assert conclusion([original]) == "base meets what was required."
    bare = replace(results[0], labels=None)
    assert verdicts_of([bare], [0.5])[0].passed is None
    assert "no labels" in verdicts_of([bare], [0.5])[0].checks[0].text


def test_inputs_are_counted_at_the_radius_that_was_asked_for(results: list[Result]) -> None:
    assert radius_of_verdicts(results, [0.25, 0.5, 1.0], []) == 0.5
    assert radius_of_verdicts(results, [0.1, 0.2, 0.3], []) == 0.2
    assert radius_of_verdicts(results, [0.25, 0.5], ["acr>=0.1", "accuracy:0.75>=0.1"]) == 0.75
    settings = replace(results[0].certificates.settings, at=(0.25,))
    decided = replace(results[0], certificates=replace(results[0].certificates, settings=settings))
    assert radius_of_verdicts([results[1], decided], [0.25, 0.5], []) == 0.25


def test_only_the_same_noise_is_compared(results: list[Result]) -> None:
    assert original_of(results[0], results) is results[1]
    assert original_of(results[1], results) is None
    settings = replace(results[0].certificates.settings, noise="gaussian:1")
    elsewhere = replace(results[0], certificates=replace(results[0].certificates, settings=settings))
    assert original_of(elsewhere, results) is None


def test_the_interval_of_the_average_radius_is_that_of_student(results: list[Result]) -> None:
    counted = np.where(np.array(LABELS) == 1, BEFORE, 0.0)
    low, high = student.interval(0.95, 7, counted.mean(), counted.std(ddof=1) / np.sqrt(8))
    assert summarise(results[1], []).average_interval == pytest.approx((low, high))
    assert mean_interval(np.array([0.5])) is None


def test_shares_have_three_digits() -> None:
    assert [percent_of(k, n) for k, n in ((1, 3), (1, 1000), (1, 100_000), (0, 3), (3, 3))] == ["33.3%", "0.10%", "<\u00a00.01%", "0%", "100%"]  # fmt: skip


def test_the_most_telling_rows_are_those_that_changed_and_then_lost_most(results: list[Result]) -> None:
    compared = compared_inputs(results, [0.5])
    assert telling_rows(compared).tolist() == list(range(8))
    # Six changed: of these the losses are .3, .3, .2, .15, .1 and -.2; then come those that did not.
    assert telling_rows(compared, 3).tolist() == [1, 4, 5]
    assert telling_rows(compared, 7).tolist() == [0, 1, 2, 3, 4, 5, 7]
    alone = [Compared(results[1], None, 0.5)]
    assert telling_rows(alone, 2).tolist() == [4, 6]  # one is wrong, and of the rest a smallest radius


def test_the_largest_losses_come_first_without_any_script(results: list[Result]) -> None:
    rows = first_rows(compared_inputs(results, [0.5])[0], np.arange(8), None)
    assert [row["number"] for row in rows][:2] == [4, 5]
    assert [row["change"] for row in rows] == sorted(row["change"] for row in rows)
    assert [(row["was"], row["radius"], row["what"]) for row in rows if row["number"] == 2] == [(0.6, 0.45, "lost at 0.5: change")]  # fmt: skip


def test_all_inputs_are_in_the_csv(results: list[Result]) -> None:
    lines = inputs_as_csv(compared_inputs(results, [0.5])).decode().splitlines()
    assert len(lines) == 9
    names = lines[0].split(",")
    third = dict(zip(names, lines[3].split(","), strict=True))
    assert third["radius of base"] == "0.6"
    assert third["radius of int8"] == "0.45"
    assert third["radius without flips of int8"] == "0.55"
    assert third["change of int8"] == "lost at 0.5: change"
    assert third["label"] == "1"


def test_nothing_in_a_csv_is_run_by_a_spreadsheet(results: list[Result]) -> None:
    digests = np.array(["=cmd()"] * 8, dtype=object)
    hostile = [replace(r, name="=cmd()", certificates=replace(r.certificates, input=digests)) for r in results]
    cells = [cell for line in inputs_as_csv(compared_inputs(hostile, [0.5])).decode().splitlines() for cell in line.split(",")]  # fmt: skip
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


def test_the_mark_says_how_many_are_kept(results: list[Result]) -> None:
    changed, original = verdicts_of(results, [0.5])
    assert (changed.mark, original.mark) == ("1 of 4 kept", "original")
    for requirement, mark in (("abstained<=1", "✓ pass"), ("accuracy:0.5>=1", "✗ fail")):
        assert verdicts(results, [0], [None] * len(results), 0.5, [requirement])[0].mark == mark
