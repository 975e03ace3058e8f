"""Arrays in .npz files."""

import os

import numpy as np
import pytest

from recert.data import UnusableData, load_data
from recert.errors import RecertError

INPUTS = np.random.default_rng(0).random((6, 3, 4, 4), dtype=np.float32)


@pytest.mark.parametrize("names", [("inputs", "labels"), ("x", "y"), ("images", "y"), ("inputs", None)])
def test_names_of_arrays(tmp_path, names):
    arrays = {names[0]: INPUTS}
    if names[1]:
        arrays[names[1]] = np.arange(6, dtype=np.uint8)
    np.savez_compressed(tmp_path / "data.npz", **arrays)
    data = load_data(tmp_path / "data.npz", split="train")
    np.testing.assert_array_equal(data.inputs, INPUTS)
    if names[1]:
        assert data.labels.dtype == np.int64
        assert data.labels.tolist() == [0, 1, 2, 3, 4, 5]
    else:
        assert data.labels is None
    assert data.classes is None
    assert data.name == "data"


def test_other_floats_become_float32(tmp_path):
    np.savez(tmp_path / "data.npz", inputs=np.array([[0.1, 0.2]], np.float64))
    data = load_data(tmp_path / "data.npz")
    assert data.inputs.dtype == np.float32
    np.testing.assert_allclose(data.inputs, [[0.1, 0.2]], rtol=1e-7)


BAD = {
    "uint8": ({"inputs": np.zeros((2, 3), np.uint8)}, r"got uint8; for images in 0\.\.255 store \(images / 255\)"),
    "int64": ({"inputs": np.zeros((2, 3), np.int64)}, "expected float inputs .* got int64"),
    "text": ({"inputs": np.array([["a", "b"]])}, "expected float inputs of shape"),
    "one dimension": ({"inputs": np.zeros(3, np.float32)}, r"got float32 of shape \(3,\)"),
    "no inputs": ({"pictures": INPUTS}, "an array named inputs or x or images .* got pictures"),
    "few labels": ({"inputs": INPUTS, "labels": np.arange(5)}, r"expected 6 integer labels .* shape \(5,\)"),
    "float labels": ({"inputs": INPUTS, "y": np.zeros(6)}, "expected 6 integer labels .* got float64"),
    "empty": ({"inputs": np.zeros((0, 3), np.float32)}, "expected at least one input, got none"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_arrays(tmp_path, bad):
    arrays, message = BAD[bad]
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(UnusableData, match=message):
        load_data(tmp_path / "data.npz")


def test_not_an_archive(tmp_path):
    for content in (b"", b"junk", b"PK\x03\x04junk"):
        (tmp_path / "data.npz").write_bytes(content)
        with pytest.raises(UnusableData, match=r"expected an \.npz file of plain arrays"):
            load_data(tmp_path / "data.npz")


class Payload:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


@pytest.mark.parametrize("form", ["in the archive", "a bare array file"])
def test_hostile_objects_do_not_run(tmp_path, form):
    trace, file = tmp_path / "trace", tmp_path / "data.npz"
    hostile = np.array([[Payload(trace)]], dtype=object)
    if form == "in the archive":
        np.savez(file, inputs=hostile)
    else:
        with file.open("wb") as stream:
            np.save(stream, hostile)
    with pytest.raises(RecertError, match="nothing of it was run"):
        load_data(file)
    assert not trace.exists()
