"""The embedded digits: pixel values from scikit-learn itself, and a split that never moves."""

import hashlib
import json
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from recert.data import load_data
from recert.errors import MissingExtra
from recert.models.registry import WEIGHTS

ORIGINAL = load_digits()


def test_images_are_scikit_learns_in_unit_range():
    data = load_data("digits")
    assert data.inputs.shape[1:] == (1, 8, 8)
    assert data.inputs.dtype == np.float32
    assert data.labels.dtype == np.int64
    assert (data.inputs.min(), data.inputs.max()) == (0.0, 1.0)
    np.testing.assert_array_equal(data.inputs[:, 0] * 16, ORIGINAL.images[data.indices])
    np.testing.assert_array_equal(data.labels, ORIGINAL.target[data.indices])
    assert data.classes == tuple("0123456789")


def test_split_is_disjoint_complete_and_stratified():
    train, test = load_data("digits", split="train"), load_data("digits", split="test")
    np.testing.assert_array_equal(np.sort(np.concatenate([train.indices, test.indices])), np.arange(1797))
    for digit in range(10):
        everyone = np.count_nonzero(ORIGINAL.target == digit)
        assert np.count_nonzero(test.labels == digit) == round(everyone / 5)
    assert (len(train), len(test)) == (1438, 359)


@pytest.mark.parametrize("sigma", ["0.25", "0.5"])
def test_split_is_the_one_that_shipped_networks_were_trained_on(sigma):
    """With another split they would be tested on what they have seen."""
    settings = json.loads((WEIGHTS / f"digits-{sigma}.json").read_text())["settings"]
    for split in ("train", "test"):
        data = load_data("digits", split=split)
        digest = hashlib.sha256(data.inputs.tobytes() + data.labels.tobytes()).hexdigest()
        assert settings[f"{split}_data"]["sha256"] == digest


def test_scikit_learn_not_installed(monkeypatch):
    for name in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[demo\]"):
        load_data("digits")
