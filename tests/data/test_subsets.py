"""Every k-th input, then the first so many; and what bad requests are told."""

import numpy as np
import pytest

from recert.data import DATA_FORMS, load_data

INPUTS = np.linspace(0, 1, 100, dtype=np.float32).reshape(50, 2)


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "data.npz", inputs=INPUTS, labels=np.arange(50))
    return tmp_path / "data.npz"


@pytest.mark.parametrize(
    ("every", "count", "expected"),
    [
        (1, None, range(50)),
        (20, None, [0, 20, 40]),
        (1, 4, [0, 1, 2, 3]),
        (7, 3, [0, 7, 14]),
        (49, None, [0, 49]),
        (99, 1, [0]),
        (20, 4, [0, 20, 40]),
    ],
)
def test_selection(file, every, count, expected):
    data = load_data(file, every=every, count=count)
    expected = list(expected)
    assert data.indices.tolist() == expected
    assert data.indices.dtype == np.int64
    assert data.labels.tolist() == expected
    np.testing.assert_array_equal(data.inputs, INPUTS[expected])
    assert len(data) == len(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "expected every >= 1, got 0"),
        ({"count": 0}, "expected count >= 1, got 0"),
        ({"split": "validation"}, "expected split to be one of train, test, got 'validation'"),
    ],
)
def test_bad_selection(file, options, message):
    with pytest.raises(ValueError, match=message):
        load_data(file, **options)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digist", "did you mean 'digits'"),
        ("", "expected data as one of digits"),
        ("folder", "folder:DIR"),
        ("torchvision:MNIST", "expected torchvision:NAME:DIR"),
        ("torchvision:CIFAR10:data", "expected cifar10:data"),
        ("gone.npz", "does not exist; check the path"),
        ("folder:gone", "does not exist; check the path"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(ValueError, match=message):
        load_data(spec)


def test_bare_directory_is_told_its_forms(tmp_path):
    with pytest.raises(ValueError, match="write folder:"):
        load_data(tmp_path)


def test_every_form_is_described():
    assert DATA_FORMS[0][0] == "digits"
    assert all(meaning for _, meaning in DATA_FORMS)
