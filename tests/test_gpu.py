"""On a CUDA device: the same bits of noise, the same votes up to the network's own rounding, recovery from lack of memory.

Run with: pytest -m gpu
"""

import copy
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

import recert
from recert import Gaussian
from recert.data import Dataset
from recert.models.digest import identify
from recert.noise import Stream
from recert.noise.stream import NoisyRows, perturb, perturb_into
from recert.registration import function_named
from recert.sampling import Sampler, Work, collect
from recert.training import train

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
GOLDEN = "0ab34ac0fa60b10d329a7ab08c021c62812167f7851be0083e0e6a57d8021d18"


def rows(count: int) -> NoisyRows:
    return NoisyRows(np.zeros(count, np.int64), np.arange(count), np.full(count, int(Stream.ESTIMATION)))


def test_triton_gives_the_golden_hash() -> None:
    z = perturb(torch.zeros(1, 3072, device="cuda"), np.array([0xFEDCBA9876543210], np.uint64), rows(64), Gaussian(1.0))
    assert hashlib.sha256(z.cpu().numpy().tobytes()).hexdigest() == GOLDEN


NOISES = [
    Gaussian(0.37),
    recert.Laplace(0.37),
    recert.Uniform(0.37),
    recert.Splitting(0.37),
    Gaussian(0.37, grid=1 / 255),
    Gaussian(1.0, grid=1 / 1024),
]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("size", [1, 3, 5, 17, 784, 3072, 150_528])
def test_triton_plain_torch_and_numba_agree_bit_for_bit(size: int, noise: recert.Noise) -> None:
    rng = np.random.default_rng(size)
    x = torch.from_numpy(rng.random((3, size), dtype=np.float32))
    keys = rng.integers(0, 2**63, 3).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    wanted = NoisyRows(rng.integers(0, 3, 50), rng.integers(0, 2**32, 50), rng.integers(0, 4, 50))
    here = perturb(x, keys, wanted, noise)
    there = perturb(x.cuda(), keys, wanted, noise).cpu()
    columns = (wanted.rows, keys.view(np.int64), wanted.samples, wanted.streams)
    in_torch, about = function_named(noise.kernels.torch), (noise.scale, *noise.kernels.numbers)
    plain = in_torch(x.cuda(), *(torch.from_numpy(c).cuda() for c in columns), *about).cpu()
    assert torch.equal(here, there)
    assert torch.equal(here, plain)


@pytest.mark.parametrize(
    "noise", [Gaussian(0.37), recert.Laplace(0.37), recert.Splitting(0.37), Gaussian(0.37, grid=1 / 255)], ids=str
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (5, 7, 3), (3, 224, 224)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_noise_straight_into_the_batch_is_the_same_noise(
    dtype: torch.dtype, shape: tuple[int, ...], layout: torch.memory_format, noise: recert.Noise
) -> None:
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.random((4, int(np.prod(shape))), dtype=np.float32))
    keys = rng.integers(0, 2**63, 4).astype(np.uint64)
    wanted = NoisyRows(rng.integers(0, 4, 33), rng.integers(0, 2**32, 33), rng.integers(0, 4, 33))
    expected = perturb(x, keys, wanted, noise).reshape(-1, *shape).to(dtype)
    out = torch.empty((33, *shape), dtype=dtype, device="cuda", memory_format=layout)
    columns = (wanted.rows, keys.view(np.int64), wanted.samples, wanted.streams)
    perturb_into(out, x.cuda(), *(torch.from_numpy(c).cuda() for c in columns), noise)
    assert torch.equal(out.cpu(), expected)


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(256, 10)
    ).eval()  # fmt: skip


def images(count: int = 4) -> np.ndarray:
    return np.random.default_rng(0).random((count, 3, 32, 32), dtype=np.float32)


def votes(model: torch.nn.Module, batch_size: int) -> np.ndarray:
    sampler = Sampler(model, images(), noise=Gaussian(0.5), seed=0, batch_size=batch_size)
    return np.stack(
        [d.votes for d in collect(sampler, [Work(i, Stream.ESTIMATION, range(5_000)) for i in range(4)], "test")]
    )


def test_votes_across_devices_and_batch_sizes_differ_only_by_rounding() -> None:
    reference = votes(network(), 256)
    for batch_size in (64, 256, 1_000, 4_096):
        differing = np.mean(votes(network().cuda(), batch_size) != reference)
        print(f"batch {batch_size}: {differing:.5f} of the votes differ from the CPU's")
        assert differing < 0.005


def test_the_same_votes_twice() -> None:
    assert np.array_equal(votes(network().cuda(), 512), votes(network().cuda(), 512))


def test_out_of_memory_is_recovered_from() -> None:
    class Hungry(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            scratch = torch.empty(len(batch), 2**30, dtype=torch.uint8, device=batch.device)  # 1 GiB per row
            return self.inner(batch) + 0.0 * scratch[:, :1]

    model = Hungry().eval().cuda()
    sampler = Sampler(model, images(1), noise=Gaussian(0.5), seed=0, batch_size=1_024)
    drawn = collect(sampler, [Work(0, Stream.ESTIMATION, range(300))], "test")[0]
    assert sampler.batch_size < 256
    assert drawn.counts.sum() == 300


def test_a_recorded_batch_gives_the_votes_of_plain_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = votes(network().cuda(), 512)
    monkeypatch.setattr("recert.sampling.device_lane.DeviceLane.record", lambda self: None)
    assert np.array_equal(recorded, votes(network().cuda(), 512))


def test_networks_that_cannot_be_recorded_still_vote() -> None:
    class LooksAtValues(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            answer = self.inner(batch)
            return answer if float(answer.sum()) < float("inf") else answer.nan_to_num()

    assert np.array_equal(votes(LooksAtValues().eval().cuda(), 512), votes(network().cuda(), 512))


def test_functions_on_the_device_are_called_every_time() -> None:
    model = network().cuda()
    offset = [0.0]

    def counted(batch: torch.Tensor) -> torch.Tensor:
        offset[0] += 1.0
        return model(batch) + offset[0] * 0.0

    sampler = Sampler(counted, images(), noise=Gaussian(0.5), seed=0, batch_size=512, device="cuda")
    before = offset[0]
    collect(sampler, [Work(0, Stream.ESTIMATION, range(5_120))], "test")
    assert offset[0] == before + 10


def test_inputs_that_do_not_fit_are_sent_with_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    together = votes(network().cuda(), 300)
    monkeypatch.setattr("recert.sampling.device_lane.SHARE_FOR_INPUTS", 0.0)
    assert np.array_equal(votes(network().cuda(), 300), together)


def test_a_network_that_needs_plain_memory_gets_it() -> None:
    class Views(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.head = torch.nn.Conv2d(3, 4, 3, stride=8), torch.nn.Linear(64, 10)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return self.head(self.conv(batch).view(len(batch), -1))

    sampler = Sampler(Views().eval().cuda(), images(), noise=Gaussian(0.5), seed=0, batch_size=64)
    assert sampler.numerics.text("memory_format") == "contiguous"


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_precisions_are_recorded_and_flip_few_votes(precision: str) -> None:
    model = network().cuda()
    prepared = recert.prepare(model, precision=precision)
    sampler = Sampler(prepared, images(), noise=Gaussian(0.5), seed=0, batch_size=512)
    assert sampler.numerics.text("tf32_convolutions") == str(precision == "tf32" or precision in ("bf16", "fp16"))
    differing = np.mean(votes(prepared, 512) != votes(recert.prepare(model, precision="fp32"), 512))
    print(f"{precision}: {differing:.5f} of the votes differ from strict float32")
    assert differing < 0.02
    assert torch.backends.cudnn.allow_tf32  # as it was


def test_compiled_networks_vote_alike() -> None:
    model = network().cuda()
    compiled, plain = recert.prepare(model, precision="fp32", compile=True), recert.prepare(model, precision="fp32")
    differing = np.mean(votes(compiled, 512) != votes(plain, 512))
    print(f"compiled: {differing:.5f} of the votes differ")
    assert differing < 0.002


def test_memory_on_the_device_does_not_grow_with_samples() -> None:
    model, peaks = network().cuda(), []
    for samples in (10_000, 10_000, 200_000):  # the first warms up
        sampler = None
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        sampler = Sampler(model, images(1), noise=Gaussian(0.5), seed=0, batch_size=1_024)
        for _ in sampler.draw([Work(0, Stream.ESTIMATION, range(samples))]):
            pass
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks[2] <= 1.01 * peaks[1]


def test_the_batch_size_is_found_by_speed() -> None:
    sampler = Sampler(network().cuda(), images(), noise=Gaussian(0.5), seed=0)
    assert sampler.batch_size & (sampler.batch_size - 1) == 0
    assert 512 <= sampler.batch_size <= 16_384


def test_certify_and_recertify_on_the_device() -> None:
    model, changed = network().cuda(), network().cuda().half()
    cache = recert.certify(model, images(), noise=Gaussian(0.25), samples=2_000)
    assert cache.manifest.numerics.text("device") == "cuda"
    assert "tf32_convolutions" in cache.manifest.numerics.values
    result = recert.recertify(changed, images(), cache, samples=500)
    assert result.lost.sum() < 0.05 * result.replayed.sum()


@pytest.mark.parametrize("count", [300, 250])  # of batches of 64, the fourth is a whole one or the small last one
def test_recorded_training_is_plain_training(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Dataset("noise", images(count), np.arange(count) % 10, np.arange(count))
    options = {"epochs": 3, "batch_size": 64, "device": "cuda"}
    recorded = train("cifar-resnet20", data, Gaussian(0.25), out=tmp_path / "recorded", **options)
    monkeypatch.setattr("recert.training.step._STEPS_BEFORE_RECORDING", 1_000)
    plain = train("cifar-resnet20", data, Gaussian(0.25), out=tmp_path / "plain", **options)
    assert recorded.card.train_loss == pytest.approx(plain.card.train_loss, rel=0.02)


@pytest.mark.parametrize("options", [{}, {"consistency": 5.0}, {"stream": True}, {"compile": True}], ids=str)
def test_a_network_of_ones_own_is_trained_and_goes_on(options: dict, tmp_path: Path) -> None:  # type: ignore[type-arg]
    def stop(epoch: recert.Epoch) -> None:
        if epoch.done == 2:
            raise KeyboardInterrupt

    data = Dataset("noise", images(300), np.arange(300) % 10, np.arange(300))
    settings = {"epochs": 4, "batch_size": 64, "device": "cuda", **options}
    whole = train(network().train(), data, Gaussian(0.25), out=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        train(network().train(), data, Gaussian(0.25), out=tmp_path / "parts", progress=stop, **settings)
    parts = train(network().train(), data, Gaussian(0.25), out=tmp_path / "parts", **settings)
    assert parts.card.train_loss == pytest.approx(whole.card.train_loss, rel=0.05)
    assert next(parts.model.parameters()).is_cuda


def test_a_model_is_the_same_on_a_device_and_off_it() -> None:
    """Weights come over together there; of several types, views, and empty ones."""
    model = network()
    model.register_buffer("counts", torch.arange(5))
    model.register_buffer("turned", torch.rand(3, 4).T)
    model.register_buffer("none", torch.empty(0))
    assert identify(model) == identify(copy.deepcopy(model).cuda())
    changed = copy.deepcopy(model).cuda()
    with torch.no_grad():
        changed.turned[1, 2] += 1e-6
    assert identify(changed) != identify(model)


def test_the_probe_knows_how_tf32_rounds() -> None:
    """A last layer with large weights of both signs: a row that is computed at another place has other last bits."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(network(), torch.nn.Linear(10, 1_000)).cuda().eval()
    with torch.no_grad():
        model[1].weight.mul_(300)
    Sampler(recert.prepare(model, precision="tf32"), images(), noise=Gaussian(0.5), seed=0, batch_size=512)
