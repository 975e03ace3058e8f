"""scikit-learn's digits: 1,797 images of 8x8 pixels that come with the package, so nothing is downloaded."""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.data.dataset import Source, arrays_source
from recert.extras import import_extra

FILE = "datasets/data/digits.csv.gz"
TEST_SHARE = 5
"""One in five images of every class is for testing."""


def digits_source(split: str) -> Source:
    """Training or test images, (1, 8, 8) in [0, 1]; positions are those in scikit-learn's arrays."""
    images, labels = _arrays()
    testing = _is_test(labels)
    positions = np.flatnonzero(testing if split == "test" else ~testing).astype(np.int64)
    inputs = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return arrays_source(f"digits {split}", inputs, labels, positions, tuple(str(digit) for digit in range(10)))


def _arrays() -> tuple[NDArray[Any], NDArray[Any]]:
    """Images and labels. scikit-learn's file itself is read where it is known: importing scikit-learn takes half a second."""
    found = find_spec("sklearn")
    file = Path(found.origin or "").parent / FILE if found else None
    if file is not None and file.is_file():
        table = np.loadtxt(file, delimiter=",")
        return table[:, :-1], table[:, -1].astype(int)
    bunch = import_extra("sklearn.datasets", extra="demo", purpose="the digits data set").load_digits()
    return bunch.data, bunch.target


def _is_test(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """A stratified split that never changes: by SHA-256 of the position, since no generator promises its stream."""
    testing = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = sorted(np.flatnonzero(labels == label), key=_rank)
        testing[members[: round(len(members) / TEST_SHARE)]] = True
    return testing


def _rank(position: np.intp) -> bytes:
    return hashlib.sha256(f"digits:{position}".encode()).digest()
