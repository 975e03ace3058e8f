"""Progress in Python, events in the log, and tables in notebooks."""

import io
import logging
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import recert
from recert import Gaussian, Progress, progress
from recert.progress import about, part_of, shown
from tests.test_functions import Network, certify, points


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that only goes on when it is told."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.seconds)
    return now


def heard(show: Any, clock: Any, steps: int, seconds: float, task: str = "certifying") -> None:
    for step in range(steps):
        clock.seconds += seconds
        show(Progress(task, (step + 1) * 100, steps * 100))


def in_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


# ---- in Python ----


def test_short_work_is_silent_in_a_terminal(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = in_terminal(monkeypatch)
    with shown() as show:
        heard(show, clock, 10, 0.19)
    assert stream.getvalue() == ""


def test_long_work_is_shown_in_a_terminal_from_two_seconds_on(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = in_terminal(monkeypatch)
    with shown() as show:
        heard(show, clock, 10, 0.5, "racing [pruned] & more")
    text = stream.getvalue()
    assert "racing [pruned] & more" in text
    assert "1,000 of 1,000 passes, 200/s, 0:00 left" in text  # 100 rows in half a second


def test_asked_for_it_is_shown_at_once(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = in_terminal(monkeypatch)
    with shown(True) as show:
        heard(show, clock, 1, 0.1)
    assert "certifying" in stream.getvalue()


@pytest.mark.parametrize("given", [None, False])
def test_nothing_is_shown_without_a_terminal_or_where_it_is_not_wanted(
    given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is False:
        in_terminal(monkeypatch)
    with shown(given) as show:
        assert show is None


def test_lines_in_a_log_now_and_then(clock: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with shown(True) as show:
        heard(show, clock, 10, 10.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"certifying: {done} of 1,000 forward passes after {done // 10 - 10} s, 10/s, about {100 - done // 10} s left"
        for done in (500, 900)
    ]


def test_a_terminal_that_is_gone_does_not_end_the_work(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = in_terminal(monkeypatch)

    def gone(*_: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(progress, "_TerminalBar", lambda: SimpleNamespace(show=gone, close=gone))
    with shown() as show:
        heard(show, clock, 10, 1.0)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("given", "wanted"), [(None, True), (True, True), (False, False)])
def test_verbs_take_what_progress_takes(given: Any, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_OF_SHORT_WORK", 0.0)
    x, labels, cache = points(3), np.array([0, 0, 0]), certify(Network(), 3)
    exact: Any = {"method": "series", "plan": "uniform"}
    tasks = {
        "certifying": lambda: certify(Network(), 3, progress=given),
        "predicting": lambda: recert.predict(Network(), x, noise=Gaussian(0.5), samples=20, progress=given),
        "re-certifying": lambda: recert.recertify(Network(), x, cache, samples=50, **exact, progress=given),
        "baseline (fresh": lambda: recert.compare(
            Network(), x, cache, labels, budgets=[50], methods=["irs"], progress=given
        ),
        "auditing": lambda: recert.audit(Network(), x, cache, samples=20, progress=given),
        "a: racing": lambda: recert.select({"a": Network()}, x, cache, labels, samples=50, progress=given),
    }
    for task, work in tasks.items():
        stream = in_terminal(monkeypatch)
        work()
        assert (task in stream.getvalue()) is wanted, task
        assert wanted or not stream.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_the_bar_cuts_and_breaks_no_name_and_no_number(width: int, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = in_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", str(width))
    with shown(True) as show:
        for task in ("re-certifying (estimation noise)", "baseline (fresh noise)"):
            heard(about(part_of(2, 5, "prune:0.3+int8"), show), clock, 10, 1000, task)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).replace("\r", "\n")
    assert "…" not in text
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    assert all(len(line) <= width for line in lines)
    name, numbers = "2 of 5, prune:0.3+int8: re-certifying (estimation noise)", "1,000 of 1,000 passes, 0/s, 0:00 left"
    if width == 80:  # the name has a line of its own
        assert {name, f"{'━' * 12} {numbers}"} <= set(lines)
    else:
        assert f"{name} {'━' * 12} {numbers}" in lines
    # One bar at a time: what is done is not shown any more.
    assert text.rindex("re-certifying") < text.index("baseline")


def test_progress_says_which_of_how_many() -> None:
    x, labels, cache = points(3), np.array([0, 0, 0]), certify(Network(), 3)
    seen: list[str] = []
    recert.select(
        {"a": Network(), "b": Network()}, x, cache, labels, samples=50, progress=lambda e: seen.append(e.task)
    )
    assert list(dict.fromkeys(seen))[:2] == ["1 of 2, a: racing", "2 of 2, b: racing"]
    assert all(task.startswith(("1 of 2, a: ", "2 of 2, b: ")) for task in seen)


def test_other_values_are_refused() -> None:
    with pytest.raises(ValueError, match="progress as True, False, None or a function, got 'no'"):
        certify(Network(), 3, progress="no")


# ---- in a notebook ----


class Handle:
    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def update(self, html: str) -> None:
        self.shown.append(html)


def test_a_notebook_has_one_line_that_changes(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown_lines: list[str] = []
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))
    display = SimpleNamespace(HTML=str, display=lambda html, display_id: Handle(shown_lines))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with shown() as show:
        heard(show, clock, 100, 0.1, "racing <b>")
    assert 10 < len(shown_lines) < 40  # a few times in each second
    assert 'racing &lt;b&gt; <progress value="' in shown_lines[0]
    assert "10,000 of 10,000" in shown_lines[-2]
    assert "racing &lt;b&gt;: 0:0" in shown_lines[-1]
    assert not any("<b>" in line for line in shown_lines)


# ---- events ----


def test_the_log_tells_what_was_drawn_and_what_was_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "recert")
    certify(Network(), 3, batch_size=32, store=tmp_path)
    certify(Network(), 3, samples=400, batch_size=32, store=tmp_path)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("recert.")]
    assert {record.levelno for record in caplog.records} == {logging.INFO}  # of which Python prints nothing by itself
    assert "batches of 32 rows" in said
    assert any(line.startswith("certifying: drew 1200 votes in ") for line in said)
    assert "1200 of 1500 votes are kept from before" in said
    assert any(line.startswith("certifying: drew 300 votes in ") for line in said)


# ---- tables ----


class Cells(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_tables_of_caches_and_certificates(tmp_path: Path) -> None:
    cache = certify(Network(), 3, store=tmp_path / "a <script>b")
    cache.remember_names(model="<img src=x>")
    table = Cells(cache._repr_html_())
    assert table.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert "<img src=x>" in table.texts
    assert "300, and 100 to choose the class" in table.texts
    assert "0.001, two-sided" in table.texts
    certified = int(cache.certificates.certified.sum())
    assert any(f"{certified} certified" in text for text in table.texts)
    radius = Cells(cache.certificates._repr_html_()).texts
    mean = float(cache.certificates.radius.mean())
    shown_mean = next(float(text.split()[0]) for text in radius if "(0 where it abstains" in text)
    assert mean - 1e-4 < shown_mean <= mean
    assert any("with probability at least 0.999" in text for text in radius)


def test_the_table_of_an_unfinished_cache_says_so(tmp_path: Path) -> None:
    cache = certify(Network(), 3, store=tmp_path)
    for part in tmp_path.glob("part-*"):
        part.unlink()
    with pytest.warns(UserWarning, match="lacks"):
        table = recert.Cache.continue_or_create(
            cache.manifest, tmp_path, cache.digests, allow_numerics=False
        )._repr_html_()
    assert "votes missing" in table
    assert "1,200" in table
