"""From a spec string to a data set."""

import difflib
import os
from pathlib import Path

from recert.data.dataset import Dataset, Source, take

SPLITS = ("train", "test")

DATA_FORMS = (
    ("digits", "scikit-learn's 8x8 digits, 1,438 to train and 359 to test"),
    ("cifar10[:DIR]", "CIFAR-10 in its binary or python layout; DIR is $RECERT_CIFAR10 or ./data unless given"),
    ("tiny-imagenet:DIR", "Tiny ImageNet, 200 classes of ImageNet in 64 x 64 pixels, as unpacked or packed"),
    ("FILE.npz", "arrays `inputs` (or x, images) and `labels` (or y)"),
    ("folder:DIR[?size=N]", "images of one size, or resized to N x N pixels, one directory for each class"),
    ("torchvision:NAME:DIR", "a data set of torchvision that is already in DIR"),
)
"""Every form a spec can take and what it means, for help texts and tables."""


def load_data(
    spec: str | os.PathLike[str], *, split: str = "test", every: int = 1, count: int | None = None
) -> Dataset:
    """The data set that a spec string names: every k-th input of the split, then at most `count` of those.

    Inputs are float32, images in [0, 1] with channels first. `indices` are positions in the source: in the split for
    CIFAR-10, in scikit-learn's order for digits. Arrays have no splits, and a folder has them only when it contains
    `train` and `test` (or `val`); without splits, all inputs are taken.
    """
    return take(data_source(spec, split=split), every, count)


def data_source(spec: str | os.PathLike[str], *, split: str = "test") -> Source:
    """The same, not read yet: for what goes through more data than memory holds."""
    if split not in SPLITS:
        raise ValueError(f"expected split to be one of {', '.join(SPLITS)}, got {split!r}")
    return _source(os.fspath(spec), split)


def _source(spec: str, split: str) -> Source:
    kind, _, rest = spec.partition(":")
    if kind == "digits" and not rest:
        from recert.data.digits import digits_source

        return digits_source(split)
    if kind == "cifar10":
        from recert.data.cifar10 import cifar10_source

        return cifar10_source(Path(rest or os.environ.get("RECERT_CIFAR10") or "data"), split)
    if kind == "tiny-imagenet" and rest:
        from recert.data.tiny_imagenet import tiny_imagenet_source

        return tiny_imagenet_source(Path(rest), split)
    if kind == "folder" and rest:
        from recert.data.image_folder import folder_source

        return folder_source(rest, split)
    if kind == "torchvision" and rest:
        from recert.data.torchvision_sets import torchvision_source

        return torchvision_source(rest, split)
    if spec.lower().endswith(".npz"):
        from recert.data.arrays import npz_source

        return npz_source(Path(spec))
    raise _unknown(spec, kind)


def _unknown(spec: str, kind: str) -> ValueError:
    close = difflib.get_close_matches(kind, ["digits", "cifar10", "tiny-imagenet", "folder", "torchvision"], n=1)
    hint = f"did you mean {close[0]!r}?" if close else "check its spelling"
    if Path(spec).is_dir():
        hint = f"write folder:{spec} for a folder of images, cifar10:{spec} for CIFAR-10"
    forms = ", ".join(form for form, _ in DATA_FORMS)
    return ValueError(f"expected data as one of {forms}, got {spec!r}; {hint}")
