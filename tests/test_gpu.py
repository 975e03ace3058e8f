"""On a CUDA device: the same bits of noise, the same votes up to the network's own rounding, recovery from lack of memory.

Run with: pytest -m gpu
"""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

import recert
from recert import Gaussian
from recert.data import Dataset
from recert.noise import Stream, on_torch
from recert.noise.stream import NoisyRows, perturb
from recert.sampling import Sampler, Work, collect
from recert.training import train

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
GOLDEN = "0ab34ac0fa60b10d329a7ab08c021c62812167f7851be0083e0e6a57d8021d18"


def rows(count: int) -> NoisyRows:
    return NoisyRows(np.zeros(count, np.int64), np.arange(count), np.full(count, int(Stream.ESTIMATION)))


def test_triton_gives_the_golden_hash() -> None:
    z = perturb(torch.zeros(1, 3072, device="cuda"), np.array([0xFEDCBA9876543210], np.uint64), rows(64), Gaussian(1.0))
    assert hashlib.sha256(z.cpu().numpy().tobytes()).hexdigest() == GOLDEN


@pytest.mark.parametrize("size", [1, 3, 5, 17, 784, 3072, 150_528])
def test_triton_plain_torch_and_numba_agree_bit_for_bit(size: int) -> None:
    rng = np.random.default_rng(size)
    x = torch.from_numpy(rng.random((3, size), dtype=np.float32))
    keys = rng.integers(0, 2**63, 3).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    wanted = NoisyRows(rng.integers(0, 3, 50), rng.integers(0, 2**32, 50), rng.integers(0, 4, 50))
    here = perturb(x, keys, wanted, Gaussian(0.37))
    there = perturb(x.cuda(), keys, wanted, Gaussian(0.37)).cpu()
    columns = (wanted.rows, keys.view(np.int64), wanted.samples, wanted.streams)
    plain = on_torch.perturb(x.cuda(), *(torch.from_numpy(c).cuda() for c in columns), 0.37).cpu()
    assert torch.equal(here, there)
    assert torch.equal(here, plain)


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


def test_certify_and_recertify_on_the_device() -> None:
    model, changed = network().cuda(), network().cuda().half()
    cache = recert.certify(model, images(), noise=Gaussian(0.25), samples=2_000)
    assert cache.manifest.numerics["device"] == "cuda"
    assert "tf32_convolutions" in cache.manifest.numerics
    result = recert.recertify(changed, images(), cache, samples=500, reuse_threshold=1.0)
    assert result.lost.sum() < 0.05 * result.replayed.sum()


@pytest.mark.parametrize("count", [300, 250])  # of batches of 64, the fourth is a whole one or the small last one
def test_recorded_training_is_plain_training(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Dataset("noise", images(count), np.arange(count) % 10, np.arange(count))
    options = {"epochs": 3, "batch_size": 64, "device": "cuda"}
    recorded = train("cifar-resnet20", data, Gaussian(0.25), out=tmp_path / "recorded", **options)
    monkeypatch.setattr("recert.training.step._STEPS_BEFORE_RECORDING", 1_000)
    plain = train("cifar-resnet20", data, Gaussian(0.25), out=tmp_path / "plain", **options)
    assert recorded.card.train_loss == pytest.approx(plain.card.train_loss, rel=0.02)
