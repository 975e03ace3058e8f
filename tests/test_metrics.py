"""Metrics against published per-image logs and against sums by hand."""

from pathlib import Path

import numpy as np
import pytest

from recert import bounds, metrics
from recert.radius import one_sided_radius

LOGS = {0.25: (0.4240, 795), 0.50: (0.5251, 1523)}


def published_log(folder: Path, sigma: float) -> dict[str, np.ndarray]:
    rows = (folder / "certify_logs" / f"cifar10_resnet110_sigma_{sigma:.2f}.tsv").read_text().split("\n")
    names = rows[0].split("\t")
    table = [row.split("\t") for row in rows[1:] if row]
    return {name: np.array([row[i] for row in table]) for i, name in enumerate(names)}


@pytest.mark.parametrize("sigma", LOGS)
def test_published_logs(test_data: Path, sigma: float) -> None:
    log = published_log(test_data, sigma)
    labels, predictions = log["label"].astype(int), log["predict"].astype(int)
    radii, correct = log["radius"].astype(float), log["correct"].astype(int)
    acr, abstentions = LOGS[sigma]
    assert len(labels) == 10_000
    assert metrics.average_certified_radius(predictions, radii, labels) == pytest.approx(acr, abs=5e-5)
    assert metrics.abstention_rate(predictions) == abstentions / 10_000
    assert metrics.smoothed_accuracy(predictions, labels) == pytest.approx(correct.mean())
    expected = [(correct * (radii >= r)).mean() for r in (0, 0.25, 0.5)]
    assert metrics.certified_accuracy(predictions, radii, labels, [0, 0.25, 0.5]) == pytest.approx(expected)


@pytest.mark.parametrize("sigma", LOGS)
def test_published_radii_lie_on_our_lattice(test_data: Path, sigma: float) -> None:
    """Every radius is one of the 100,001 values that K of N = 100,000 votes can give at alpha = .001."""
    log = published_log(test_data, sigma)
    radii = np.unique(log["radius"][log["predict"] != "-1"])
    lattice = one_sided_radius(bounds.clopper_pearson_lower(np.arange(50_000, 100_001), 100_000, 0.001), sigma)
    lattice = lattice[lattice > 0]
    checked = 0
    for printed in radii:
        value = float(printed)
        unit = 10.0 ** -len(printed.partition(".")[2])
        right = int(np.searchsorted(lattice, value))
        around = lattice[max(0, right - 2) : right + 2]
        if np.diff(around).min(initial=np.inf) > 2 * unit:
            checked += 1
            assert np.abs(lattice - value).min() <= unit / 2 + 1e-9, printed
    assert checked >= 10


def test_speedups_by_hand() -> None:
    ours, baseline = ([1, 2, 4], [0.40, 0.44, 0.48]), ([2, 6, 10], [0.40, 0.44, 0.50])
    # common range .40 to .48; areas by trapezoids: ours .06 + .12, baseline .16 + .04 * (6 + 8.666667) / 2
    by_area = metrics.speedup_by_area(*ours, *baseline)
    assert float(by_area) == pytest.approx((0.16 + 0.04 * (6 + 26 / 3) / 2) / 0.18)
    by_ratio = metrics.speedup_by_ratio(*ours, *baseline)
    assert float(by_ratio) == pytest.approx((2 / 1 + 6 / 2 + (26 / 3) / 4) / 3)


def test_equal_curves_have_speed_up_one() -> None:
    curve = ([1, 2, 4], [0.3, 0.4, 0.45])
    assert float(metrics.speedup_by_area(*curve, *curve)) == 1.0
    assert float(metrics.speedup_by_ratio(*curve, *curve)) == 1.0


@pytest.mark.parametrize("speedup", [metrics.speedup_by_area, metrics.speedup_by_ratio])
def test_no_common_range_is_no_number(speedup: type) -> None:
    answer = speedup([1, 2], [0.1, 0.2], [1, 2], [0.3, 0.4])
    assert answer.value is None
    assert "no common ACR range: 0.1000 to 0.2000 against 0.3000 to 0.4000" in str(answer)
    with pytest.raises(ValueError, match="no common ACR range"):
        float(answer)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="one prediction, radius and label per input"):
        metrics.average_certified_radius([1, 2], [0.1, 0.2], [1])
    with pytest.raises(ValueError, match="positive finite costs"):
        metrics.speedup_by_area([0, 1], [0.1, 0.2], [1, 2], [0.1, 0.2])


def test_what_a_radius_costs_is_read_between_the_points_of_a_curve() -> None:
    costs, radii = [400.0, 100.0, 200.0], [0.6, 0.2, 0.4]
    assert metrics.cost_at(0.5, costs, radii) == pytest.approx(300.0)
    assert metrics.cost_at(0.1, costs, radii) == 100.0
    assert metrics.cost_at(0.7, costs, radii) is None
    assert metrics.cost_at(0.0, [0.0], [0.0]) is None  # nothing certified
