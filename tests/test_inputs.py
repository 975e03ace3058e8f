"""Inputs in every form that people have them in give the same certificates; units that are probably meant otherwise are remarked on."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset

import recert
from recert.approximations import Calibration
from recert.data import load_data
from recert.units import UnusualUnits, unusual_units

NOISE = recert.Gaussian(0.5)
ROWS: dict[str, Any] = {"batch_size": 32}  # of a batch: nothing is timed
X = np.random.default_rng(0).random((7, 3, 2, 2)).astype(np.float32)
T = torch.from_numpy(X)
Y = torch.arange(7)


def halves(elements: int) -> nn.Module:
    """Votes 1 where the sum is above one in twelve of its elements. Of torch's own parts, whose code is known: identified at once."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(elements, 2)).eval()
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[-1.0], [1.0]]).expand(2, elements))
        model[1].bias.copy_(torch.tensor([1.0, -1.0]) * elements / 12)
    return model


MODEL = halves(12)


class Images(Dataset[Any]):
    """Arrays, without labels."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> Any:
        return X[i]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(T, Y, strict=True))


class Flipped(Images):
    """With random augmentation."""

    def __getitem__(self, i: int) -> Any:
        return T[i] + torch.rand(())


class Named(Images):
    def __getitem__(self, i: int) -> Any:
        return {"pixel_values": X[i], "label": 0}


TAKEN: dict[str, Callable[[], Any]] = {
    "a tensor": lambda: T,
    "a list of arrays": lambda: list(X),
    "a list of tensors": lambda: list(T),
    "a tuple of arrays": lambda: tuple(X),
    "a data set with labels": lambda: TensorDataset(T, Y),
    "a data set without": lambda: Images(),
    "a stream": lambda: Stream(),
    "a loader with labels": lambda: DataLoader(TensorDataset(T, Y), batch_size=3),
    "a loader without": lambda: DataLoader(Images(), batch_size=2),
    "a loader of single items": lambda: DataLoader(TensorDataset(T, Y), batch_size=None),
    "a loader of a stream": lambda: DataLoader(Stream(), batch_size=4),
    "part of a data set": lambda: torch.utils.data.Subset(TensorDataset(T, Y), range(7)),
}


@pytest.mark.parametrize("form", sorted(TAKEN.keys() - {"a loader of single items"}))
def test_every_verb_takes_every_form(form: str) -> None:
    """What comes out is as from the plain array, and the caller's random state stays as it was."""
    votes: dict[str, Any] = {"noise": NOISE, "samples": 60, "alpha": 0.05, **ROWS}
    before = torch.random.get_rng_state()
    plain = recert.certify(MODEL, X, **votes, family="bonferroni")
    cache = recert.certify(MODEL, TAKEN[form](), **votes, family="bonferroni")
    assert cache.certificates.input.tolist() == plain.certificates.input.tolist()
    assert cache.certificates.radius.tolist() == plain.certificates.radius.tolist()
    assert cache.certificates.settings.family == len(X)  # not the number of batches
    again = recert.recertify(MODEL, TAKEN[form](), cache, samples=20, method="series", family="bonferroni", **ROWS)
    assert (again.input.tolist(), again.settings.family) == (plain.certificates.input.tolist(), len(X))
    recert.draw_votes(MODEL, TAKEN[form](), cache, samples=20, method="series", execution=recert.Execution(**ROWS))
    assert recert.predict(MODEL, TAKEN[form](), noise=NOISE, samples=20, **ROWS).input.tolist() == again.input.tolist()
    assert recert.audit(MODEL, TAKEN[form](), cache, samples=50, **ROWS).input.tolist()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_select_and_compare_take_a_loader() -> None:
    loader, labels = DataLoader(TensorDataset(T, Y), batch_size=3), np.ones(7, dtype=np.int64)
    cache = recert.certify(MODEL, X, noise=NOISE, samples=60, alpha=0.05, **ROWS)
    compared = recert.compare(MODEL, loader, cache, labels, budgets=[20], methods=["series"], **ROWS)
    assert len(compared.methods["series"].results[0]) == 7
    chosen = recert.select(
        {"same": MODEL}, loader, cache, labels, metric="acr", tolerance=9.0, samples=20, cost="bytes", **ROWS
    )
    assert chosen.inputs == 7


def test_own_data_sets_and_calibrations() -> None:
    data = load_data("digits", count=3)
    got = recert.predict(halves(64), data, noise=NOISE, samples=20, **ROWS)
    assert len(got) == 3
    assert Calibration(DataLoader(Images(), batch_size=2), NOISE).digests == Calibration(X, NOISE).digests


def test_single_items_of_a_loader_are_not_batches() -> None:
    """Without batches a loader gives items: joined along their first dimension they would be other inputs."""
    got = recert.predict(MODEL, TAKEN["a loader of single items"](), noise=NOISE, samples=20, **ROWS)
    assert got.input.tolist() == recert.predict(MODEL, X, noise=NOISE, samples=20, **ROWS).input.tolist()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a generator": (lambda: (x for x in X), r"got a generator.*numpy\.stack\(list\(generator\)\)"),
    "an iterator": (lambda: map(np.asarray, X), "got a generator"),
    "a loader that shuffles": (lambda: DataLoader(Images(), shuffle=True), "got one that shuffles.*shuffle=False"),
    "a loader of single items that shuffles": (
        lambda: DataLoader(Images(), batch_size=None, shuffle=True),
        "got one that shuffles",
    ),
    "a loader of shuffled batches": (
        lambda: DataLoader(Images(), batch_sampler=BatchSampler(RandomSampler(Images()), 2, False)),
        "got one that shuffles",
    ),
    "random augmentation": (lambda: Flipped(), "another item 0 at the second reading"),
    "random augmentation in a loader": (lambda: DataLoader(Flipped()), "another item 0 at the second reading"),
    "items with names": (lambda: Named(), r"got dict; name the field.*each\['pixel_values'\]"),
    "a dictionary": (lambda: {"x": X}, "got dict"),
    "a text": (lambda: "digits", "got str"),
    "shapes that differ": (lambda: [X[0], X[1, :1]], r"one shape, got \(3, 2, 2\) and then \(1, 2, 2\) at place 1"),
    "nothing": (lambda: TensorDataset(T[:0]), "at least one input, got none"),
    "labels before inputs": (lambda: TensorDataset(Y, T), "expected float32 inputs, got int64"),
    "numbers of double precision": (lambda: X.astype(float).tolist(), "got float64"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_is_refused_and_why(form: str) -> None:
    made, message = REFUSED[form]
    with pytest.raises(ValueError, match=message):
        recert.certify(MODEL, made(), noise=NOISE, samples=60, alpha=0.05)


def test_images_of_pillow_are_refused_by_name() -> None:
    pillow = pytest.importorskip("PIL.Image")

    class Pictures(Images):
        def __getitem__(self, i: int) -> Any:
            return pillow.new("RGB", (2, 2)), 0

    with pytest.raises(ValueError, match="got Image; give the data set transform=torchvision"):
        recert.certify(MODEL, Pictures(), noise=NOISE, samples=60, alpha=0.05)


def of(shape: tuple[int, ...], low: float, high: float) -> Any:
    return np.linspace(low, high, int(np.prod(shape)), dtype=np.float32).reshape(shape)


BYTES, OTHER = "as images in 0..255 do", "not in \\[0, 1]"
RANGES: dict[str, tuple[Any, str | None]] = {
    "images": (of((2, 3, 4, 4), 0, 1), None),
    "images that were resized": (of((2, 3, 4, 4), -0.005, 1.005), None),
    "grey images in bytes": (of((2, 1, 4, 4), 0, 255), BYTES),
    "dark images in bytes": (of((2, 3, 4, 4), 0, 2.5), BYTES),
    "images in bytes, channels last": (of((2, 4, 4, 3), 0, 255), BYTES),
    "images in bytes without channels": (of((2, 4, 4), 0, 255), BYTES),
    "normalised images": (of((2, 3, 4, 4), -2.1, 2.6), OTHER),
    "images in [-1, 1]": (of((2, 3, 4, 4), -1, 1), OTHER),
    "images in [0, 2]": (of((2, 1, 4, 4), 0, 2), OTHER),
    "images of 16 bits": (of((2, 1, 4, 4), 0, 65535), OTHER),
    "standardised features": (of((9, 30), -3, 3), None),
    "raw features": (of((9, 30), 0, 250), None),
    "series": (of((9, 30, 2), -3, 3), None),
    "feature maps": (of((2, 64, 4, 4), 0, 250), None),
}


@pytest.mark.parametrize("what", RANGES)
def test_units_by_kind_of_data(what: str) -> None:
    inputs, message = RANGES[what]
    model = halves(inputs[0].size)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        recert.predict(model, inputs, noise=recert.Gaussian(1e3), samples=20, **ROWS)
    said = [str(each.message) for each in seen if issubclass(each.category, UnusualUnits)]
    if message is None:
        assert said == []
    else:
        assert len(said) == 1
        assert message.replace("\\", "") in said[0]
        assert {each.filename for each in seen} == {__file__}  # it points at the call


def test_the_remark_on_bytes_names_what_to_do() -> None:
    remark = unusual_units(of((2, 1, 4, 4), 0, 255))
    assert remark is not None
    assert "divide them by 255" in remark
    assert "half of one grey level" in remark
