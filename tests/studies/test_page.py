"""The page of results says what the JSON files say, and what the paper says."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, norm

from recert.figures import RECERT
from studies import STUDIES
from studies.cost_sections import speedup_text
from studies.csv_tables import csv_files, tables_in
from studies.figures import _costs, panels_by_figure
from studies.folded import HEADINGS
from studies.page import page, section
from studies.results import write_result
from studies.sections import SECTIONS
from studies.summary import in_short
from studies.tables import NOT_RUN, Found
from tests.studies.test_command_line import call

ROOT = Path(__file__).parents[2]
REAL = ROOT / "tests" / "real_votes" / "votes.npz"
PAPER = ROOT / "studies" / "paper.json"


AGAIN = "run: python -m studies.page"


def test_the_committed_page_is_made_from_the_committed_results() -> None:
    assert (ROOT / "docs" / "results.md").read_text() == page(ROOT / "results"), AGAIN


def test_the_committed_tables_are_made_from_the_committed_results() -> None:
    committed = {path.name: path.read_text() for path in (ROOT / "results" / "tables").glob("*.csv")}
    assert committed == csv_files(ROOT / "results"), AGAIN


def test_every_study_has_a_section_and_a_sentence_and_is_on_the_page() -> None:
    assert set(SECTIONS) == set(STUDIES) == set(HEADINGS)
    assert all(study.sentence.endswith(".") for study in STUDIES.values())


def in_view(text: str) -> str:
    """The page without what is folded."""
    return re.sub(r"<details.*?</details>", "", text, flags=re.S)


def row(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_without_results_nothing_is_made_up(tmp_path: Path) -> None:
    cells = row(section("speedup", tmp_path), "| ResNet-110 | 1.0 | fp16 |")
    assert cells.count(NOT_RUN) == 10
    assert cells[3] == "3.02"
    text = page(tmp_path)
    assert row(text.partition("### Sigma 1.0")[2], "| fp16 |") == ["fp16", "3.02", NOT_RUN, NOT_RUN, "—", "—"]
    assert f"Sigma 1.0: {NOT_RUN}." in text
    assert "figures/" not in text
    assert not re.search(r"were too high|times fewer forward passes than certifying anew\.\*\*", text)


def written(folder: Path, network: str = "cifar-resnet110", study: str = "speedup", change: str = "fp16") -> None:
    def speedup(value: float | None) -> dict[str, dict[str, object]]:
        found = {"value": value, "reason": "made for a test"}
        return {"by area": found, "by ratio": found, "by area, baseline as in the paper": found}

    curve = {"budgets": [100], "passes": [80.0], "ACR": [0.4], "accuracy": {}, "abstained": [0.0]}
    names = ["irs one-sided", "auto one-sided", "auto two-sided", "scratch one-sided", "scratch-cached one-sided"]
    names += ["series one-sided", "paired one-sided"]
    numerics = {"device": "cuda", "dtype": "float16"}
    write_result(folder / study, f"cell-{network}", {
        "settings": {"network": network, "sigma": 1.0, "approximation": change, "samples": 10_000, "images": 250, "budgets": [100]},
        "original": {"ACR": {"one-sided": 0.5, "two-sided": 0.6}}, "changed": {"numerics": numerics, "seconds per pass": 1e-5},
        "curves": {**dict.fromkeys(names, curve), "scratch one-sided": curve | {"passes": [2_000.0]}},
        "computing seconds": dict.fromkeys(names, 0.5),
        "speedups": {"irs one-sided over scratch one-sided": speedup(2.5), "auto one-sided over scratch one-sided": speedup(6.0),
                     "auto two-sided over scratch two-sided": speedup(None)},
    })  # fmt: skip


def test_a_result_appears_in_its_cell_with_its_ratio(tmp_path: Path) -> None:
    written(tmp_path)
    cells = row(section("speedup", tmp_path), "| ResNet-110 | 1.0 | fp16 |")
    assert cells[3:5] == ["3.02", "2.50"]
    assert cells[8:10] == ["6.00", "2.40"]  # auto, and auto / irs
    assert cells[11] == "—"
    assert cells[-2:] == ["250", "cuda, float16"]
    text = page(tmp_path)
    assert row(in_view(text).partition("### Sigma 1.0")[2], "| fp16 |") == [
        "fp16",
        "3.02",
        "2.50",
        "6.00",
        "2.40",
        "250",
    ]
    short = in_short(tmp_path)
    assert "Sigma 1.0: 6.00 to 6.00 times fewer" in short
    assert "2.50 to 2.50 run here, 3.02 to 3.02 as published" in short
    files = {name: list(csv.DictReader(io.StringIO(content))) for name, content in csv_files(tmp_path).items()}
    found = next(
        line
        for line in files["speedup.csv"]
        if (line["network"], line["change"], line["images"]) == ("ResNet-110", "fp16", "250")
    )
    assert (found["paper: IRS"], found["auto"], found["numerics"]) == ("3.02", "6.00", "cuda, float16")
    cost = next(line for line in files["costs.csv"] if line["method"] == "auto one-sided")
    assert (
        cost["forward passes per image"],
        cost["ms of forward passes per image"],
        cost["ms of planning and bounds per image"],
    ) == ("80", "0.80", "2.00")


def test_networks_of_imagenets_classes_stand_beside_the_papers(tmp_path: Path) -> None:
    assert "ImageNet's classes" not in page(tmp_path)
    assert "Nothing is claimed" in page(tmp_path)
    for study, change in (("speedup", "fp16"), ("headline", "int8-twin")):
        written(tmp_path, "tiny-resnet50", study, change)
    numerics = {"numerics": {"device": "cuda"}, "description": "trained with gaussian:1.0"}
    settings = {"network": "tiny-resnet50", "sigma": 1.0, "approximation": "original", "images": 250, "samples": 10_000}
    write_result(
        tmp_path / "accuracy", "cell", {"settings": settings, "smoothed": 0.321, "standard": 0.25, "changed": numerics}
    )
    text = page(tmp_path)
    ours = text.partition("## And for ImageNet's classes?")[2].partition("\n## ")[0]
    assert "### ResNet-50 (Tiny ImageNet, 64 x 64, 200 classes, our weights)" in ours
    assert row(ours, "| fp16 | 1.43") == [
        "fp16",
        "1.43",
        "2.50",
        "6.00",
        "2.40",
        "250",
    ]  # beside the paper's for sigma 1
    assert "Sigma 1.0: smoothed accuracy 32.1%, without noise 25.0% (250 images; trained with gaussian:1.0)" in ours
    assert "published 1.33, irs 2.50, recert 6.00" in ours
    assert "by the measure of the authors, and in seconds" in ours
    assert row(ours.partition("in seconds</summary>")[2], "| fp16 |")[:2] == ["fp16", "1.43"]
    assert row(ours, "| pruned by 20% | 0.87 | 0.87") == ["pruned by 20%", "0.87", "0.87", "1.01"]
    assert {len(rows[0]) for rows in tables_in(in_view(text))} <= {6}
    assert "Nothing is claimed" not in text
    assert "our weights), sigma 1.0: 6.00 to 6.00 times fewer passes; the paper's method 2.50 to 2.50" in in_short(
        tmp_path
    )
    for figure in ("speedup-tiny-resnet50-1.0-n10000.svg", "headline-tiny-resnet50-1.0-n10000.svg"):
        assert f"/figures/{figure})" in text
    assert row(section("speedup", tmp_path), "| ResNet-50 (ImageNet, the paper's) | 0.5 | fp16 |")[3:5] == ["1.20", "—"]


def test_gamma_as_published_is_what_scipy_gives(tmp_path: Path) -> None:
    """irs by hand on real votes, one-sided: replays below the threshold, new votes above it."""
    options = [
        "--full",
        "--networks",
        "cifar-resnet20",
        "--approximations",
        "int8-twin",
        "--samples",
        "2000",
        "--count",
        "30",
        "--no-figures",
    ]
    code, _, said = call("gamma-as-published", *options, "--votes", str(REAL), "--out", str(tmp_path))
    assert code == 0, said
    result = json.loads((tmp_path / "gamma-as-published" / "cifar-resnet20-0.5-int8-twin-n2000.json").read_text())
    assert result["settings"]["budgets"] == [20 * share for share in range(1, 11)]
    with np.load(REAL) as file:
        before, after, labels = (file[name][:30] for name in ("fp32", "int8", "labels"))
    gamma, radii = 0.95, []
    for size in result["settings"]["budgets"]:
        radius = 0.0
        for f, changed, label in zip(before, after, labels, strict=True):
            top, cached, replayed, fresh = np.bincount(f[:500]).argmax(), f[500:2500], changed[500:], changed[-1000:]
            lower = beta.ppf(0.001, (k := (cached == top).sum()), 2001 - k)
            if lower <= 0.5 or top != label:
                continue
            if lower < gamma:
                flips = (cached[:size] != replayed[:size]).sum()
                lower -= beta.ppf(0.999, flips + 1, size - flips)
            else:
                lower = beta.ppf(0.002, (k := (fresh[:size] == top).sum()), size + 1 - k)
            radius += 0.5 * norm.ppf(lower) / 30 if lower > 0.5 else 0.0
        radii.append(radius)
    assert result["ACR"]["0.95"] == pytest.approx(radii, rel=1e-4)
    cells = row((tmp_path / "gamma-as-published.md").read_text(), "| ResNet-20 | int8-twin |")
    assert cells[2:4] == ["2,000", "20 to 200"]
    assert float(cells[5]) == pytest.approx(np.mean(radii), abs=1e-4)


def test_figures_say_what_is_seen(tmp_path: Path) -> None:
    written(tmp_path)
    text = in_view(page(tmp_path))
    seen, caption = re.search(
        r"!\[(.*?)\]\(\.\./.*?/figures/speedup-cifar-resnet110-1.0-n10000.svg\)\]\(.*\)\n\n\*(.*?)\*\n", text
    ).groups()  # type: ignore[union-attr]
    assert "certifying anew reaches 0.400 with 2,000 passes, recert with 80" in seen
    assert "ResNet-110, sigma 1.0, n = 10,000, 250 images: fp16" in caption


def test_figures_of_costs_look_as_those_of_reports(tmp_path: Path) -> None:
    """Passes to the right, radius up; recert is bold and in its colour, everything else is thinner and in others."""
    written(tmp_path)
    (group,) = [g for name, g in panels_by_figure(Found("speedup", tmp_path)).items() if "resnet110-1.0" in name]
    axes = _costs([*group, *group]).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("forward passes per image", "average certified radius")
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert (list(lines["Cohen"].get_xdata()), list(lines["Cohen"].get_ydata())) == ([2_000.0], [0.4])
    ours = [line for name, line in lines.items() if name.startswith("recert")]
    others = [line for name, line in lines.items() if not name.startswith("recert")]
    assert ours
    assert others
    assert {line.get_color() for line in ours} == {RECERT.colour}
    assert RECERT.colour not in {line.get_color() for line in others}
    assert min(line.get_linewidth() for line in ours) > max(line.get_linewidth() for line in others)


def test_what_is_in_view_is_short_and_has_six_columns() -> None:
    shown = in_view((ROOT / "docs" / "results.md").read_text())
    assert len(shown.splitlines()) < 200
    assert {len(rows[0]) for rows in tables_in(shown)} == {6}
    assert shown.count("### Sigma") == 3
    assert "9 of 69,950 bounds were too high; up to 140 expected" in shown


def test_a_curve_beyond_the_baseline_has_a_bound_instead_of_a_number() -> None:
    curves = {"near": {"ACR": [0.3, 0.4], "passes": [100.0, 200.0]}, "far": {"ACR": [0.5, 0.6], "passes": [10.0, 20.0]}}
    result = {"curves": curves, "speedups": {}}
    assert speedup_text(result, "far", "near") == "> 20.0"
    assert speedup_text(result, "near", "far") == "< 0.05"
    assert speedup_text(result, "near", "missing") == "—"
    assert speedup_text(None, "far", "near") == NOT_RUN


def test_rounded_weights_have_a_panel_of_their_own_only_where_nothing_computes_in_that_type(tmp_path: Path) -> None:
    for change in ("prune:0.1", "fp16-weights", "bf16-weights", "fp16", "int8-twin"):
        settings = {"network": "digits", "sigma": 0.5, "approximation": change, "samples": 100}
        write_result(tmp_path / "speedup", change.replace(":", "-"), {"settings": settings})
    shown = [
        [r["settings"]["approximation"] for r in group]
        for group in panels_by_figure(Found("speedup", tmp_path)).values()
    ]
    assert shown == [["fp16", "int8-twin", "prune:0.1"], ["bf16-weights"]]


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("speedup", "cells", "cifar-resnet110", "1.0", "fp16"), 3.02),
        (("speedup", "cells", "cifar-resnet110", "1.0", "prune:0.2"), 1.63),
        (("samples", "cells", "1000000", "1.0", "int8"), 5.85),
        (("disparity", "cells", "imagenet-resnet50", "0.5", "prune:0.2"), 0.09),
        (("gamma", "cells", "cifar-resnet20", "0.99"), 0.446),
        (("accuracy", "smoothed", "cells", "cifar-resnet110", "0.5", "bf16"), 68.0),
        (("headline", "cells", "cifar-resnet110", "speedup"), 4.1),
    ],
)
def test_numbers_of_the_paper(keys: tuple[str, ...], value: float) -> None:
    published = json.loads(PAPER.read_text())
    for key in keys:
        published = published[key]
    assert published == value


def test_help_and_the_list_of_studies_do_not_load_torch() -> None:
    program = "import sys; from studies import STUDIES; import studies.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0
