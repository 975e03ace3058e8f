"""The page as text: what it says, how large it is, and that nothing in a result file can become code."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from recert.cli import main
from recert.data import load_data
from recert.models.numerics import Numerics
from recert.report import Result, write_result
from recert.report.alignment import align
from recert.report.figures import charts, write_figures
from recert.report.matching import add_data
from recert.report.page import render_page
from tests.report.conftest import SETTINGS, MakeResult

HOSTILE = """</script><script>window.hacked=1</script><img src=x onerror="hacked=1">"'><svg onload=hacked=1>{{ 7*7 }}"""
RADII = [0.25, 0.5, 1.0]


class Elements(HTMLParser):
    """Counts elements, and keeps ids, references to ids and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: dict[str, int] = {}
        self.ids: list[str] = []
        self.references: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] = self.names.get(tag, 0) + 1
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("aria-labelledby", "aria-describedby"):
                self.references |= set((value or "").split())
            if tag == "use" and name == "href":
                self.references.add((value or "").removeprefix("#"))
            if name == "clip-path":
                self.references.add((value or "").removeprefix("url(#").removesuffix(")"))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_what_holds_and_for_whom(make_result: MakeResult) -> None:
    page = render_page(
        align([make_result("base"), make_result("pruned", method="auto", alpha=0.002, error=0.002)]), RADII
    )
    words = " ".join(Elements(page).text.split())
    assert "1 changed model against the original" in words.lower()
    assert (
        "40 inputs; noise gaussian:0.5; one-sided certificates; method auto; each certificate is wrong with probability at most 0.002."
        in words
    )
    assert "with probability at least 0.999 over the noise drawn" in words
    assert "with probability at least 0.998 over the noise drawn" in words
    assert "about the population of which the 40 test inputs are a random sample" in words
    assert "may be wrong with probability at most 0.002, over the noise" in words
    assert "recert certify -o pruned.parquet" in words
    assert words.count(SETTINGS.model["weights"]) == 1  # what both share is said once
    assert "no result of --method scratch for the same model, noise, certificate and alpha is among these" in words


def test_a_certification_by_proxy_is_no_re_certification(make_result: MakeResult) -> None:
    costs = {"passes per input": "20500", "seconds": "3.21"}
    proxied = make_result("ours", method="auto", alpha=0.002, proxy={"made by": "int8", **costs})
    small = make_result("small", seed=1, method="scratch", alpha=0.002, passes=10)
    words = " ".join(Elements(render_page(align([proxied, small]), RADII)).text.split())
    passes = f"{proxied.certificates.mean_forward_passes:.0f}"
    assert (
        f"{passes} own forward passes per input, and 20,500 passes of a faster network (int8); 10.0 + 3.2 seconds in all" in words
    )  # fmt: skip
    assert "Certified at radius 0.5 means: predicted right, and no change of the input up to l2 distance 0.5," in words
    assert "re-certified" not in words
    assert "× as many" not in words
    assert "ours is drawn at its own passes: those of the faster network come on top." in words
    bare = render_page([make_result("r", method="auto", proxy={"made by": "int8"})], RADII)
    assert "own forward passes per input, and those of a faster network (int8)" in bare


def test_ids_are_unique_and_references_lead_somewhere(make_result: MakeResult) -> None:
    page = Elements(
        render_page(align([make_result("a"), make_result("b", method="auto"), make_result("c", method="auto")]), RADII)
    )
    assert any(name.startswith("accuracy-0-m") for name in page.references), "shapes of marks"
    assert any(name.startswith("cost-p") for name in page.references), "clip paths"
    assert len(set(page.ids)) == len(page.ids)
    assert page.references <= set(page.ids)


@pytest.mark.filterwarnings("error")
def test_unusual_results_have_charts_too(make_result: MakeResult) -> None:
    usual = make_result("usual")
    c = usual.certificates
    nothing = np.zeros(40)
    unusual = {
        "all are wrong": [replace(usual, labels=np.full(40, 11))],
        "all abstained": [replace(usual, certificates=replace(c, radius=nothing, prediction=nothing - 1, top_lower=nothing))],
        "one input": [make_result("one", 1)],
        "nothing was spent": [make_result("a", passes=0), make_result("b", passes=0, method="scratch")],
        "costs far apart": [make_result("a", passes=1), make_result("b", passes=10**9, method="scratch")],
        "many": [make_result(f"m{i}", seed=i, method="auto") for i in range(10)],
        "a name that is empty": [make_result(""), make_result("_b", method="auto")],
    }  # fmt: skip
    for name, results in unusual.items():
        assert render_page(align(results), RADII).count("</desc>") >= 1 + (name != "all abstained"), name


def test_a_page_without_labels_says_why_it_has_no_accuracies(make_result: MakeResult) -> None:
    words = " ".join(Elements(render_page([make_result("r", labelled=False)], RADII)).text.split())
    assert "No accuracies." in words
    assert "--data SPEC" in words
    assert "Smoothed accuracy" not in words
    assert "ertified accuracy at 0.25" not in words


def hostile(make_result: MakeResult) -> list[Result]:
    """Two results in which every text that a file can hold is hostile."""
    texts = {
        "noise": HOSTILE,
        "certificate": HOSTILE,
        "model": {HOSTILE: HOSTILE, "weights": HOSTILE},
        "numerics": Numerics.from_text({HOSTILE: HOSTILE}),
        "proxy": {"made by": HOSTILE},
    }
    results = [make_result(HOSTILE), make_result(HOSTILE + "2", method="auto")]
    return [
        replace(
            result,
            command=f"{HOSTILE} {result.name}",
            certificates=replace(
                result.certificates,
                settings=replace(result.certificates.settings, **texts),
                input=np.array([f"{i}{HOSTILE}" for i in range(40)], dtype=object),
            ),
        )
        for result in results
    ]


def test_no_text_of_a_result_becomes_markup(make_result: MakeResult) -> None:
    proxy = {"made by": "int8"}
    tame = Elements(render_page([make_result("a", proxy=proxy), make_result("b", method="auto", proxy=proxy)], RADII))
    page = render_page(hostile(make_result), RADII)
    wild = Elements(page)
    assert wild.names == tame.names
    assert wild.attributes == tame.attributes
    assert HOSTILE in wild.text  # shown as it is
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert data is not None
    assert "<" not in data[1]
    assert len(json.loads(data[1])["results"]) == 2


def test_five_hundred_inputs_with_the_hardest_pictures_stay_under_two_megabytes(
    make_result: MakeResult, pictures: Callable[[int], Path]
) -> None:
    results = [make_result("base", 500), *(make_result(f"m{i}", 500, seed=i, method="auto") for i in range(5))]
    known, shown = add_data(align(results), load_data(str(pictures(500))))
    page = render_page(known, RADII, shown)
    sprite = shown.sprite(np.arange(500))
    assert sprite is not None
    assert page.count(sprite.uri) == 1
    assert len(page.encode()) < 2_000_000


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["recert", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), " ".join(capsys.readouterr().err.split())

    return run


def test_the_command_writes_the_same_page_every_time_or_one_clear_line(
    make_result: MakeResult, pictures: Callable[[int], Path], tmp_path: Path, call: Callable[..., tuple[int, str]]
) -> None:
    files = [tmp_path / f"{name}.parquet" for name in ("base", "int8")]
    write_result(make_result("base", labelled=False), files[0])
    write_result(make_result("int8", method="auto", labelled=False), files[1])
    code, said = call(*files, "-o", tmp_path / "new" / "a.html", "--data", pictures(40))
    assert (code, "open it in any browser" in said) == (0, True)
    call(*files, "-o", tmp_path / "b.html", "--data", pictures(40))
    assert (tmp_path / "new" / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert "Certified accuracy at 0.25" in (tmp_path / "b.html").read_text()  # labels came with the data
    code, said = call(*files, "-o", tmp_path / "c.html")
    assert (code, "give --data SPEC to have them" in said) == (0, True)
    code, said = call(
        *files, "-o", tmp_path / "d.html", "--data", pictures(40), "--require", "acr>=9", "--require", "abstained<=1"
    )
    assert code == 0  # the page says it; what asked for it decides
    assert "int8: not met: acr>=9 (it is" in said
    assert "base: met: abstained<=1 (it is" in said
    assert "✗ ACR: " in (tmp_path / "d.html").read_text()
    assert call(*files, "--require", "beauty>=1")[0] == 1
    (tmp_path / "x.parquet").write_text("hello")
    assert call(tmp_path / "x.parquet") == (1, f"error: expected a result that certify or recertify wrote with -o FILE.parquet, or a cache, got a file that is not Parquet: {tmp_path / 'x.parquet'}")  # fmt: skip


def test_reporting_does_not_load_torch(make_result: MakeResult, tmp_path: Path) -> None:
    write_result(make_result("r", 5), tmp_path / "r.parquet")
    program = (
        "import sys; from recert.cli import app\n"
        "try: app(['report', sys.argv[1], '-o', sys.argv[2]])\n"
        "except SystemExit as stop: sys.exit(stop.code or 'torch' in sys.modules)"
    )
    arguments = [str(tmp_path / "r.parquet"), str(tmp_path / "r.html")]
    assert subprocess.run([sys.executable, "-c", program, *arguments]).returncode == 0
    assert (tmp_path / "r.html").exists()


def test_every_chart_is_also_a_figure(make_result: MakeResult, tmp_path: Path) -> None:
    results = align(
        [make_result("base"), make_result("int8", method="auto", alpha=0.001), make_result("s", method="scratch")]
    )
    files = write_figures(results, tmp_path)
    names = {
        "passes", "certified-accuracy-int8", "flips-int8", "acr-against-cost", "vote-bounds", "flips", "forward-passes"
    }  # fmt: skip
    assert {(f.stem, f.suffix) for f in files} == {(name, form) for name in names for form in (".pdf", ".svg", ".png")}
    assert all(f.stat().st_size > 2_000 for f in files)
    alone = write_figures([make_result("base")], tmp_path / "alone")  # nothing was compared, replayed or shared out
    assert {f.stem for f in alone} == {"certified-accuracy", "vote-bounds"}


def test_the_demo_ends_with_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from recert.cli import demo

    monkeypatch.setattr(demo, "CHANGES", ("prune:0.1",))
    demo.demo(folder=tmp_path / "demo", samples=1_000, count=4)
    words = Elements((tmp_path / "demo" / "report.html").read_text()).text
    assert "4 inputs of digits test" in words
    assert "certified at radius 0.5 for the original, the change to prune:0.1 loses" in " ".join(words.split())
    assert "7 baseline results, certified anew" in words
    assert "report.html" in capsys.readouterr().err
    assert len(list((tmp_path / "demo" / "from-scratch").glob("*.parquet"))) == 7


def test_of_results_decided_at_a_radius_nothing_else_is_said(make_result: MakeResult) -> None:
    base, whole = make_result("base"), make_result("whole", seed=1, method="auto")
    decided = make_result("decided", seed=2, method="sequential-replays", at=(0.3,))
    c = decided.certificates
    decided = replace(decided, certificates=replace(c, radius=np.where(c.radius >= 0.3, 0.3, 0.0)))
    words = " ".join(Elements(render_page(align([base, decided, whole]), RADII)).text.split())
    cards = words[words.index("Details: decided, beside") : words.index("Details: whole, beside")]
    assert "Every input was decided at 0.3: of other radii nothing is known." in cards
    assert "Certified accuracy at 0.3" in cards
    assert "Certified accuracy at 0.5" not in cards
    assert "Average certified radius" not in cards
    assert "Certified at radius 0.3 means" in words
    assert "Certified accuracy at 0.5" in words[words.index("Details: whole, beside") :]
    assert [chart.title for chart in charts(align([base, decided, whole])).accuracy] == ["whole"]


def test_no_column_of_a_table_is_empty(make_result: MakeResult) -> None:
    scratch = [make_result(f"s{n}", method="scratch", passes=n, seed=n) for n in (100, 200, 300)]
    scratch[0] = replace(scratch[0], certificates=replace(scratch[0].certificates, radius=np.zeros(40)))
    page = render_page(align([make_result("base"), make_result("int8", method="auto"), *scratch]), RADII)
    headings = [Elements(head).text for head in re.findall("<thead>.*?</thead>", page, re.S)]
    of_all, of_baselines = (h for h in headings if "ACR" in h)
    assert "Flipped" in of_all
    assert "Certifying anew" in of_all
    assert "Method" not in of_all
    assert "Flipped" not in of_baselines
    assert "Certifying anew" not in of_baselines
