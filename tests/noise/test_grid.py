"""Gaussian noise on a grid: its law against 60 digits, exact arithmetic, the inputs it takes, and what it is for: no low bits to read."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

import recert
from recert import Gaussian
from recert.certificates import Outcome
from recert.certificates.claims import claim_from_bounds
from recert.noise import on_cpu, on_torch, parse_noise
from recert.noise.gaussian import LARGEST_INPUT
from recert.noise.rounded_normal import alias_table, rounded_normal, total_variation
from recert.noise.stream import NoisyRows, perturb

mpmath.mp.dps = 60
LAWS = [(0.5, 255), (0.37, 16), (1.0, 64), (0.12, 1), (2.5, 3)]


def exact_law(sigma: float, steps: int, largest: int) -> list[mpmath.mpf]:
    """P(round(steps sigma Z) = j) for j = -largest, ..., largest."""
    edges = [mpmath.ncdf(mpmath.mpf(2 * j - 1) / (2 * mpmath.mpf(sigma) * steps)) for j in range(-largest, largest + 2)]
    return [after - before for before, after in pairwise(edges)]


@pytest.mark.parametrize(("sigma", "steps"), LAWS)
def test_weights_are_the_rounded_normal_law_to_64_bits(sigma: float, steps: int) -> None:
    weights = rounded_normal(sigma, steps)
    exact = exact_law(sigma, steps, len(weights) // 2)
    assert sum(weights) == 2**64
    assert weights == weights[::-1]
    apart = [abs(mpmath.mpf(weight) / 2**64 - p) for weight, p in zip(weights, exact, strict=True)]
    assert max(apart) < mpmath.mpf(2) ** -64 * (1 + mpmath.mpf(2) ** -30)
    variation = (sum(apart) + 1 - sum(exact)) / 2
    assert (
        variation
        <= mpmath.mpf(total_variation(sigma, steps, 1).numerator) / total_variation(sigma, steps, 1).denominator
    )
    assert total_variation(sigma, steps, 50) == 50 * total_variation(sigma, steps, 1)


@pytest.mark.parametrize(("sigma", "steps"), LAWS)
def test_the_alias_table_has_exactly_these_weights(sigma: float, steps: int) -> None:
    table = alias_table(sigma, steps)
    full = 2**64 >> table.bits
    found: Counter[int] = Counter()
    for column, entry in enumerate(table.entries.tolist()):
        threshold, alias = divmod(entry, 2**table.bits)
        found[column - table.largest] += threshold
        found[alias - table.largest] += full - threshold
    numbers = range(-table.largest, table.largest + 1)
    assert [found[j] for j in numbers] == rounded_normal(sigma, steps)
    assert sum(found.values()) == 2**64


def rows(count: int) -> NoisyRows:
    numbers = np.arange(count)
    return NoisyRows(numbers * 0, numbers, numbers * 0 + 1)


def test_numbers_are_drawn_from_64_bits_as_the_table_says() -> None:
    """By hand in whole numbers of Python, from the words of Philox."""
    noise = Gaussian(0.5, grid=1 / 255)
    table = alias_table(0.5, 255)
    got = perturb(torch.zeros(1, 5), np.array([77], np.uint64), rows(40), noise).numpy() * 255
    for sample in range(40):
        words = [
            int(w)
            for block in range(3)
            for w in on_cpu.philox4x32(np.array([block, sample, 0, 1], np.uint32), np.array([77, 0], np.uint32))
        ]
        for element in range(5):
            bits = words[2 * element] << 32 | words[2 * element + 1]
            column, rest = bits >> 64 - table.bits, bits & (1 << 64 - table.bits) - 1
            threshold, alias = divmod(int(table.entries[column]), 2**table.bits)
            assert round(float(got[sample, element])) == (column if rest < threshold else alias) - table.largest


def test_at_the_threshold_itself_the_alias_is_drawn() -> None:
    """Random words hardly ever meet it."""
    table = alias_table(0.5, 255)
    for column, entry in list(enumerate(table.entries.tolist()))[::100]:
        threshold, alias = divmod(entry, 2**table.bits)
        for rest, drawn in ((threshold - 1, column), (threshold, alias)):
            if rest >= 0:
                high, low = divmod(column << 64 - table.bits | rest, 2**32)
                number = on_cpu._drawn(np.uint32(high), np.uint32(low), table.entries, table.bits, table.largest)
                assert int(number) == drawn - table.largest


def test_the_noise_has_the_rounded_law() -> None:
    drawn = perturb(torch.zeros(1, 100), np.array([5], np.uint64), rows(2_000), Gaussian(0.5, grid=1 / 16)).numpy()
    counts = Counter(np.rint(drawn * 16).astype(int).ravel().tolist())
    law = [float(p) for p in exact_law(0.5, 16, 24)]
    seen = np.array([counts[j] for j in range(-24, 25)])
    assert stats.chisquare(seen, np.array(law) / sum(law) * seen.sum()).pvalue > 1e-3


@pytest.mark.parametrize("steps", [255, 1024, 10, 3])
def test_what_the_network_sees_is_a_whole_number_of_steps_rounded_once(steps: int) -> None:
    k = np.random.default_rng(0).integers(-2 * steps, 3 * steps, size=(1, 500))
    x = (k / steps).astype(np.float32)
    noise = Gaussian(0.4, grid=1 / steps)
    seen = perturb(torch.from_numpy(x), np.array([3], np.uint64), rows(20), noise).numpy()
    added = perturb(torch.zeros(1, 500), np.array([3], np.uint64), rows(20), noise).numpy()
    whole = k + np.rint(added.astype(float) * steps).astype(int)  # the noise depends on the key and not on the input
    assert np.array_equal(seen, np.float32(whole) / np.float32(steps))
    exact = [float(Fraction(int(m), steps)) for m in whole[0]]
    assert np.array_equal(seen[0], np.array(exact, dtype=np.float64).astype(np.float32))


def test_every_way_to_divide_by_255_is_taken_and_gives_the_same() -> None:
    pixels = np.arange(256, dtype=np.uint8)
    ways = [
        (pixels / 255).astype(np.float32),
        pixels.astype(np.float32) / np.float32(255),
        pixels.astype(np.float32) * np.float32(1 / 255),
    ]
    noise = Gaussian(0.25, grid=1 / 255)
    seen = []
    for x in ways:
        noise.check_inputs(x[None])
        seen.append(perturb(torch.from_numpy(x[None]), np.array([3], np.uint64), rows(5), noise).numpy())
    assert all(np.array_equal(seen[0], other) for other in seen[1:])


@pytest.mark.parametrize("x", [0.3, 1 / 255 + 1e-6, 1e-9, 2.0**22], ids=["between", "a little off", "not 0", "too far"])
def test_inputs_off_the_grid_are_refused(x: float) -> None:
    noise = Gaussian(0.5, grid=1 / 255)
    inputs = np.array([[0.0, 1.0], [1.0, x]], dtype=np.float32)
    for refused in (
        lambda: recert.certify(lambda batch: batch, inputs, noise=noise, samples=100),
        lambda: recert.Calibration(inputs, noise),
    ):
        with pytest.raises(
            ValueError, match=r"expected inputs that are multiples of 1/255, .* in input 1; 8-bit images"
        ):
            refused()
    Gaussian(0.5).check_inputs(inputs)


@pytest.mark.parametrize("steps", [3, 7, 255, 1024])
def test_every_multiple_is_taken_up_to_the_largest(steps: int) -> None:
    """The nearest float32 number to k/N is k/N as far as inputs are taken; further away it could be a quarter of a step off."""
    noise = Gaussian(0.4, grid=1 / steps)
    k = np.concatenate([np.arange(2**21 - 500, 2**21), -np.arange(2**20, 2**20 + 500), [0, 1, -1]])
    x = (k / steps).astype(np.float32)[None]
    noise.check_inputs(x)
    seen, added = (perturb(torch.from_numpy(each), np.array([3], np.uint64), rows(1), noise) for each in (x, x * 0))
    whole = k + np.rint(added.numpy()[0].astype(float) * steps).astype(int)
    assert np.array_equal(seen.numpy()[0], [np.float32(float(Fraction(int(m), steps))) for m in whole])
    with pytest.raises(ValueError, match="expected inputs that are multiples"):
        noise.check_inputs(np.array([[2**21 / steps]], np.float32))


def test_tables_stay_where_recorded_batches_read_them() -> None:
    """A CUDA graph holds addresses: a table that made room for others would leave noise that is made of something else."""
    before = on_torch.table_on(torch.device("cpu"), 0.5, 255)
    for steps in range(1, 100):
        on_torch.table_on(torch.device("cpu"), 0.25, steps)
    assert on_torch.table_on(torch.device("cpu"), 0.5, 255)[2] is before[2]


def test_inputs_may_not_have_more_elements_than_the_slack_allows_for() -> None:
    noise = Gaussian(0.5, grid=1 / 255)
    noise.check_inputs(np.zeros((1, LARGEST_INPUT), np.float32))
    with pytest.raises(ValueError, match=f"at most {LARGEST_INPUT} elements"):
        noise.check_inputs(np.zeros((1, LARGEST_INPUT + 1), np.float32))


@pytest.mark.parametrize(
    "grid", [0.3, 0, -1 / 255, 2.0, float("nan"), float("inf"), "1/255", True, 1e-7, 1 / 255 + 1e-9]
)
def test_bad_grids(grid: object) -> None:
    with pytest.raises(ValueError, match="expected a grid of 1/N"):
        Gaussian(0.5, grid=grid)  # type: ignore[arg-type]


def test_specs_of_grids() -> None:
    assert parse_noise("gaussian:1:grid=1/255") == Gaussian(1.0, grid=1 / 255)
    assert repr(Gaussian(1, grid=1 / 255)) == "Gaussian(sigma=1.0, grid=1/255)"
    assert eval(repr(Gaussian(0.5, grid=0.0009765625)), {"Gaussian": Gaussian}) == Gaussian(0.5, grid=1 / 1024)
    assert Gaussian(0.5) != Gaussian(0.5, grid=1 / 255)
    for text in (
        "gaussian:0.5:grid=0.1",
        "gaussian:0.5:grid=1/0",
        "gaussian:0.5:1/255",
        "gaussian:0.5:grid=1/1.5",
        "gaussian:0.5:",
    ):
        with pytest.raises(ValueError, match="expected a noise like"):
            parse_noise(text)
    with pytest.raises(ValueError, match="at most 4096 steps"):
        Gaussian(5.0, grid=1 / 1024)


def test_radii_are_those_of_probabilities_that_are_smaller_by_the_total_variation() -> None:
    sigma, steps = 0.25, 255
    noise = Gaussian(sigma, grid=1 / steps)
    apart = (
        mpmath.mpf(total_variation(sigma, steps, 1).numerator) / total_variation(sigma, steps, 1).denominator * 2**22
    )

    def normal_quantile(p: mpmath.mpf) -> mpmath.mpf:
        return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)

    for p in (0.5 + 1e-8, 0.51, 0.9, 0.999931, 1 - 1e-8):
        exact = sigma * normal_quantile(mpmath.mpf(p) - apart)
        assert exact * (1 - mpmath.mpf("1e-7")) - mpmath.mpf("1e-15") < noise.radius(p) <= exact
    for p, q in ((0.4, 0.3), (0.9, 0.05), (0.999, 1e-6)):
        exact = sigma / 2 * (normal_quantile(mpmath.mpf(p) - apart) - normal_quantile(mpmath.mpf(q) + apart))
        assert exact * (1 - mpmath.mpf("1e-7")) < noise.radius(p, q) <= exact
    assert noise.radius(0.5 + 1e-12) == 0  # less of a lead than the slack
    assert noise.radius(0.4, 0.4 - 1e-12) == 0
    assert noise.radius([1e-12, 0.0], [0.0, 0.0]).tolist() == [0, 0]


class ReadsLowBits(torch.nn.Module):
    """Class 1 if every element is a multiple of 2^-24: what a sum of 1 and noise always is, and noise alone often is not."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        coarse = (batch.double() * 2**24 % 1 == 0).all(dim=1)
        return torch.stack([~coarse, coarse], dim=1).float()


def test_a_network_that_reads_low_bits_fools_plain_noise_and_not_noise_on_a_grid() -> None:
    """After Voracek and Hein (2023). From (1, 1) to (0, 0) it is 1.414; the class is said to be constant up to more than 1.5."""
    network = ReadsLowBits().eval()
    here, there = np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)
    for noise in (Gaussian(0.5), Gaussian(0.5, grid=1 / 1024), Gaussian(0.5, grid=1 / 255)):
        found = recert.certify(network, here, noise=noise, samples=10_000).certificates
        other = recert.predict(network, there, noise=noise, samples=1_000)
        false_claim = bool(
            found.certified[0] and found.radius[0] > np.sqrt(2) and other.prediction[0] == 1 - found.prediction[0]
        )
        assert false_claim == (noise.grid is None), noise
        if noise.steps == 1024:  # all that it sees are multiples of 2^-10, here and there
            assert found.radius[0] > 1.5
            assert found.prediction.tolist() == other.prediction.tolist() == [1]


def test_a_lead_within_the_slack_claims_nothing() -> None:
    bounds = np.array([0.4, 0.4]), np.array([0.4 - 1e-12, 0.3])
    plain, on_grid = (
        claim_from_bounds([1, 1], *bounds, noise, otherwise=Outcome.RUNNER_UP_TOO_CLOSE)
        for noise in (Gaussian(0.5), Gaussian(0.5, grid=1 / 255))
    )
    assert plain.prediction.tolist() == [1, 1]
    assert on_grid.prediction.tolist() == [-1, 1]
    assert on_grid.outcome.tolist() == ["runner-up-too-close", "certified"]
