"""The first lines of a page against counts by hand: what was kept, lost and gained, and what too few samples and the change cost."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from recert.report import Result
from recert.report.alignment import align
from recert.report.difference import Difference, original_of
from recert.report.input_table import Compared, first_rows, inputs_as_csv, telling_rows
from recert.report.page import compared_inputs, render_page, verdicts_of
from recert.report.summary import mean_interval, summarise
from recert.report.verdict import Check, Shape, conclusion, percent_of, radius_of_verdicts, shape
from tests.report.conftest import MakeResult

#           kept  lost: samples  lost: change  gained  abstains: samples  abstains: change  wrong before  another class
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
        "", "lost at 0.5: too few samples", "lost at 0.5: change", "gained at 0.5", "abstains now: too few samples", "abstains now: change", "", "another class",
    ]  # fmt: skip
    losses = difference.losses(0.5)  # the seventh is wrong with both, the last is now another class: lost to the change
    assert (losses.before, losses.after, losses.lost, losses.gained) == (4, 2, 3, 1)
    assert (losses.to_samples, losses.to_change) == (1, 2)
    assert difference.average_radii == pytest.approx(
        (3.8 / 8, (0.8 + 0.4 + 0.55 + 0.6 + 0.2) / 8, (0.8 + 0.4 + 0.45 + 0.6) / 8)
    )


def test_the_first_sentence_keeps_both_losses_apart(results: list[Result]) -> None:
    changed, original = verdicts_of(results, [0.25, 0.5, 1.0])
    assert conclusion([changed, original]) == (
        "Of the 4 inputs certified at radius 0.5 for the original, the change to int8 loses 2; too few samples another 1, which more samples may bring back."
    )
    assert conclusion([original]) == "4 of 8 inputs are certified at radius 0.5; 0 abstained."
    # Another that has not lost the third, but the first as well, of which nothing would have been left without flips.
    c = results[0].certificates
    radius, without = np.array(AFTER), np.array(WITHOUT)
    radius[[0, 2]], without[0] = [0.1, 0.55], 0.1
    other = replace(results[0], name="bf16", certificates=replace(c, radius=radius, radius_without_flips=without))
    assert conclusion(verdicts_of([results[0], other, results[1]], [0.5])) == (
        "Of the 4 inputs certified at radius 0.5 for the original, the changes lose 1 (bf16) to 2 (int8); "
        "too few samples another 1 to 2, which more samples may bring back."
    )
    twice = [changed, replace(changed, name="again"), original]
    assert "the changes lose 2 each; too few samples another 1 each" in conclusion(twice)


def test_a_row_has_the_numbers(results: list[Result]) -> None:
    changed, original = verdicts_of(results, [0.5])
    assert (changed.kept, changed.total, changed.flips, changed.replayed, changed.passes) == (1, 8, 28, 4_000, 510)
    assert changed.parts == [("kept", "still certified", 1), ("change", "lost to the change", 2), ("few", "lost to too few samples", 1)]  # fmt: skip
    assert original.parts == [("kept", "certified", 4)]
    assert changed.other_class == "int8 predicts another class than the original on 1 of 6 inputs that both certify."
    assert original.other_class == ""
    assert original.said == "certified at radius 0.5 on 4 of 8 inputs"


def test_where_nothing_was_certified_nothing_is_lost(results: list[Result]) -> None:
    found = verdicts_of(results, [2.0])
    assert conclusion(found) == "The original certifies no input at radius 2: there is nothing to lose."
    assert [verdict.parts for verdict in found] == [[], []]
    assert "nothing to lose" in render_page(results, [2.0])


def test_a_model_without_an_original_is_told_apart(results: list[Result]) -> None:
    settings = replace(results[0].certificates.settings, noise="gaussian:1")
    c = replace(results[0].certificates, settings=settings)
    page = render_page([*results, replace(results[0], name="elsewhere", certificates=c)], [0.5])
    assert "<b>2</b> of 8<small>no original here</small>" in page
    assert page.count("no original here") == 1


def test_columns_that_say_nothing_are_left_out(results: list[Result]) -> None:
    found = verdicts_of(results, [0.5])
    assert shape(found) == Shape(before=4, widest=4, checked=False, compared=True, told_apart=True, gained=True, flips=True, anew=False)  # fmt: skip
    assert shape(found[1:]) == Shape(before=None, widest=0, checked=False, compared=False, told_apart=False, gained=False, flips=False, anew=False)  # fmt: skip
    assert not shape(verdicts_of(results, [0.75])).gained
    assert shape(verdicts_of(results, [0.5], ["acr>=0.1"])).checked


def test_files_without_the_column_do_not_say_what_cost_it(results: list[Result]) -> None:
    old = [replace(r, certificates=replace(r.certificates, radius_without_flips=None)) for r in results]
    found = verdicts_of(old, [0.5])
    assert conclusion(found) == "Of the 4 inputs certified at radius 0.5 for the original, 3 are lost."
    assert not shape(found).told_apart
    verdict = found[0]
    assert verdict.parts == [("kept", "still certified", 1), ("few", "lost", 3)]
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
    assert conclusion([changed, original]).startswith(
        "int8 does not meet what was required; base does. Of the 7 inputs certified at radius 0.3"
    )
    assert conclusion([original]).startswith("base meets what was required. 7 of 8 inputs")
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


def test_the_number_that_is_compared_agrees_with_its_answer() -> None:
    assert Check("accuracy:0.5>=0.6", True, 0.615).compared == "accuracy at 0.5: 0.615, limit ≥\u00a00.6"
    assert Check("acr>=0.4", True, 0.5519).compared == "ACR: 0.551, limit ≥\u00a00.4"  # rounded down, as on the cards
    assert Check("accuracy:0.5>=0.6", False, 0.59995).text == "accuracy:0.5>=0.6 (it is 0.59995)"  # not 0.600
    assert Check("acr>=0.5519", True, 0.55195).compared == "ACR: 0.55195, limit ≥\u00a00.5519"
    assert Check("abstained<=0.1", False, 0.1004).compared == "abstained: 0.1004, limit ≤\u00a00.1"
    assert Check("acr>=0.4", None, None).compared == "ACR: no labels, limit ≥\u00a00.4"
