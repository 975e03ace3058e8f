"""What a choice says of itself: numbers and sentences worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from recert.choosing import Chosen, Entry, Status
from recert.choosing.summary_text import text_picture


def entry(name: str, cost: float, predicted: float, certified: float | None, **options: Any) -> Entry:
    status = Status.DROPPED if certified is None else Status.NOT_CERTIFIED
    given = {"chance": 0.5, "alpha": None, "race_passes": 10, "final_passes": 0, "status": status, **options}
    return Entry(
        name=name, cost=cost, predicted=predicted, predicted_low=0.0, predicted_high=1.0, certified=certified, **given
    )


CHOSEN = Chosen(
    winner="third",
    certificates=None,
    entries=(
        entry("first", 1.0, 0.25, None),
        entry("second", 2.0, 0.9, 0.5, race_passes=20, final_passes=300),
        entry("third", 3.0, 0.3, 0.75, race_passes=30, final_passes=400, status=Status.WINNER),
        entry("fourth", 4.0, 0.7, None),
    ),
    metric="acr", tolerance=0.125, base=0.875, base_alpha=0.001, alpha=0.002, family=1, cost_unit="bytes", cost_note="", inputs=5,
    samples=1_000, base_passes=7,
)  # fmt: skip


def test_numbers() -> None:
    assert CHOSEN.target == 0.75
    assert CHOSEN.finalists == 2
    assert CHOSEN.passes == 10 + 320 + 430 + 10
    assert CHOSEN.exhaustive_passes == 4 * 5 * 1_100


@pytest.mark.parametrize(
    ("family", "held"),
    [
        (1, "for each input on its own, the certificate of third holds with probability at least 0.998"),
        (2, "all 2 certificates of third hold together with probability at least 0.998"),
        (5, "all 5 certificates of third hold together with probability at least 0.998"),
    ],
)
def test_the_guarantee_of_a_winner(family: int, held: str) -> None:
    assert replace(CHOSEN, family=family).guarantee == (
        "On these 5 inputs the certificates of third have acr = 0.7500, at least the 0.7500 asked for (the original's certificates, "
        f"each wrong with probability at most 0.001, have 0.8750). Over the noise drawn, {held}; the choice among 4 candidates, 2 of "
        "them certified, is accounted for. That no cheaper candidate would do is not claimed."
    )


def test_no_guarantee_without_a_winner() -> None:
    assert replace(CHOSEN, winner=None).guarantee == (
        "No candidate was certified to reach 0.7500 (acr of the original's certificates, 0.8750, less 0.125). That none could is not "
        "claimed: a larger tolerance or more samples may find one."
    )


def test_the_pareto_edge_is_of_certified_values_where_there_are_any() -> None:
    assert [e.name for e in CHOSEN.pareto] == ["first", "second", "third"]
    same_cost = replace(
        CHOSEN, entries=(entry("a", 1.0, 0.2, None), entry("b", 1.0, 0.3, None), entry("c", 2.0, 0.3, None))
    )
    assert [e.name for e in same_cost.pareto] == ["b"]


def test_the_picture_in_text() -> None:
    """From the lowest value, .25, to the highest, .875, in 40 cells: .75 is in the cell 0.8 * 39 = 31.2, .5 at 15.6, .7 at 28.1."""
    head, *lines = text_picture(CHOSEN).splitlines()
    assert head.startswith("acr from 0.250 to 0.875; | target, # certified, o predicted (no claim)")
    cells = [line.split()[-2] for line in lines]
    assert [len(row) for row in cells] == [40] * 4
    assert len({len(line) for line in lines}) == 1, "in columns"
    assert [row.find("|") for row in cells] == [31, 31, -1, 31]
    assert [(row.find("o"), row.find("#")) for row in cells] == [(0, -1), (-1, 16), (-1, 31), (28, -1)]
    assert ["*" in line for line in lines] == [True, True, True, False]
    assert [line.split()[-1] for line in lines] == ["0.250", "0.500", "0.750", "0.700"]
    flat = replace(CHOSEN, base=0.5, tolerance=0.0, entries=(entry("only", 1.0, 0.5, 0.5),))
    assert text_picture(flat).splitlines()[1].split()[-2].find("#") == 0
