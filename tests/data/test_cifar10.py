"""CIFAR-10 in both official layouts, from small files written here byte by byte."""

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from recert.data import UnusableData, load_data
from recert.data.cifar10 import CLASSES
from recert.errors import RecertError

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")


def batch(seed: int, count: int = 3) -> tuple[np.ndarray, list[int]]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (count, 3072), dtype=np.uint8), generator.integers(0, 10, count).tolist()


def write_binary(home: Path) -> None:
    home.mkdir(parents=True)
    for seed, name in enumerate(BATCHES):
        pixels, labels = batch(seed)
        records = b"".join(bytes([label]) + row.tobytes() for row, label in zip(pixels, labels, strict=True))
        (home / f"{name}.bin").write_bytes(records)


def python2_pickle(pixels: np.ndarray, labels: list[int]) -> bytes:
    """The opcodes that Python 2 wrote into the official files: protocol 2, byte strings, numpy's old module names."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
        b"(K\x01" + b"M" + struct.pack("<H", len(pixels)) + b"M\x00\x0c\x86"
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + struct.pack("<I", pixels.size) + pixels.tobytes() + b"tb"
    )
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return (
        b"\x80\x02}(" + text(b"batch_label") + text(b"training batch 1 of 5") + text(b"labels") + numbers
        + text(b"data") + array + text(b"filenames") + b"](" + text(b"camion_s_000148.png") + b"eu."
    )  # fmt: skip


def write_python(home: Path, dump=python2_pickle) -> None:
    home.mkdir(parents=True)
    for seed, name in enumerate(BATCHES):
        (home / name).write_bytes(dump(*batch(seed)))


def python3_pickle(pixels: np.ndarray, labels: list[int]) -> bytes:
    """As in archives that were written again by Python 3 in the old protocol."""
    return pickle.dumps({b"data": pixels, b"labels": labels}, protocol=2)


LAYOUTS = {
    "binary": lambda root: write_binary(root / "cifar-10-batches-bin"),
    "python": lambda root: write_python(root / "cifar-10-batches-py"),
    "python rewritten": lambda root: write_python(root / "cifar-10-batches-py", python3_pickle),
    "directory itself": lambda root: write_binary(root),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_give_the_images_that_were_written(tmp_path, layout):
    LAYOUTS[layout](tmp_path / "cifar")
    test, train = load_data(f"cifar10:{tmp_path / 'cifar'}"), load_data(f"cifar10:{tmp_path / 'cifar'}", split="train")
    pixels, labels = batch(5)
    assert test.inputs.dtype == np.float32
    np.testing.assert_array_equal(test.inputs, pixels.reshape(3, 3, 32, 32).astype(np.float32) / np.float32(255))
    assert test.labels.tolist() == labels
    assert test.classes == CLASSES
    assert len(train) == 15
    np.testing.assert_array_equal(train.labels, np.concatenate([batch(i)[1] for i in range(5)]))
    np.testing.assert_allclose(train.inputs[14].ravel() * 255, batch(4)[0][2], atol=1e-4)


def test_subset_and_channel_order(tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(bytes([3]) + b"\xff" * 1024 + b"\x00" * 2048 + bytes(3073))
    data = load_data(f"cifar10:{tmp_path}", every=2)
    assert data.indices.tolist() == [0]
    assert data.inputs[0].mean(axis=(1, 2)).tolist() == [1.0, 0.0, 0.0]  # red comes first
    assert data.classes[data.labels[0]] == "cat"


def test_binary_is_preferred(tmp_path):
    LAYOUTS["binary"](tmp_path / "c")
    (tmp_path / "c" / "cifar-10-batches-py").mkdir()
    (tmp_path / "c" / "cifar-10-batches-py" / "test_batch").write_bytes(b"junk")
    assert len(load_data(f"cifar10:{tmp_path / 'c'}")) == 3


def test_directory_from_the_environment_and_by_default(tmp_path, monkeypatch):
    LAYOUTS["binary"](tmp_path / "data")
    monkeypatch.setenv("RECERT_CIFAR10", str(tmp_path / "data"))
    assert len(load_data("cifar10")) == 3
    monkeypatch.delenv("RECERT_CIFAR10")
    monkeypatch.chdir(tmp_path)
    assert len(load_data("cifar10")) == 3


def test_nothing_there(tmp_path):
    for place in (tmp_path, tmp_path / "gone"):
        with pytest.raises(
            UnusableData, match=r"expected CIFAR-10 .* got no test_batch there; unpack .*RECERT_CIFAR10"
        ):
            load_data(f"cifar10:{place}")


def test_batch_missing(tmp_path):
    LAYOUTS["directory itself"](tmp_path / "c")
    (tmp_path / "c" / "data_batch_4.bin").unlink()
    with pytest.raises(UnusableData, match="data_batch_4"):
        load_data(f"cifar10:{tmp_path / 'c'}", split="train")


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "got 0 bytes"), (b"x" * 100, "got 100 bytes"), (b"\xff" * 3073, "255 to 255")]
)
def test_bad_binary(tmp_path, content, message):
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(UnusableData, match=message):
        load_data(f"cifar10:{tmp_path}")


class Payload:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


class TouchingArray:
    """A payload in the place of the array, built by a function that files do need, from one that they do not."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return eval, (f"open({str(self.trace)!r}, 'w')",)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", [Payload, TouchingArray])
def test_hostile_batch_does_not_run(tmp_path, protocol, kind):
    trace = tmp_path / "trace"
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": kind(trace), b"labels": [1]}, protocol=protocol))
    with pytest.raises(
        RecertError, match=r"expected plain arrays and lists .* the Python object .*nothing of it was run\. Take"
    ):
        load_data(f"cifar10:{tmp_path}")
    assert not trace.exists()


def test_attribute_of_an_allowed_class_is_refused(tmp_path):
    (tmp_path / "test_batch").write_bytes(b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.")
    with pytest.raises(RecertError, match=r"the Python object numpy\.ndarray\.tofile"):
        load_data(f"cifar10:{tmp_path}")


BAD_PYTHON = {
    "floats": (pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [1]}, protocol=2), "an array of type"),
    "objects": (pickle.dumps({b"data": np.array([[None] * 3072]), b"labels": [1]}, protocol=2), "an array of type"),
    "wrong size": (python2_pickle(np.zeros((1, 3072), np.uint8), [1, 2]), "as many 'labels'"),
    "text labels": (
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": ["cat"]}, protocol=2),
        "as many 'labels'",
    ),
    "not a dictionary": (pickle.dumps([1, 2]), "as many 'labels'"),
    "junk": (b"junk", "which is not one"),
    "truncated": (python2_pickle(np.zeros((1, 3072), np.uint8), [1])[:500], "which is not one"),
}


@pytest.mark.parametrize("bad", BAD_PYTHON)
def test_bad_python(tmp_path, bad):
    content, message = BAD_PYTHON[bad]
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(UnusableData, match=message):
        load_data(f"cifar10:{tmp_path}")


@pytest.mark.skipif("RECERT_CIFAR10" not in os.environ, reason="RECERT_CIFAR10 does not name the real data set")
def test_the_real_data_set():
    data = load_data("cifar10", every=20)
    assert len(data) == 500
    assert data.classes[data.labels[0]] == "cat"
    assert np.bincount(load_data("cifar10").labels).tolist() == [1000] * 10
