"""How a network is run belongs to what is certified; running it otherwise changes few votes, and none but by rounding."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recert
from recert.errors import UnusableInputs
from recert.models import load_model
from recert.models.digest import identify
from recert.models.inference import prepare
from recert.models.onnx_export import to_onnxruntime
from recert.noise import Gaussian, Stream
from recert.sampling import Sampler, Work, collect

NOISE = Gaussian(0.5)


def images(count: int = 3) -> np.ndarray:
    return np.random.default_rng(0).random((count, 1, 8, 8), dtype=np.float32)


def votes(model: nn.Module, samples: int = 2_000) -> np.ndarray:
    sampler = Sampler(model, images(), noise=NOISE, seed=0)
    return np.stack(
        [d.votes for d in collect(sampler, [Work(i, Stream.ESTIMATION, range(samples)) for i in range(3)], "")]
    )


@pytest.fixture(scope="module")
def digits() -> nn.Module:
    return load_model("digits:0.5").model


def test_choices_are_part_of_the_identity(digits: nn.Module) -> None:
    prepared = [
        prepare(digits), prepare(digits, channels_last=False), prepare(digits, precision="fp32"), prepare(digits, precision="bf16"),
        prepare(digits, compile=True),
    ]  # fmt: skip
    assert len({identify(model) for model in (digits, *prepared)}) == 6
    assert identify(prepare(digits)) == identify(prepare(digits))


def test_the_given_network_stays_as_it_is(digits: nn.Module) -> None:
    before = identify(digits), [p.stride() for p in digits.parameters()]
    prepare(digits, precision="bf16")
    to_onnxruntime(digits, images())
    assert (identify(digits), [p.stride() for p in digits.parameters()]) == before


def test_how_it_is_run_is_part_of_the_identity_in_the_words_of_old_stores(digits: nn.Module) -> None:
    """Stores know prepared models by these words: other words would be other models."""
    half = copy.deepcopy(digits).to(torch.bfloat16)
    for options, network, words in (
        ({}, digits, "channels-last"),
        ({"channels_last": False}, digits, "as it is"),
        ({"precision": "fp32"}, digits, "fp32, channels-last"),
        ({"precision": "bf16", "channels_last": False, "compile": True}, half, "bf16, compiled"),
    ):
        assert identify(prepare(digits, **options)) == identify(network, f" run as {words}")  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_few_votes_differ(digits: nn.Module, precision: str) -> None:
    differing = np.mean(votes(prepare(digits, precision=precision)) != votes(digits))
    assert differing <= (0.0005 if precision == "fp32" else 0.02)


def test_onnxruntime_votes_as_torch_does(digits: nn.Module) -> None:
    exported = to_onnxruntime(digits, images())
    assert np.mean(votes(exported) != votes(digits)) <= 0.0005
    assert identify(exported) == identify(to_onnxruntime(digits, images()))


def test_prepared_networks_can_be_sent_and_copied(digits: nn.Module) -> None:
    prepared = prepare(digits, compile=True)
    prepared._compiled = lambda batch: batch  # what cannot be sent
    for twin in (copy.deepcopy(prepared), pickle.loads(pickle.dumps(prepared))):
        assert identify(twin) == identify(prepared)
        assert twin._compiled is None


def test_torchs_flags_are_as_they_were(digits: nn.Module) -> None:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark
    seen = []

    class Looks(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            seen.append((torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32))
            return torch.zeros(len(batch), 2)

    prepare(Looks().eval(), precision="fp32")(torch.zeros(2, 3))
    after = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark
    assert seen == [(False, False)]
    assert before == after


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "fp8"}, "one of fp32, tf32, bf16, fp16, got 'fp8'"),
        ({"precision": "tf32"}, "a network on a CUDA device"),
    ],
)
def test_bad_choices(digits: nn.Module, options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        prepare(digits, **options)


def test_only_torch_networks_are_prepared(digits: nn.Module) -> None:
    with pytest.raises(ValueError, match="onnxruntime"):
        prepare(to_onnxruntime(digits, images()))
    with pytest.raises(ValueError, match="not prepared yet"):
        prepare(prepare(digits))


def test_a_network_that_needs_plain_memory_gets_it() -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, 4, 3, stride=2), nn.Linear(36, 3)

        def forward(self, batch: Tensor) -> Tensor:
            return self.head(self.conv(batch).view(len(batch), -1))

    sampler = Sampler(Views().eval(), images(), noise=NOISE, seed=0)
    assert sampler.numerics.text("memory_format") == "contiguous"


class RaisesOn(nn.Module):
    """Raises when a row is a noisy copy of one image: that one is darker than any other."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, batch: Tensor) -> Tensor:
        brightness = batch.flatten(1).mean(dim=1)
        if bool((brightness < self.limit).any()):
            raise RuntimeError("a dark image")
        return torch.stack([brightness, 1 - brightness], dim=1)


def test_an_input_on_which_the_network_raises_is_named_and_the_others_are_drawn(tmp_path: object) -> None:
    x = images(5) + 1
    x[3] -= 5
    with pytest.raises(UnusableInputs, match=r"1 of 5 inputs: input 3 .*a dark image") as caught:
        recert.certify(
            RaisesOn(-1.0).eval(),
            x,
            noise=Gaussian(0.1),
            samples=700,
            store=tmp_path,
            batch_size=64,
            selection_samples=100,
        )
    assert list(caught.value.failures) == [3]
    others = np.delete(x, 3, axis=0)
    whole = recert.certify(
        RaisesOn(-1.0).eval(), others, noise=Gaussian(0.1), samples=700, batch_size=64, selection_samples=100
    )
    again = recert.certify(
        RaisesOn(-1.0).eval(),
        others,
        noise=Gaussian(0.1),
        samples=700,
        store=tmp_path,
        batch_size=64,
        selection_samples=100,
    )
    assert np.array_equal(again.counts(Stream.ESTIMATION), whole.counts(Stream.ESTIMATION))
