"""The numbers of a page against truth from outside: scipy's exact interval, counts by hand, pixels of the inputs."""

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binomtest

from recert.data import load_data
from recert.errors import UnknownInputs
from recert.report.bins import cost_bins, count_bins, share_bins
from recert.report.gains import gain_over, gains
from recert.report.input_table import down
from recert.report.matching import add_data
from recert.report.summary import summarise
from recert.report.thumbnails import MOST, make_sprite
from tests.report.conftest import MakeResult, images


def test_accuracies_and_their_intervals_are_those_of_scipy(make_result: MakeResult) -> None:
    result = make_result("r", 300)
    summary = summarise(result, [0.0, 0.5, 9.0])
    c = result.certificates
    for share in summary.shares:
        hits = sum(
            p == y and p >= 0 and r >= share.radius
            for p, y, r in zip(c.prediction, result.labels, c.radius, strict=True)
        )
        interval = binomtest(int(hits), 300).proportion_ci(0.95, "exact")
        assert (share.count, share.total) == (hits, 300)
        assert (share.lower, share.upper) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert summary.abstained == int((c.prediction < 0).sum()) == summary.reasons[0].count
    assert summary.average_radius == pytest.approx(float(np.mean(c.radius * (c.prediction == result.labels))))


def test_without_labels_every_certified_input_counts(make_result: MakeResult) -> None:
    result = make_result("r", labelled=False)
    summary = summarise(result, [0.0])
    assert summary.smoothed_accuracy is None
    assert summary.shares[0].count == int(result.certificates.certified.sum())


def test_gains_are_measured_at_equal_radius_and_only_over_the_same_model(make_result: MakeResult) -> None:
    ours = make_result("ours", method="auto", alpha=0.002)
    acr = summarise(ours, []).average_radius

    def scratch(passes: int, factor: float, **changes: object) -> object:
        made = make_result(f"s{passes}", method="scratch", passes=passes, **{"alpha": 0.002, **changes})
        return replace(made, certificates=replace(made.certificates, radius=made.certificates.radius * factor))

    curve = [scratch(1_000, 0.5), scratch(3_000, 1.5)]  # the radius of ours lies half way
    gain = gains([ours, *curve])[0]
    assert gain is not None
    assert gain.radius == acr
    assert gain.needed == pytest.approx(2_000)
    assert gain.factor == pytest.approx(2_000 / ours.certificates.mean_forward_passes)
    assert str(gains([ours, curve[0]])[0]).startswith("> ")  # its largest budget falls short
    assert gains([ours, curve[1]])[0] is None  # it starts above: nothing is known below
    assert gains([ours, scratch(1_000, 0.5, alpha=0.001), scratch(1_000, 0.5, noise="gaussian:1")])[0] is None
    assert gain_over(0, 0.5, [1], [0.4]) is None
    decided = make_result("ours", method="sequential-replays", alpha=0.002, at=(0.5,))
    assert gains([decided, *curve])[0] is None  # its radii are 0.5 or 0
    proxied = make_result("ours", method="auto", alpha=0.002, proxy={"made by": "int8"})
    assert gains([proxied, *curve])[0] is None  # most of its passes are of another network
    assert gains([ours, make_result("s", alpha=0.002, passes=1, proxy={"made by": "int8"})])[0] is None


def test_histograms_count_every_value() -> None:
    rng = np.random.default_rng(0)
    for values in (
        np.array([0, 0, 1]),
        rng.integers(0, 700, 90),
        np.array([13]),
        rng.integers(95, 105, 50),
        np.array([0, 1, 5]),
        np.array([7, 7]),
        np.zeros(3),
    ):
        for bins in (count_bins(values), cost_bins(values)):
            assert np.histogram(values, bins.edges)[0].sum() == len(values)
            assert len(bins.names) == len(bins.edges) - 1
            assert (np.diff(bins.edges) > 0).all()
    shares = np.array([0.0, 0.5, 1.0])
    assert np.histogram(shares, share_bins(shares).edges)[0].sum() == 3


def test_a_narrow_range_of_costs_has_even_bars() -> None:
    for low, high in ((95, 104), (60, 150), (1, 13), (4_000, 4_003)):
        edges = cost_bins(np.array([0, low, high])).edges
        assert edges[0] == 0 < edges[1] <= low < high <= edges[-1]
        assert len(set(np.diff(edges[2:]).tolist())) == 1
        assert 4 <= len(edges) <= 15
    # The bar of those without passes has its name under it: its edges are no part of the scale.
    assert cost_bins(np.array([0, 30, 900])).ticks == [(0.5, "none"), (2, "50"), (4, "200"), (6, "1,000")]
    assert [place for place, _ in cost_bins(np.array([30, 900])).ticks] == [0, 1, 2, 3, 4, 5]


def test_radii_are_rounded_down() -> None:
    assert all(down(x) <= x < down(x) + 2e-3 for x in np.random.default_rng(0).random(1_000))


def test_thumbnails_are_the_inputs_found_by_content(make_result: MakeResult, pictures: object, tmp_path: Path) -> None:
    digits = np.zeros((30, 1, 8, 8), np.float32)
    digits[26, 0, 2, 3] = 1.0
    sprite = make_sprite(digits)
    assert sprite is not None
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(sprite.uri.split(",")[1]))))
    assert np.argwhere(sheet.any(axis=2)).tolist() == [[8 + 2, 8 + 3]]  # the second of the second row of 25
    result = make_result("r", 10, labelled=False)
    data = load_data(str(pictures(10)))  # type: ignore[operator]
    (known,), shown = add_data([result.take(np.arange(10)[::-1])], data)
    assert known.positions is not None
    assert known.positions.tolist() == list(range(12, 2, -1))  # three others stand before them
    assert known.labels is not None
    assert known.labels.tolist() == data.labels[:2:-1].tolist()  # type: ignore[index]
    drawn = shown.sprite(np.array([9, 0]))
    assert drawn is not None
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(drawn.uri.split(",")[1]))))
    assert (
        sheet[:, :32] == np.round(np.moveaxis(images(10)[0], 0, -1) * 255)
    ).all()  # rows are taken the other way round
    with pytest.raises(UnknownInputs, match="10 of the 10 inputs of the results are not in digits"):
        add_data([result], load_data("digits", count=5))


def test_inputs_that_are_no_images_have_no_thumbnails() -> None:
    assert make_sprite(np.zeros((5, 12), np.float32)) is None
    assert make_sprite(np.zeros((MOST + 1, 1, 8, 8), np.float32)) is None
    large = make_sprite(np.random.default_rng(0).random((2, 3, 100, 50), dtype=np.float32))
    assert large is not None
    assert (large.width, large.height) == (24, 48)
    assert make_sprite(images(3)[:, 0]) is not None
