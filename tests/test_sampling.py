"""Sampling: packing, padding, memory, and every way in which a model can be wrong."""

import math
import re
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recert
from recert import Gaussian, Progress
from recert.caching import CachingSource
from recert.errors import UnusableModel
from recert.noise import Stream
from recert.noise.stream import NoisyRows
from recert.sampling import Sampler, Work, batch_size, collect
from recert.votes import nobody, vote_dtype

NOISE = Gaussian(0.7)


def linear_model(size: int = 6, classes: int = 4, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(size, 16), nn.ReLU(), nn.Linear(16, classes)).eval()


def inputs(count: int = 5, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *(shape or (6,)))).astype(np.float32)


def draw(model: object, x: np.ndarray, works: list[Work], **options: object) -> list[np.ndarray]:
    sampler = Sampler(model, x, noise=NOISE, seed=3, **options)  # type: ignore[arg-type]
    return [drawn.votes for drawn in collect(sampler, works, "test")]


def estimation(count: int, samples: int) -> list[Work]:
    return [Work(i, Stream.ESTIMATION, range(samples)) for i in range(count)]


def test_votes_are_the_models_argmax_on_the_stream() -> None:
    """One vote at a time, computed by hand, against packed batches."""
    model, x = linear_model(), inputs()
    sampler = Sampler(model, x, noise=NOISE, seed=3, batch_size=8)
    votes = [drawn.votes for drawn in collect(sampler, estimation(5, 13), "test")]
    for i in range(5):
        for s in range(13):
            batch = sampler._lane.noisy(NoisyRows(np.array([i]), np.array([s]), np.array([int(Stream.ESTIMATION)])))
            assert votes[i][s] == int(model(batch).argmax())


def test_order_subset_and_packing_do_not_matter() -> None:
    model, x = linear_model(), inputs(7)
    whole = draw(model, x, estimation(7, 50), batch_size=32)
    order = [4, 0, 6, 2]
    shuffled = draw(model, x[order], estimation(4, 50), batch_size=32)
    assert all(np.array_equal(shuffled[i], whole[j]) for i, j in enumerate(order))
    odd = [Work(i, Stream.ESTIMATION, np.arange(1, 50, 2)) for i in reversed(range(7))]
    assert all(np.array_equal(v, whole[6 - i][1::2]) for i, v in enumerate(draw(model, x, odd, batch_size=32)))
    mixed = [Work(i, stream, range(9)) for i in range(7) for stream in (Stream.SELECTION, Stream.ESTIMATION)]
    assert all(np.array_equal(v, whole[i][:9]) for i, v in enumerate(draw(model, x, mixed, batch_size=32)[1::2]))


@pytest.mark.parametrize("batch_size", [1, 7, 256])
def test_batch_size_does_not_matter_here(batch_size: int) -> None:
    expected = draw(linear_model(), inputs(), estimation(5, 60), batch_size=32)
    assert np.array_equal(draw(linear_model(), inputs(), estimation(5, 60), batch_size=batch_size), expected)


def test_every_batch_has_one_padded_shape() -> None:
    shapes = []

    class Shapes(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            shapes.append(tuple(batch.shape))
            return batch[:, 0, :2]

    draw(Shapes().eval(), inputs(3, 2, 5), estimation(3, 7), batch_size=4)
    assert shapes.count((4, 2, 5)) == 5 + 6  # the probe, then 21 samples in batches of 4
    assert set(shapes) - {(4, 2, 5)} <= {(1, 2, 5)}  # the probe asks for one row alone
    assert shapes[-6:] == [(4, 2, 5)] * 6


@pytest.mark.parametrize("shape", [(3, 8, 8), (10,), (2, 3, 4, 5), (1,)])
def test_any_input_shape(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    votes = draw(linear_model(size), inputs(2, *shape), estimation(2, 20))
    assert np.concatenate(votes).max() < 4


@pytest.mark.parametrize(
    ("classes", "dtype"), [(2, np.uint8), (255, np.uint8), (256, np.uint16), (65_535, np.uint16), (65_536, np.uint32)]
)
def test_votes_are_the_smallest_integer_that_fits(classes: int, dtype: type) -> None:
    assert vote_dtype(classes) == dtype
    if classes <= 256:
        assert draw(linear_model(classes=classes), inputs(), estimation(5, 3))[0].dtype == dtype


def test_logits_that_are_not_finite_vote_for_nobody() -> None:
    def model(batch: Tensor) -> Tensor:
        logits = batch[:, :3].clone()
        logits[batch[:, 3] > 0.5, 1] = float("nan")
        logits[batch[:, 3] < -0.5, 2] = float("inf")
        return logits

    x = inputs(1)
    votes = draw(model, x, estimation(1, 400))[0]
    share = np.mean(votes == nobody(votes.dtype))
    assert 0.2 < share < 0.8
    assert set(np.unique(votes)) <= {0, 1, 2, 255}


def test_labels_and_arrays_are_accepted() -> None:
    expected = draw(linear_model(), inputs(), estimation(5, 40))
    model = linear_model()
    labels = draw(lambda batch: model(batch).argmax(dim=1), inputs(), estimation(5, 40), classes=4)
    arrays = draw(lambda batch: model(batch).detach().numpy(), inputs(), estimation(5, 40))
    assert np.array_equal(labels, expected)
    assert np.array_equal(arrays, expected)


class Wrapped:
    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


def test_wrapped_logits_are_unwrapped() -> None:
    model = linear_model()
    assert np.array_equal(
        draw(lambda batch: Wrapped(model(batch)), inputs(), estimation(5, 40)), draw(model, inputs(), estimation(5, 40))
    )


class Mixed(nn.Module):
    def __init__(self, *tensors: Tensor) -> None:
        super().__init__()
        for i, tensor in enumerate(tensors):
            self.register_buffer(f"t{i}", tensor)
        self.eval()

    def forward(self, batch: Tensor) -> Tensor:
        return batch


def dropout_model() -> nn.Module:
    class Noisy(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            return nn.functional.dropout(batch, 0.5, training=True)

    return Noisy().eval()


BAD_MODELS = {
    "training mode": (linear_model().train(), "call model.eval()"),
    "wrong shape": (lambda batch: batch[:, :, None], "check the last layer"),
    "too few rows": (lambda batch: batch[1:], "check the last layer"),
    "one class": (lambda batch: batch[:, :1], "check the last layer"),
    "float labels": (lambda batch: batch[:, 0], "check the last layer"),
    "a number": (lambda batch: batch.sum(), "check the last layer"),
    "a list": (lambda batch: [batch], "returns one tensor"),
    "labels without classes": (lambda batch: batch[:, 0].long() * 0, "pass classes="),
    "two devices": (Mixed(torch.zeros(1), torch.zeros(1, device="meta")), "on one device, got cpu, meta"),
    "two types": (
        Mixed(torch.zeros(1), torch.zeros(1).half()),
        "one floating-point type, got torch.float16, torch.float32",
    ),
    "its own randomness": (dropout_model(), "not deterministic"),
    "batch statistics": (lambda batch: batch / batch.abs().max(), "depends on the other rows"),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models_are_refused_with_the_reason(name: str) -> None:
    model, message = BAD_MODELS[name]
    with pytest.raises(UnusableModel, match=re.escape(message)):
        draw(model, inputs(), estimation(5, 10), batch_size=16)


def test_a_submodule_in_training_mode_is_found() -> None:
    model = linear_model()
    model[1].train()
    with pytest.raises(UnusableModel, match=r"training mode \(1\)"):
        draw(model, inputs(), estimation(5, 10))


def test_wrong_device_and_wrong_labels() -> None:
    with pytest.raises(UnusableModel, match="expected the model on meta, got it on cpu"):
        draw(linear_model(), inputs(), estimation(5, 10), device="meta")
    with pytest.raises(UnusableModel, match="labels from 0 to 1"):
        draw(lambda batch: batch[:, 0].long() * 0 + 5, inputs(), estimation(5, 10), classes=2)


BAD_INPUTS = {
    "images in bytes": (np.zeros((2, 3), np.uint8), "images / 255"),
    "double precision": (np.zeros((2, 3)), "astype"),
    "one input": (np.zeros(3, np.float32), r"x\[None\]"),
    "none": (np.zeros((0, 3), np.float32), "at least one input"),
    "not a number": (np.array([[0, 1], [np.nan, 0]], np.float32), "input 1"),
    "no inputs": (None, "only StoredVotes"),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_inputs_are_refused_with_the_reason(name: str) -> None:
    values, message = BAD_INPUTS[name]
    with pytest.raises(ValueError, match=message):
        Sampler(linear_model(), values, noise=NOISE, seed=0)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), RuntimeError("can't allocate memory: 9 bytes")],
)
@pytest.mark.parametrize("limit", [1, 5, 30])
def test_an_out_of_memory_batch_is_halved_and_retried(error: Exception, limit: int) -> None:
    model = linear_model()

    def small(batch: Tensor) -> Tensor:
        if len(batch) > limit:
            raise error
        return model(batch)

    sampler = Sampler(small, inputs(), noise=NOISE, seed=3, batch_size=64)
    votes = [drawn.votes for drawn in collect(sampler, estimation(5, 37), "test")]
    assert np.array_equal(votes, draw(model, inputs(), estimation(5, 37), batch_size=8))
    assert limit / 2 < sampler.batch_size <= limit
    assert sampler.numerics.text("batch_size") == str(sampler.batch_size)


def tiring(model: nn.Module, most: int) -> Callable[[Tensor], Tensor]:
    """A model that after some batches has memory for this many samples at most."""
    calls = []

    def answer(batch: Tensor) -> Tensor:
        calls.append(len(batch))
        if len(calls) > 5 and len(batch) > most:
            raise MemoryError
        answered: Tensor = model(batch)
        return answered

    return answer


def test_memory_that_runs_out_midway_loses_nothing() -> None:
    model = linear_model()
    sampler = Sampler(tiring(model, 10), inputs(), noise=NOISE, seed=3, batch_size=32)
    votes = [drawn.votes for drawn in collect(sampler, estimation(5, 37), "test")]
    assert np.array_equal(votes, draw(model, inputs(), estimation(5, 37), batch_size=32))
    assert sampler.batch_size == 8


def test_memory_for_a_single_sample_is_needed() -> None:
    def never(batch: Tensor) -> Tensor:
        raise MemoryError

    with pytest.raises(UnusableModel, match="single sample per batch"):
        draw(never, inputs(), estimation(5, 10))


def test_a_model_for_other_inputs_is_refused() -> None:
    with pytest.raises(UnusableModel, match=r"inputs of shape \(6,\): mat1 and mat2"):
        draw(linear_model(7), inputs(), estimation(5, 10))


def test_progress_counts_forward_passes() -> None:
    events: list[Progress] = []
    sampler = Sampler(linear_model(), inputs(), noise=NOISE, seed=3, batch_size=16)
    collect(sampler, estimation(5, 10), "counting", events.append)
    assert [e.done for e in events] == [16, 32, 48, 50]
    assert {(e.task, e.total) for e in events} == {("counting", 50)}


PEAK = """
import resource, sys, numpy as np, torch, recert
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 30 * 30, 10)).eval()
recert.certify(net, np.zeros((1, 3, 32, 32), np.float32), noise=recert.Gaussian(0.5), samples=int(sys.argv[1]), batch_size=128)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_peak_memory_does_not_grow_with_the_number_of_samples() -> None:
    peaks = [
        int(subprocess.run([sys.executable, "-c", PEAK, str(n)], capture_output=True, text=True, check=True).stdout)
        for n in (1_000, 100_000)
    ]
    assert peaks[1] < 1.1 * peaks[0]


def test_a_source_is_not_taken_for_another() -> None:
    """A source draws with its own noise on its own inputs, whatever it is asked to be about."""
    source = Sampler(linear_model(), inputs(), noise=NOISE, seed=3)
    for options, words in (
        ({"noise": Gaussian(2 * NOISE.sigma), "seed": 3}, "source of votes with noise"),
        ({"noise": NOISE, "seed": 4}, "source of votes with seed"),
    ):
        with pytest.raises(ValueError, match=words):
            recert.certify(CachingSource(source), inputs(), samples=100, **options)
    with pytest.raises(ValueError, match="the inputs that the source of votes was made with"):
        recert.certify(source, inputs() + 1, samples=100, noise=NOISE, seed=3)


def test_memory_that_runs_out_again_while_a_smaller_lane_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    model = linear_model()
    sampler = Sampler(tiring(model, 8), inputs(), noise=NOISE, seed=3, batch_size=32)
    made = sampler._new_lane

    def short_of_memory() -> object:
        if sampler.batch_size > 8:
            raise MemoryError
        return made()

    monkeypatch.setattr(sampler, "_new_lane", short_of_memory)
    votes = [drawn.votes for drawn in collect(sampler, estimation(5, 37), "test")]
    assert np.array_equal(votes, draw(model, inputs(), estimation(5, 37), batch_size=32))
    assert sampler.batch_size == 8


class Timed(nn.Module):
    """Two logits; a pass takes so many milliseconds a row, and says how many rows it saw."""

    def __init__(self, milliseconds: Callable[[int], float]) -> None:
        super().__init__()
        self.milliseconds = milliseconds
        self.rows: list[int] = []

    def forward(self, batch: Tensor) -> Tensor:
        self.rows.append(len(batch))
        time.sleep(len(batch) * self.milliseconds(len(batch)) / 1_000)
        return batch.flatten(1)[:, :2]


@pytest.mark.parametrize(
    ("milliseconds", "fastest"),
    [
        (lambda rows: 2.0, 32),  # as usual where it makes no difference
        (lambda rows: 2.0 if rows < 128 else 1.0, 32),  # never tried: 64 is no better
        (lambda rows: 64 / rows, 512),
        (lambda rows: rows / 16, 16),  # and no smaller: a batch has costs beside the network's
        (lambda rows: 0.1 if rows <= 32 else 0.05, 32),  # a batch of 32 takes 3 ms: too fast to bother
    ],
)
def test_the_batch_size_on_a_cpu_is_found_by_timing(milliseconds: Callable[[int], float], fastest: int) -> None:
    model = Timed(milliseconds).eval()
    sampler = Sampler(model, inputs(2, 3, 32, 32), noise=NOISE, seed=3)
    assert sampler.batch_size == fastest
    assert sampler.numerics.batch_size == fastest
    asked = Timed(milliseconds).eval()
    assert Sampler(asked, inputs(2, 3, 32, 32), noise=NOISE, seed=3, batch_size=16).batch_size == 16
    assert set(asked.rows) == {16, 1}  # a size that is given is not searched for, and one row comes alone


@pytest.mark.parametrize(
    ("gain", "found"),
    [
        ({}, 512),  # all sizes alike
        (
            {1024: 1.015, 2048: 1.015, 4096: 1.015, 8192: 1.015},
            4096,
        ),  # by one step too little is gained, by two it is worth it
        ({1024: 1.5, 2048: 1.3, 4096: 1.05, 8192: 1.01, 16384: 1.005}, 4096),
        ({1024: 1.5, 2048: 1.3, 4096: 0.9, 8192: 9.0}, 2048),  # never tried: 4,096 is no better
        ({1024: 1.2, 2048: 1.2, 4096: 0.0}, 2048),  # no memory for more
    ],
)
def test_on_a_device_the_smallest_batch_that_is_nearly_fastest_is_taken(
    gain: dict[int, float], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where few votes are wanted a larger one is mostly padding. The device is idle before, and half as fast for the first two timings."""
    timings = [0]

    def rate(_: object, shape: tuple[int, ...], size: int) -> float:
        timings[0] += 1
        here = math.prod(gain.get(2**k, 1.0) for k in range(10, size.bit_length()))
        if here == 0:
            raise torch.OutOfMemoryError
        return here * (0.5 if timings[0] <= 2 else 1.0)

    monkeypatch.setattr(batch_size, "_samples_per_second", rate)
    network = SimpleNamespace(device=torch.device("cuda"))
    assert batch_size.fastest_batch_size(network, (3, 32, 32), 512) == found  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_network_of_convolutions_takes_batches_of_any_size(batch_size: int) -> None:
    """The probe keeps the memory format: in another one the last bits differ, and the network would be refused."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.Conv2d(64, 64, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    draw(model, inputs(2, 3, 112, 112), estimation(2, 2), batch_size=batch_size)
