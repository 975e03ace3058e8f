"""Tiny ImageNet in its official layout and packed, from a small directory that is made here."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recert.data import UnusableData, data_source, decoding, load_data

WNIDS = ("n01443537", "n01629819", "n02094433")
COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255))


def jpeg(colour, side: int = 64, mode: str = "RGB") -> bytes:
    """One colour all over, which JPEG keeps within a step or two."""
    file = io.BytesIO()
    Image.new(mode, (side, side), colour).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """`train/WNID/images/WNID_i.JPEG`, and validation images in one folder, whose classes are in a table, in another order."""
    home = tmp_path / "data" / "tiny-imagenet-200"
    for wnid, colour in zip(WNIDS, COLOURS, strict=True):
        (home / "train" / wnid / "images").mkdir(parents=True)
        for i in range(2):
            (home / "train" / wnid / "images" / f"{wnid}_{i}.JPEG").write_bytes(jpeg(colour))
    (home / "val" / "images").mkdir(parents=True)
    (home / "test" / "images").mkdir(parents=True)
    lines = []
    for i, label in enumerate((2, 0, 1, 1)):
        (home / "val" / "images" / f"val_{i}.JPEG").write_bytes(jpeg(COLOURS[label]))
        lines.append(f"val_{i}.JPEG\t{WNIDS[label]}\t0\t0\t62\t62\n")
    (home / "val" / "val_annotations.txt").write_text("".join(lines))
    (home / "val" / "images" / "val_4.JPEG").write_bytes(jpeg(100, mode="L"))  # grey, as some are
    with (home / "val" / "val_annotations.txt").open("a") as table:
        table.write(f"val_4.JPEG\t{WNIDS[0]}\t0\t0\t62\t62\n")
    return home


def pack(path: Path, files: list[bytes], labels: list[int], **changed) -> None:
    arrays = {
        "data": np.frombuffer(b"".join(files), np.uint8), "offsets": np.cumsum([0, *map(len, files)]),
        "labels": np.array(labels, np.int64), "wnids": np.array(WNIDS),
    }  # fmt: skip
    np.savez(path, **{**arrays, **changed})


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    home = tmp_path / "packs"
    home.mkdir()
    pack(home / "train-0.npz", [jpeg(COLOURS[0]), jpeg(COLOURS[1])], [0, 1])
    pack(home / "train-1.npz", [jpeg(COLOURS[2])], [2])
    pack(home / "val.npz", [jpeg(COLOURS[1]), jpeg(COLOURS[0])], [1, 0])
    return home


def check(data, labels) -> None:
    assert data.inputs.shape == (len(labels), 3, 64, 64)
    assert data.inputs.dtype == np.float32
    assert data.labels.tolist() == labels
    assert data.classes == WNIDS
    for image, label in zip(data.inputs, labels, strict=True):
        colour = np.array(COLOURS[label]) / 255
        assert np.abs(image - colour[:, None, None]).max() < 0.02


@pytest.mark.parametrize("above", [0, 1])
def test_official_layout(official, above):
    spec = f"tiny-imagenet:{official if not above else official.parent}"
    check(load_data(spec, split="train"), [0, 0, 1, 1, 2, 2])
    check(load_data(spec, split="test", count=4), [2, 0, 1, 1])
    grey = load_data(spec).inputs[4]
    assert np.abs(grey - 100 / 255).max() < 0.02
    assert data_source(spec).positions.tolist() == [0, 1, 2, 3, 4]


def test_packs(packed):
    spec = f"tiny-imagenet:{packed}"
    check(load_data(spec, split="train"), [0, 1, 2])
    check(load_data(spec), [1, 0])
    check(load_data(spec, split="train", every=2), [0, 2])


def test_many_images_are_decoded_by_processes_to_the_same(packed, monkeypatch):
    random = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), dtype=np.uint8)
    files = []
    for pixels in random:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        files.append(file.getvalue())
    monkeypatch.setattr(decoding, "FEWEST", 3)
    monkeypatch.setattr(decoding.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(decoding, "decoded_here", None)  # of this process
    found = decoding.decoded(files, 64)
    assert np.array_equal(found, random.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255))
    with pytest.raises(UnusableData, match="expected an image, got 7 bytes"):
        decoding.decoded([*files[:5], b"nothing"], 64)


def test_what_is_missing_or_broken_is_named(official, packed, tmp_path):
    with pytest.raises(UnusableData, match="got no folder train"):
        load_data(f"tiny-imagenet:{tmp_path / 'nowhere'}")
    with pytest.raises(ValueError, match="tiny-imagenet"):
        load_data("tiny-imagenet:")
    (official / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn00000000\n")
    with pytest.raises(UnusableData, match=r"got 'val_0\.JPEG\\tn00000000'"):
        load_data(f"tiny-imagenet:{official}")
    (official / "train" / WNIDS[0] / "images" / f"{WNIDS[0]}_0.JPEG").write_bytes(jpeg(COLOURS[0], side=32))
    with pytest.raises(UnusableData, match="expected images of 64 x 64 pixels, got 32 x 32"):
        load_data(f"tiny-imagenet:{official}", split="train")
    pack(packed / "val.npz", [jpeg(COLOURS[1])], [3])
    with pytest.raises(UnusableData, match="that do not fit together"):
        load_data(f"tiny-imagenet:{packed}")
    np.savez(packed / "val.npz", data=np.zeros(3, np.uint8))
    with pytest.raises(UnusableData, match="expected an array named offsets"):
        load_data(f"tiny-imagenet:{packed}")


def test_it_is_trained_on_streamed_and_whole_alike(packed, tmp_path):
    import torch
    from torch import nn

    import recert

    weights = []
    for stream in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(48, 3))
        trained = recert.train(
            net, f"tiny-imagenet:{packed}", recert.Gaussian(0.25), epochs=2, batch_size=2, stream=stream, device="cpu",
            test=f"tiny-imagenet:{packed}", out=tmp_path / str(stream), progress=False,
        )  # fmt: skip
        assert (trained.card.settings["flip"], trained.card.settings["crop"]) == (True, 8)
        weights.append(trained.weights.read_bytes())
    assert weights[0] == weights[1]
