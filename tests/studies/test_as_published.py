"""The paper's own measure, on the committed results and by hand."""

from pathlib import Path

import pytest

from studies.as_published import as_published, behind, cells, in_passes, in_seconds
from studies.results import write_result
from studies.tables import Found

RESULTS = Path(__file__).parents[2] / "results"


def test_published_by_the_authors_measure() -> None:
    """Made by another program from the same curves: 100 places, over the baseline with n_p / 100 selection votes."""
    found = Found("speedup", RESULTS)
    expected = {"fp16": 7.73, "bf16": 6.86, "int8-twin": 4.17, "prune:0.1": 5.75, "prune:0.2": 4.12}
    for change, value in expected.items():
        assert in_passes(found.get("cifar-resnet110", "1.0", change), "auto one-sided") == pytest.approx(
            value, abs=0.005
        )


def test_where_recert_is_behind_is_said() -> None:
    text = behind(RESULTS)
    assert text.count("\n- ") == 2
    assert "int8 (twin), n = 100,000 (headline): 2.33 against 4.10" in text
    assert "int8 (twin), n = 1,000,000 (samples): 5.04 against 5.85" in text


def made(folder: Path, change: str = "fp16", ours: float = 1.0) -> None:
    """Two straight lines from ACR .4 to .5, the baseline twice as dear; a second of computing for 10 images each."""
    curve = {"budgets": [100, 200], "passes": [100.0, 200.0], "ACR": [0.4, 0.5]}
    dear = curve | {"passes": [200.0, 400.0]}
    names = {"irs one-sided": curve, "auto one-sided": curve, "scratch-authors one-sided": dear}
    write_result(folder / "speedup", "cell", {
        "settings": {"network": "cifar-resnet110", "sigma": 1.0, "approximation": change, "samples": 10_000, "images": 10},
        "changed": {"seconds per pass": 0.001}, "curves": names, "computing seconds": dict.fromkeys(names, 1.0),
        "speedups": {"auto one-sided over scratch one-sided": {"by area": {"value": ours, "reason": ""}}},
    })  # fmt: skip


def test_passes_and_seconds_by_hand(tmp_path: Path) -> None:
    """Passes: 2 everywhere. Seconds: .1 of computing beside .1 to .2, and beside .2 to .4, of passes."""
    made(tmp_path)
    found = Found("speedup", tmp_path)
    result = found.get("cifar-resnet110", "1.0", "fp16")
    assert in_passes(result, "auto one-sided") == pytest.approx(2)
    seconds = sum((0.3 + 0.2 * i / 99) / (0.2 + 0.1 * i / 99) for i in range(100)) / 100
    assert in_seconds(result, "auto one-sided") == pytest.approx(seconds)
    assert cells(found, "cifar-resnet110", "1.0", "fp16") == [
        "fp16",
        "3.02",
        "2.00",
        "2.00",
        f"{seconds:.2f}",
        f"{seconds:.2f}",
    ]
    assert "sigma 1.0, forward passes: recert 2.00 to 2.00, irs 2.00 to 2.00" in as_published(tmp_path)
    assert "n = 10,000 (speedup): 1.00 against 3.02" in behind(tmp_path)
    assert "quantised nothing" not in behind(tmp_path)  # which would not explain fp16


def test_the_twin_has_no_seconds_of_int8(tmp_path: Path) -> None:
    made(tmp_path, "int8-twin", ours=9.0)
    assert cells(Found("speedup", tmp_path), "cifar-resnet110", "1.0", "int8-twin")[-2:] == ["—", "—"]
    assert behind(tmp_path) == ""


def test_without_results_nothing_is_made_up(tmp_path: Path) -> None:
    assert "recert 0" not in as_published(tmp_path)
    assert behind(tmp_path) == ""
