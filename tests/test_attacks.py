"""Attacks on a certificate by models and inputs: each of these once got a certificate that was not true of any one model."""

import itertools
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import recert
from recert import Gaussian
from recert.errors import ContextMismatch, UnusableInputs, UnusableModel
from recert.models.digest import identify
from recert.noise import Stream

NOISE = Gaussian(0.5)


def points(count: int = 12) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)


class Net(nn.Module):
    """A linear network; what the attacks do to it is in `wrong`."""

    def __init__(self, wrong: Callable[[Tensor, "Net"], Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)
        self.wrong = wrong
        self.calls = 0
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out: Tensor = self.linear(x)
        return out if self.wrong is None else self.wrong(out, self)


def certify(model: Any, x: np.ndarray | None = None, **options: Any) -> recert.Cache:
    options = {"noise": NOISE, "samples": 200, "batch_size": 64, **options}
    return recert.certify(model, points() if x is None else x, **options)


# ---- rows that depend on other rows ----


def capacity_of_an_expert(out: Tensor, net: Net) -> Tensor:
    """Rows of class 0 beyond the sixteenth of their batch go to another expert: earlier rows decide."""
    chosen = out.argmax(-1) == 0
    return torch.where((chosen & (chosen.cumsum(0) > 16))[:, None], -out, out)


def running_mean(out: Tensor, net: Net) -> Tensor:
    return out - out.cumsum(0) / torch.arange(1, len(out) + 1)[:, None]


def the_first_row(out: Tensor, net: Net) -> Tensor:
    return out - out[:1]


def the_last_row(out: Tensor, net: Net) -> Tensor:
    return out - out[-1:]


def the_row_before(out: Tensor, net: Net) -> Tensor:
    return out - out.roll(1, 0)


def the_place_in_the_batch(out: Tensor, net: Net) -> Tensor:
    return out * torch.linspace(-1, 1, len(out))[:, None]


def the_maximum(out: Tensor, net: Net) -> Tensor:
    return out / out.abs().amax()


ROWS = [
    capacity_of_an_expert, running_mean, the_first_row, the_last_row, the_row_before, the_place_in_the_batch, the_maximum,
]  # fmt: skip


@pytest.mark.parametrize("wrong", ROWS, ids=lambda wrong: wrong.__name__)
@pytest.mark.parametrize("batch_size", [64, 256])
def test_rows_that_depend_on_other_rows_are_refused(wrong: Any, batch_size: int) -> None:
    with pytest.raises(UnusableModel, match="depends on the other rows"):
        certify(Net(wrong), batch_size=batch_size)


def test_a_network_that_looks_at_how_many_rows_there_are_is_refused() -> None:
    """With 64 rows one class is certified, with 32 another."""
    with pytest.raises(UnusableModel, match="depends on how many rows"):
        certify(Net(lambda out, net: out if len(out) < 64 else -out), batch_size=64)
    assert len(certify(Net(lambda out, net: out if len(out) < 65 else -out), batch_size=64).certificates) == 12


@pytest.mark.parametrize("expert", [0, 1])
@pytest.mark.parametrize("share", [0.7, 0.9])
def test_experts_that_overflow_only_in_batches_of_one_input(expert: int, share: float) -> None:
    """The probe's batches hold all inputs in turn, and rarely fill one expert. Votes that are drawn again lie beside others."""

    def overflow(out: Tensor, net: Net) -> Tensor:
        chosen = out.argmax(-1) == expert
        return torch.where((chosen & (chosen.cumsum(0) > share * len(out)))[:, None], -out, out)

    with pytest.raises(UnusableModel, match=r"does not vote as it did.*rows around|depends on the other rows"):
        certify(Net(overflow), samples=1_000)


# ---- models that change while they vote ----


class Counts(Net):
    """Votes otherwise after so many calls: by a number, by the clock, or by its own weights."""

    def __init__(self, how: str, after: int = 12) -> None:
        super().__init__()
        self.how, self.after = how, after
        self.begun: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.how == "weights" and self.calls == self.after:
            self.linear.weight.neg_()
        out: Tensor = self.linear(x)
        late = self.calls > self.after
        return -out if late and self.how != "weights" else out


def changes_its_weights() -> nn.Module:
    return Counts("weights")


def counts_its_calls() -> nn.Module:
    return Counts("counter")


def looks_at_the_clock() -> nn.Module:
    calls = itertools.count()

    def late(out: Tensor, net: Net) -> Tensor:
        return -out if next(calls) > 12 and time.monotonic() > 0 else out

    return Net(late)


@pytest.mark.parametrize(
    "make", [changes_its_weights, counts_its_calls, looks_at_the_clock], ids=lambda make: make.__name__
)
@pytest.mark.parametrize("stored", [False, True])
def test_a_model_that_changes_while_it_votes_is_refused(make: Any, stored: bool, tmp_path: Path) -> None:
    store = tmp_path / "cache" if stored else None
    with pytest.raises(UnusableModel, match=r"was changed while|does not vote as it did"):
        certify(make(), store=store, identity="mine", samples=400)
    if store is not None and (store / "_manifest.json").exists():
        assert not list(store.glob("*.parquet"))  # nothing of it was sealed


def test_a_late_change_of_some_of_the_votes() -> None:
    calls = itertools.count()

    def late(out: Tensor, net: Net) -> Tensor:
        return out + torch.tensor([0.3, 0.0, 0.0]) if next(calls) > 12 else out

    with pytest.raises(UnusableModel, match="does not vote as it did"):
        certify(Net(late), samples=1_000)


def test_a_change_in_some_batches_of_few_inputs() -> None:
    """One batch in twenty, at random, after the probe: votes that are drawn again are chosen evenly among all batches."""
    calls, chance = itertools.count(), random.Random(1)

    def sometimes(out: Tensor, net: Net) -> Tensor:
        return -out if next(calls) > 10 and chance.random() < 0.05 else out

    with pytest.raises(UnusableModel, match="does not vote as it did"):
        certify(Net(sometimes), points(2), samples=20_000)


def test_a_function_that_changes_is_refused() -> None:
    calls, net = itertools.count(), Net()
    with pytest.raises(UnusableModel, match="does not vote as it did"):
        certify(lambda batch: net(batch) * (1 if next(calls) < 12 else -1), samples=400)


def test_weights_that_another_thread_changes() -> None:
    """Once the first part is drawn, by whoever holds the model: here by the function that shows progress."""
    net = Net()

    def fine_tune(progress: recert.Progress) -> None:
        if progress.done > 1_000:
            with torch.no_grad():
                net.linear.weight.mul_(1.0001)

    with pytest.raises(UnusableModel, match="was changed while its votes were drawn"):
        certify(net, progress=fine_tune)


def test_prediction_and_recertification_look_too() -> None:
    with pytest.raises(UnusableModel, match=r"does not vote as it did|was changed"):
        recert.predict(Counts("counter"), points(), noise=NOISE, samples=400, batch_size=64)
    cache = certify(Net(), samples=2_000)
    with pytest.raises(UnusableModel, match=r"does not vote as it did|was changed"):
        recert.recertify(Counts("counter"), points(), cache, samples=400, batch_size=64)


# ---- modes around the call ----


def test_autocast_around_the_call_changes_nothing() -> None:
    plain = certify(Net())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = certify(Net())
    assert plain.manifest.numerics == inside.manifest.numerics
    assert np.array_equal(plain.counts(Stream.ESTIMATION), inside.counts(Stream.ESTIMATION))


class Negates(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return -out if func is torch.nn.functional.linear else out


def test_a_mode_around_the_call_is_refused() -> None:
    with Negates(), pytest.raises(UnusableModel, match="Negates"):
        certify(Net())
    with torch.device("cpu"):  # torch's own
        certify(Net())


def test_the_default_type_is_recorded() -> None:
    before = torch.get_default_dtype()
    net = Net()
    torch.set_default_dtype(torch.float64)
    try:
        inside = certify(net)
    finally:
        torch.set_default_dtype(before)
    assert inside.manifest.numerics != certify(Net()).manifest.numerics


# ---- inputs and labels ----


@pytest.mark.parametrize("size", [1e8, -1e8, 3e7])
def test_inputs_beside_which_the_noise_is_rounded_away(size: float) -> None:
    x = points()
    x[3, 1] = size
    with pytest.raises((ValueError, UnusableInputs), match="noise"):
        certify(Net(), x)


def test_inputs_that_are_large_but_hold_the_noise() -> None:
    assert len(certify(Net(), 200 * points()).certificates) == 12


@pytest.mark.parametrize("label", [3, -2, 2**32 + 1, 2**40, -(2**32)])
def test_labels_beyond_the_classes_are_refused(label: int) -> None:
    with pytest.raises(UnusableModel, match="labels from 0 to 2"):
        certify(lambda batch: torch.full((len(batch),), label, dtype=torch.int64), classes=3)


# ---- the second line of defence ----


def test_a_store_is_not_continued_with_a_model_of_the_same_name(tmp_path: Path) -> None:
    """A function is known only by the name that its user gives it, and here the user is wrong."""
    net = Net()
    certify(lambda batch: net(batch), store=tmp_path / "cache", identity="api-1", classes=3)
    with pytest.raises(ContextMismatch, match="noises that were replayed"):
        certify(lambda batch: -net(batch), store=tmp_path / "cache", identity="api-1", classes=3, samples=300)
    again = certify(lambda batch: net(batch), store=tmp_path / "cache", identity="api-1", classes=3, samples=300)
    assert again.manifest.samples == 300


def test_votes_that_were_kept_are_not_used_for_another_model_of_the_same_name(tmp_path: Path) -> None:
    cache, net = certify(Net(), samples=2_000, store=tmp_path / "cache"), Net()
    options: dict[str, Any] = {"samples": 300, "identity": "api-1", "batch_size": 64}
    recert.recertify(lambda batch: net(batch), points(), cache, **options)
    with pytest.warns(UserWarning, match="noises that were replayed"):
        now = recert.recertify(lambda batch: -net(batch), points(), cache, **options)
    truth = recert.recertify(lambda batch: -net(batch), points(), cache, keep=False, **options)
    assert np.array_equal(now.prediction, truth.prediction)
    assert np.array_equal(now.radius, truth.radius)


class Centred(nn.Module):
    """The common idiom that gave two networks one identity."""

    def __init__(self, mean: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)
        self.mean = torch.tensor(mean)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x - self.mean)
        return out


def test_networks_with_another_mean_do_not_share_a_store(tmp_path: Path) -> None:
    certify(Centred(0.0), store=tmp_path / "cache")
    with pytest.raises(ContextMismatch, match="structure"):
        certify(Centred(2.0), store=tmp_path / "cache", samples=300)
    with pytest.raises(ContextMismatch, match="structure"):
        certify(Centred(2.0), store=tmp_path / "cache", identity="the same", samples=300)


def test_two_programs_with_the_same_weights_do_not_share_a_store(tmp_path: Path) -> None:
    from recert.models import load_model

    batch = torch.export.Dim("batch", min=1, max=1024)
    for name, sign in (("plain", 1), ("negated", -1)):
        program = torch.export.export(Negated(sign), (torch.zeros(2, 4),), dynamic_shapes=({0: batch},))
        torch.export.save(program, tmp_path / f"{name}.pt2")
    plain, negated = (load_model(tmp_path / f"{name}.pt2", trust=True).model for name in ("plain", "negated"))
    certify(plain, store=tmp_path / "cache")
    with pytest.raises(ContextMismatch, match="structure"):
        certify(negated, store=tmp_path / "cache", samples=300)


class Negated(nn.Module):
    def __init__(self, sign: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)
        self.sign = sign
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x) * self.sign
        return out


def test_a_model_that_cannot_be_looked_into_needs_a_name(tmp_path: Path) -> None:
    secret = iter([1])
    net = Net(lambda out, net: out if secret is not None else -out)
    with pytest.raises(ValueError, match=r"identity=.*wrong.*list_iterator"):
        certify(net, store=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    assert len(certify(net).certificates) == 12  # without a store there is nothing that it could be taken for
    assert len(certify(net, store=tmp_path / "cache", identity="mine-1").certificates) == 12


def test_a_compiled_network_continues_the_store_of_the_plain_one(tmp_path: Path) -> None:
    certify(Centred(0.0), store=tmp_path / "cache")
    compiled: Any = torch.compile(Centred(0.0), backend="eager")
    assert identify(compiled) == identify(Centred(0.0))
    assert certify(compiled, store=tmp_path / "cache", samples=300).manifest.samples == 300
