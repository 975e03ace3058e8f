"""A folder with one directory of images for each class."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recert.data.dataset import Labels, Positions, Source, UnusableData, unit_range
from recert.extras import import_extra

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
SPLIT_NAMES = {"train": ("train",), "test": ("test", "val")}
BYTE_MODES = ("1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr")


def folder_source(rest: str, split: str) -> Source:
    """Images by class, classes and files in the order of their names; only the chosen ones are opened.

    `rest` is DIR, or DIR?size=N: then of each image the largest square in the middle is resized to N x N pixels. The noise is added
    after that: its scale and all radii are about the resized image.
    """
    directory, size = _directory_and_size(rest)
    if not directory.is_dir():
        raise ValueError(f"expected a folder of images, got {str(directory)!r}, which does not exist; check the path")
    folder = _split_directory(directory, split)
    classes = tuple(
        sorted(child.name for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    )
    files = [(path, label) for label, name in enumerate(classes) for path in _images(folder / name)]
    if not files:
        raise UnusableData(
            f"expected one directory of images for each class in {folder}, got no image in any; "
            f"known suffixes: {' '.join(SUFFIXES)}"
        )

    def read(chosen: Positions) -> tuple[NDArray[np.float32], Labels | None]:
        images = _read_images([files[i][0] for i in chosen], files[0][0], size)
        return images, np.array([files[i][1] for i in chosen], np.int64)

    return Source(folder.name, np.arange(len(files), dtype=np.int64), read, classes)


def _directory_and_size(rest: str) -> tuple[Path, int | None]:
    name, asked, option = rest.rpartition("?")
    if not asked or Path(rest).is_dir():  # a folder may have a question mark in its name
        return Path(rest), None
    found = re.fullmatch(r"size=([1-9]\d{0,4})", option)
    if found is None:
        raise ValueError(
            f"expected folder:DIR or folder:DIR?size=N with N pixels, got 'folder:{rest}'; for example folder:{name}?size=32"
        )
    return Path(name), int(found[1])


def _split_directory(directory: Path, split: str) -> Path:
    """The directory of the split when there are splits; a class may be called `train`, so both must be there."""
    there = {name: directory / name for names in SPLIT_NAMES.values() for name in names if (directory / name).is_dir()}
    if "train" not in there or len(there) == 1:
        return directory
    return next(there[name] for name in SPLIT_NAMES[split] if name in there)


def _images(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def _read_images(paths: list[Path], first: Path, size: int | None) -> NDArray[np.float32]:
    """All images as (channels, height, width) in [0, 1]: grey if the folder's first image is grey, else colour."""
    grey = _open(first).mode == "L"
    images: list[NDArray[Any]] = []
    for path in paths:
        image = _open(path)
        if grey and image.mode != "L":
            raise UnusableData(
                f"expected grey images like {first}, got {image.mode} in {path}; convert them to one mode"
            )
        image = image if grey else image.convert("RGB")
        pixels = np.asarray(image if size is None else _resized(image, size))
        if images and pixels.shape != images[0].shape:
            raise UnusableData(
                f"expected images of one size, got {_size(images[0])} in {paths[0]} and {_size(pixels)} in {path}; "
                "folder:DIR?size=N takes the square in the middle of each, in N x N pixels"
            )
        images.append(pixels)
    stacked = np.stack(images)
    return unit_range(stacked[:, None] if grey else np.ascontiguousarray(stacked.transpose(0, 3, 1, 2)))


def _open(path: Path) -> Any:
    # PIL is installed as pillow, which torchvision depends on.
    pillow = import_extra("PIL.Image", extra="vision", purpose="a folder of images")
    try:
        with pillow.open(path) as image:
            image.load()
    except Exception as error:  # every decoder has its own errors
        raise UnusableData(
            f"expected an image, got {path}, which does not open ({error}); remove or repair it"
        ) from None
    if image.mode not in BYTE_MODES:
        raise UnusableData(f"expected an image of 8 bits a channel, got mode {image.mode} in {path}; convert it first")
    return image


def _resized(image: Any, size: int) -> Any:
    """The largest square in the middle, in so many pixels a side, each a weighted mean of those that it stands for (bilinear)."""
    pillow = import_extra("PIL.Image", extra="vision", purpose="a folder of images")
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    # Cut out first: what is cut off must not count in the pixels at the edge.
    return image.crop((left, top, left + side, top + side)).resize((size, size), pillow.Resampling.BILINEAR)


def _size(pixels: NDArray[Any]) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"
