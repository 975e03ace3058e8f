"""The figure of what select found: every candidate at its cost and value."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text

from recert.choosing import Status
from recert.figures.choice import choice_figure, draw_choice
from tests.choosing.test_result import CHOSEN, entry


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


def test_names_cover_no_other_names_and_no_marks() -> None:
    """Ten candidates whose costs and values are close together, as approximations of one network are."""
    names = ("int8", "bf16", "fp16-weights", "prune:0.1", "prune:0.2", "prune:0.3", "prune:0.3+int8", "prune-layer:0.2", "original", "mynets:cnn@fine.safetensors")  # fmt: skip
    costs = (38, 76, 76, 152, 148, 140, 36, 139, 152, 150)
    values = 0.80 - 0.01 * np.random.default_rng(0).random(10)
    entries = tuple(
        entry(name, cost, value, None if i % 2 else value, status=Status.DROPPED if i % 2 else Status.NOT_CERTIFIED)
        for i, (name, cost, value) in enumerate(zip(names, costs, values, strict=True))
    )
    figure = choice_figure(replace(CHOSEN, entries=entries, base=0.80, tolerance=0.01))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    # Of the text alone: that of an annotation has the line to its mark in it.
    boxes = {text.get_text(): Text.get_window_extent(text) for text in axes.texts}
    assert set(boxes) == set(names)
    marks = axes.transData.transform(list(zip(costs, values, strict=True)))
    for name, box in boxes.items():
        assert not [other for other in names if other != name and box.overlaps(boxes[other])], name
        assert not [mark for mark in marks if box.contains(*mark)], name
        assert axes.bbox.contains(box.x0, box.y0)
        assert axes.bbox.contains(box.x1, box.y1)
