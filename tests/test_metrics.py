"""Metrics against published per-image logs and against sums by hand."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from statsmodels.stats.proportion import proportion_confint

from recert import Gaussian, bounds, metrics

SIGMAS = (0.25, 0.50)
PUBLISHED = {0.25: (0.4240, 795), 0.50: (0.5251, 1523)}
"""ACR and abstentions of the published logs, as their authors state them."""


@dataclass(frozen=True)
class Log:
    """A certification log in the field's form: texts by column, and how many votes each radius comes from."""

    columns: dict[str, np.ndarray]
    samples: int
    published: bool


@pytest.fixture(params=SIGMAS)
def log(request: pytest.FixtureRequest, real_votes: dict[str, np.ndarray]) -> tuple[Log, float]:
    """Cohen et al.'s published logs where RECERT_TEST_DATA names them; else real votes, certified as their code does it."""
    sigma = request.param
    file = Path(os.environ.get("RECERT_TEST_DATA", "")) / "certify_logs" / f"cifar10_resnet110_sigma_{sigma:.2f}.tsv"
    if not file.is_file():
        return made_of(real_votes, sigma), sigma
    rows = [row.split("\t") for row in file.read_text().split("\n") if row]
    columns = {name: np.array([row[i] for row in rows[1:]]) for i, name in enumerate(rows[0])}
    return Log(columns, 100_000, published=True), sigma


def made_of(votes: dict[str, np.ndarray], sigma: float) -> Log:
    """By statsmodels' interval, which the field's scripts use, with digits enough to tell neighbouring values apart."""
    labels, samples = votes["labels"], 9_900
    rows = []
    for label, row in zip(labels, votes["fp32"], strict=True):
        c = int(np.bincount(row[:100]).argmax())
        lower = proportion_confint(int((row[100:] == c).sum()), samples, alpha=2 * 0.001, method="beta")[0]
        predict, radius = (c, sigma * norm.ppf(lower)) if lower > 0.5 else (-1, 0.0)
        rows.append((str(label), str(predict), f"{radius:.9f}", str(int(predict == label))))
    names = ("label", "predict", "radius", "correct")
    return Log({name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}, samples, False)  # fmt: skip


def test_logs_of_others(log: tuple[Log, float]) -> None:
    (table, sigma), columns = log, log[0].columns
    labels, predictions = columns["label"].astype(int), columns["predict"].astype(int)
    radii, correct = columns["radius"].astype(float), columns["correct"].astype(int)
    assert metrics.average_certified_radius(predictions, radii, labels) == pytest.approx((radii * correct).mean())
    assert metrics.abstention_rate(predictions) == (columns["predict"] == "-1").mean()
    assert metrics.smoothed_accuracy(predictions, labels) == pytest.approx(correct.mean())
    expected = [(correct * (radii >= r)).mean() for r in (0, 0.25, 0.5)]
    assert metrics.certified_accuracy(predictions, radii, labels, [0, 0.25, 0.5]) == pytest.approx(expected)
    if table.published:
        acr, abstentions = PUBLISHED[sigma]
        assert metrics.average_certified_radius(predictions, radii, labels) == pytest.approx(acr, abs=5e-5)
        assert (len(labels), metrics.abstention_rate(predictions)) == (10_000, abstentions / 10_000)


def test_radii_of_others_lie_on_our_lattice(log: tuple[Log, float]) -> None:
    """Every radius is one of the values that K of N votes can give at alpha = .001."""
    (table, sigma), columns = log, log[0].columns
    radii = np.unique(columns["radius"][columns["predict"] != "-1"])
    votes = np.arange(table.samples // 2, table.samples + 1)
    lattice = Gaussian(sigma).radius(bounds.clopper_pearson_lower(votes, table.samples, 0.001))
    lattice = lattice[lattice > 0]
    checked = 0
    for printed in radii:
        value = float(printed)
        unit = 10.0 ** -len(printed.partition(".")[2])
        right = int(np.searchsorted(lattice, value))
        around = lattice[max(0, right - 2) : right + 2]
        if np.diff(around).min(initial=np.inf) <= 2 * unit:
            continue  # too many values are near to tell
        checked += 1
        assert np.abs(lattice - value).min() <= unit / 2 + 1e-9, printed
    assert checked >= 10


def test_speedups_by_hand() -> None:
    ours, baseline = ([1, 2, 4], [0.40, 0.44, 0.48]), ([2, 6, 10], [0.40, 0.44, 0.50])
    # common range .40 to .48; areas by trapezoids: ours .06 + .12, baseline .16 + .04 * (6 + 8.666667) / 2
    by_area = metrics.speedup_by_area(*ours, *baseline)
    assert float(by_area) == pytest.approx((0.16 + 0.04 * (6 + 26 / 3) / 2) / 0.18)

    def ratio(acr: float) -> float:
        """The straight lines by hand: left of .44 and right of it."""
        if acr <= 0.44:
            return (2 + 100 * (acr - 0.40)) / (1 + 25 * (acr - 0.40))
        return (6 + 4 / 0.06 * (acr - 0.44)) / (2 + 50 * (acr - 0.44))

    by_ratio = metrics.speedup_by_ratio(*ours, *baseline)
    assert float(by_ratio) == pytest.approx(sum(ratio(0.40 + 0.08 * i / 99) for i in range(100)) / 100)


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
