"""Progress of drawing without a terminal: a line now and then."""

import io

import pytest
from rich.console import Console

import recert
from studies import progress


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now, text = 0.0, io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    lines = progress.Lines(Console(file=text, width=200))
    for now in (0.0, 10.0, 20.0, 40.0, 50.0, 60.0):
        lines.show(recert.Progress("drawing", int(10 * now), 1_000))
    assert text.getvalue() == "drawing: 400 of 1,000 forward passes after 40 s, 10/s, about 60 s left\n"


def test_without_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown_progress() as show:
        show(recert.Progress("drawing", 1, 2))
    assert capsys.readouterr().err == ""
