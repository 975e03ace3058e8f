"""The least bound of each group of arguments: one of the bounds of the group, and not above the exact bound of any of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recert.bounds import _batches, few_flips_lower, joint, joint_lower, series, series_lower
from recert.bounds import _joint_rows as joint_rows
from tests.bounds.test_joint import box_by_definition, largest_chance, ordering_by_definition

APART = 2e-4  # how far apart the last two q of a search are


def groups_of(values: np.ndarray, starts: np.ndarray) -> list[np.ndarray]:
    return np.split(values, starts[1:])


def random_rows(rng: np.random.Generator, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Arguments that are nearly equal within a group, so that guesses at the least are often wrong."""
    rows, starts = [], []
    for _ in range(groups):
        starts.append(len(rows))
        n, m1, m0 = int(rng.choice([300, 3_000, 50_000])), int(rng.choice([40, 120, 600])), int(rng.choice([0, 3, 40]))
        p, x, y, alpha = rng.uniform(0.55, 1), rng.random() ** 2 * 0.1, rng.random() * 0.5, rng.choice([0.05, 0.002])
        for _ in range(int(rng.integers(1, 8))):
            row = (rng.binomial(n, p), n, rng.binomial(m1, x), m1, rng.binomial(m0, y), m0, alpha)
            rows.append(tuple(map(float, row)))
    return np.array(rows), np.array(starts)


@pytest.mark.parametrize("seed", range(3))
def test_joint(seed: int) -> None:
    rows, starts = random_rows(np.random.default_rng(seed), 40)
    found, single = joint_lower(*rows.T, groups=starts), groups_of(joint_lower(*rows.T), starts)
    for least, values in zip(found, single, strict=True):
        assert least in values
        assert values.min() <= least <= values.min() + APART


def test_joint_is_not_above_any_bound_by_definition() -> None:
    rng = np.random.default_rng(5)
    for _ in range(12):
        n, m1, m0, alpha = int(rng.integers(10, 50)), int(rng.integers(8, 30)), int(rng.integers(0, 12)), 0.1
        rates = rng.uniform(0.7, 1), rng.random() * 0.2, rng.random()
        rows = [tuple(int(rng.binomial(*of)) for of in zip((n, m1, m0), rates, strict=True)) for _ in range(4)]
        k, f, g = np.array(rows).T
        [least] = joint_lower(k, n, f, m1, g, m0, alpha, groups=[0])
        order = ordering_by_definition(n, m1, m0, alpha)
        for row in rows:
            good = order >= order[row] - 1e-10
            box = box_by_definition(row[0], n, row[1], m1, row[2], m0, alpha)
            assert largest_chance(good, least, box, points=12) <= 0.98 * alpha


def test_what_does_not_rank_is_bounded_by_the_box_alone() -> None:
    """By itself its bound is given as 0. In a group it counts as what no point of the box is below."""
    for other in ((999, 1_000, 1, 100), (60, 100, 30, 60)):
        k, n, f, m1 = np.array([(100, 100, 45, 100), other]).T
        assert joint_lower(100, 100, 45, 100, 0, 0, 0.1) == 0
        [least] = joint_lower(k, n, f, m1, 0, 0, 0.1, groups=[0])
        box = box_by_definition(100, 100, 45, 100, 0, 0, 0.1)
        assert least in (0.0, joint_lower(*other, 0, 0, 0.1))
        assert least <= box[4] * (1 - box[1])


@pytest.mark.parametrize("bound", [series_lower, few_flips_lower])
def test_series(bound) -> None:  # type: ignore[no-untyped-def]
    """To the last digit: there is no tolerance but the grid."""
    rows, starts = random_rows(np.random.default_rng(7), 60)
    k, n, lost, m, _, _, alpha = rows.T
    k[::5], lost[::5], lost[1::7], k[3::11], m[4::13] = n[::5], 0, m[1::7], 0, 0
    lost = np.minimum(lost, m)
    found, single = bound(k, n, m - lost, m, alpha, groups=starts), bound(k, n, m - lost, m, alpha)
    for least, values in zip(found, groups_of(single, starts), strict=True):
        assert least in values
        assert values.min() <= least <= values.min() + 2e-6


def rows_of_classes(rng: np.random.Generator, classes: int) -> np.ndarray:
    """Against all rivals of one class: votes that are not for the rival, with one or a few rivals that come close."""
    n, m1 = 10_000, 400
    against = np.sort(rng.multinomial(1_500, rng.dirichlet(np.full(classes, 0.05))))
    gained = rng.binomial(m1, 0.01 * (against + 1) / n * 10)
    m0 = np.minimum(against // 10, 60)
    return np.stack([n - against, np.full(classes, n), gained, m1 - m0, rng.binomial(m0, 0.05), m0], axis=1)


@pytest.mark.parametrize("seed", range(2))
def test_a_thousand_classes(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The least of 999 bounds, with few of them searched."""
    rows = rows_of_classes(np.random.default_rng(seed), 999)
    single, asked, search = joint_lower(*rows.T, 0.001), [], joint_rows.largest_covered
    monkeypatch.setattr(
        joint, "lower_to_least", getattr(joint_rows.lower_to_least, "py_func", joint_rows.lower_to_least)
    )
    monkeypatch.setattr(joint_rows, "largest_covered", lambda *row: asked.append(row) or search(*row))
    [least] = joint_lower(*rows.T, 0.001, groups=[0])
    assert least in single
    assert single.min() <= least <= single.min() + APART
    assert 1 <= len(asked) <= 10
    k, n, f, m1, _, _ = rows.T
    for bound in (series_lower, few_flips_lower):
        values = bound(k, n, m1 - f, m1, 0.001)
        assert values.min() <= bound(k, n, m1 - f, m1, 0.001, groups=[0])[0] <= values.min() + 2e-6


def test_rows_are_bounded_many_in_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between calls of compiled code a thread has to wait for the interpreter: with one for each row most of the time was that."""
    monkeypatch.setattr(_batches, "_workers", lambda: 2)
    rows, starts = random_rows(np.random.default_rng(0), 150)
    k, n, f, m1, *_, alpha = rows.T
    for module, bound, arguments in (
        (joint, joint_lower, rows.T),
        (series, series_lower, (k, n, m1 - f, m1, alpha)),
    ):
        calls, search = [], module.lower_to_least
        monkeypatch.setattr(module, "lower_to_least", lambda *row, c=calls, s=search: c.append(row) or s(*row))
        bound(*arguments, groups=starts)
        # Two rounds: of the likely least of each group, and of others that may be less.
        assert 2 <= len(calls) <= 2 * (2 * _batches.PARTS_PER_WORKER + 1)


@pytest.mark.parametrize("most", [1, 60_000])
def test_tables_that_do_not_fit_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    rows, starts = random_rows(np.random.default_rng(1), 40)
    k, n, f, m1, *_, alpha = rows.T
    for module, bound, arguments in ((joint, joint_lower, rows.T), (series, series_lower, (k, n, m1 - f, m1, alpha))):
        expected, sizes = bound(*arguments, groups=starts), list[int]()
        with monkeypatch.context() as patched:
            patched.setattr(_batches, "MOST_ENTRIES", most)
            patched.setattr(module, "joined_tables", noted(module.joined_tables, sizes))
            assert np.array_equal(bound(*arguments, groups=starts), expected)
        assert len(sizes) > 10
        assert max(sizes) <= max(most, 2 * 50_001) + len(rows)


def noted(joined: Callable[..., Any], sizes: list[int]) -> Callable[..., Any]:
    """Notes how long joined tables are."""

    def called(*arguments: Any) -> Any:
        found = joined(*arguments)
        sizes.append(len(found[0]))
        return found

    return called
