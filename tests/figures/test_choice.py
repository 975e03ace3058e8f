"""The figure of what select found: every candidate at its cost and value."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recert.figures.choice import choice_figure, draw_choice
from tests.choosing.test_result import CHOSEN


def test_every_candidate_stands_at_its_cost_and_value_under_its_name() -> None:
    hostile = replace(CHOSEN, entries=(replace(CHOSEN.entries[0], name="$a_1$"), *CHOSEN.entries[1:]))
    (axes,) = choice_figure(hostile).axes
    assert {text.get_text(): text.xy for text in axes.texts} == {
        "$a_1$": (1.0, 0.25), "second": (2.0, 0.5), "third": (3.0, 0.75), "fourth": (4.0, 0.7),
    }  # fmt: skip
    assert not any(text.get_parse_math() for text in axes.texts)
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    assert (lines["original, certified"].get_ydata()[0], lines["target"].get_ydata()[0]) == (0.875, 0.75)  # type: ignore[index]
    for label, x, y in (
        ("winner, certified", [3.0], [0.75]),
        ("certified, below the target", [2.0], [0.5]),
        ("Pareto edge", [1.0, 2.0, 3.0], [0.25, 0.5, 0.75]),
    ):
        assert (np.asarray(lines[label].get_xdata()).tolist(), np.asarray(lines[label].get_ydata()).tolist()) == (x, y)
    spreads = [segment.tolist() for bar in axes.collections for segment in bar.get_segments()]  # type: ignore[attr-defined]
    assert spreads == [[[1.0, 0.0], [1.0, 1.0]], [[4.0, 0.0], [4.0, 1.0]]]


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_picture_is_written_in_the_form_of_its_name(tmp_path: Path, form: str, start: bytes) -> None:
    draw_choice(CHOSEN, tmp_path / "new" / f"choice.{form}")
    assert (tmp_path / "new" / f"choice.{form}").read_bytes().startswith(start)
