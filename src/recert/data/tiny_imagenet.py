"""Tiny ImageNet: 200 classes of ImageNet in 64 x 64 pixels, as it is distributed, or packed into a few files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.data.arrays import plain_arrays
from recert.data.dataset import Labels, Positions, Source, UnusableData
from recert.data.decoding import decoded

SIDE = 64
PACKS = {"train": "train-*.npz", "test": "val.npz"}
ANNOTATIONS = "val_annotations.txt"


def tiny_imagenet_source(directory: Path, split: str) -> Source:
    """Images (3, 64, 64) of a split; its validation images are for testing, as its test images have no labels.

    Labels count the WordNet ids in their order. `directory` holds `train` and `val` as they are unpacked, or is the parent of that folder; or
    it holds packs (`train-0.npz` and on, `val.npz`) of JPEG files back to back: `data`, `offsets`, `labels` and `wnids`.
    """
    packs = sorted(directory.glob(PACKS[split])) if directory.is_dir() else []
    if packs:
        return _packed(packs, split)
    folder = next((each for each in _candidates(directory) if (each / "train").is_dir()), None)
    if folder is None:
        raise UnusableData(
            f"expected Tiny ImageNet in {str(directory)!r}, got no folder train and no {PACKS[split]} there; unpack "
            "tiny-imagenet-200.zip and write tiny-imagenet:DIR"
        )
    wnids = tuple(sorted(child.name for child in (folder / "train").iterdir() if child.is_dir()))
    files = _training_files(folder, wnids) if split == "train" else _validation_files(folder, wnids)
    if not files:
        raise UnusableData(
            f"expected images of Tiny ImageNet in {folder}, got none for {split}; unpack the archive again"
        )

    def read(chosen: Positions) -> tuple[NDArray[np.float32], Labels | None]:
        images = decoded([files[i][0].read_bytes() for i in chosen], SIDE)
        return images, np.array([files[i][1] for i in chosen], np.int64)

    return Source(f"tiny-imagenet {split}", np.arange(len(files), dtype=np.int64), read, wnids)


def _candidates(directory: Path) -> Sequence[Path]:
    if not directory.is_dir():
        return ()
    return (directory, *sorted(child for child in directory.iterdir() if child.is_dir()))


def _training_files(folder: Path, wnids: tuple[str, ...]) -> list[tuple[Path, int]]:
    """`train/WNID/images/*.JPEG`, class by class."""
    return [
        (path, label) for label, wnid in enumerate(wnids) for path in sorted((folder / "train" / wnid).rglob("*.JPEG"))
    ]


def _validation_files(folder: Path, wnids: tuple[str, ...]) -> list[tuple[Path, int]]:
    """`val/images/*.JPEG`, whose classes are in `val_annotations.txt`; or sorted into a folder for each class."""
    annotations = folder / "val" / ANNOTATIONS
    rank = {wnid: label for label, wnid in enumerate(wnids)}
    if not annotations.is_file():
        return [(path, rank[wnid]) for wnid in wnids for path in sorted((folder / "val" / wnid).rglob("*.JPEG"))]
    files = []
    for line in annotations.read_text().splitlines():
        name, wnid = (*line.split("\t"), "", "")[:2]
        if not line.strip():
            continue
        path = folder / "val" / "images" / name
        if wnid not in rank or not path.is_file():
            raise UnusableData(
                f"expected lines of an image, a tab and its class in {annotations}, got {line[:80]!r}, which names no image or no class that is "
                "there; unpack the archive again"
            )
        files.append((path, rank[wnid]))
    return files


def _packed(packs: list[Path], split: str) -> Source:
    """All packs of a split, one after the other."""
    read = [_pack(path) for path in packs]
    starts = np.concatenate([pack["offsets"][:-1] + base for pack, base in zip(read, _bases(read), strict=True)])
    ends = np.concatenate([pack["offsets"][1:] + base for pack, base in zip(read, _bases(read), strict=True)])
    data, labels = np.concatenate([pack["data"] for pack in read]), np.concatenate([pack["labels"] for pack in read])

    def images(chosen: Positions) -> tuple[NDArray[np.float32], Labels | None]:
        files = [data[starts[i] : ends[i]].tobytes() for i in chosen]
        return decoded(files, SIDE), labels[chosen].astype(np.int64)

    wnids = tuple(str(wnid) for wnid in read[0]["wnids"])
    return Source(f"tiny-imagenet {split}", np.arange(len(labels), dtype=np.int64), images, wnids)


def _bases(packs: list[dict[str, NDArray[Any]]]) -> list[int]:
    return [0, *np.cumsum([len(pack["data"]) for pack in packs])[:-1].tolist()]


def _pack(path: Path) -> dict[str, NDArray[Any]]:
    pack = plain_arrays(path, ("data", "offsets", "labels", "wnids"))
    data, offsets, labels = pack["data"], pack["offsets"], pack["labels"]
    sound = (
        data.dtype == np.uint8
        and data.ndim == offsets.ndim == labels.ndim == 1
        and offsets.dtype.kind == labels.dtype.kind == "i"
        and len(offsets) == len(labels) + 1
        and (np.diff(offsets) > 0).all()
        and offsets[0] >= 0
        and offsets[-1] <= len(data)
        and ((labels >= 0) & (labels < len(pack["wnids"]))).all()
    )
    if not sound:
        raise UnusableData(
            f"expected image files back to back in {path} (data, offsets, labels, wnids), got arrays that do not fit together; pack them again"
        )
    return pack
