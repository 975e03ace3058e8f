"""The noise stream: known answers, the same bits everywhere, and normal in distribution."""

import hashlib
import importlib.util

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import recert
from recert.noise import Gaussian, Stream, input_digest, noise_key, on_cpu, on_torch
from recert.noise.stream import NoisyRows, perturb

ALL = [
    "gaussian:1.0",
    "laplace:0.37",
    "uniform:0.37",
    "splitting:0.37",
    "gaussian:0.5:grid=1/255",
    "gaussian:0.37:grid=1/1024",
]

# Random123 known-answer vectors of philox4x32-10: counter, key, output
KNOWN_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_known_answers(counter: list[int], key: list[int], expected: list[int]) -> None:
    assert on_cpu.philox4x32(np.array(counter, np.uint32), np.array(key, np.uint32)).tolist() == expected
    words = on_torch.philox4x32([torch.tensor(c) for c in counter], [torch.tensor(k) for k in key])
    assert [int(word) for word in words] == expected


def normals(keys: list[int], samples: range, size: int, stream: Stream = Stream.ESTIMATION) -> np.ndarray:
    """Standard normals of every key and sample: one row each."""
    rows = np.repeat(np.arange(len(keys)), len(samples))
    wanted = NoisyRows(rows, np.tile(np.array(samples), len(keys)), np.full(len(rows), int(stream)))
    return perturb(torch.zeros(len(keys), size), np.array(keys, np.uint64), wanted, Gaussian(1.0)).numpy()


def in_plain_torch(key: int, samples: range, size: int, sigma: float = 1.0) -> np.ndarray:
    count = len(samples)
    columns = (
        np.zeros(count, np.int64),
        np.array([key], np.uint64).view(np.int64),
        np.array(samples),
        np.ones(count, np.int64),
    )
    return on_torch.perturb(torch.zeros(1, size), *(torch.from_numpy(c) for c in columns), sigma).numpy()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 16, 17, 63, 784, 3072])
def test_numba_and_plain_torch_give_the_same_bits(size: int) -> None:
    key = 0xFEDCBA9876543210
    assert normals([key], range(40), size).tobytes() == in_plain_torch(key, range(40), size).tobytes()


def test_scaled_noise_is_added_with_the_same_rounding() -> None:
    x = torch.rand(3, 50, generator=torch.Generator().manual_seed(0))
    keys, rows = np.array([5, 2**63 + 7, 11], np.uint64), np.array([2, 0, 1, 1])
    wanted = NoisyRows(rows, np.array([0, 1, 2, 2**32 - 1]), np.array([0, 1, 2, 3]))
    ours = perturb(x, keys, wanted, Gaussian(0.37))
    columns = (rows, keys.view(np.int64), wanted.samples, wanted.streams)
    plain = on_torch.perturb(x, *(torch.from_numpy(c) for c in columns), 0.37)
    assert torch.equal(ours, plain)


@pytest.mark.parametrize("sigma", [0.12, 0.1, 0.3])
def test_radii_are_computed_with_the_scale_of_the_noise_that_is_drawn(sigma: float) -> None:
    """Noise is float32. Radii by the float64 number would be up to 6e-8 too large, or too small for no reason."""
    wanted = NoisyRows(np.zeros(50, np.int64), np.arange(50), np.full(50, int(Stream.ESTIMATION)))
    drawn = perturb(torch.zeros(1, 7), np.array([5], np.uint64), wanted, Gaussian(sigma)).numpy()
    assert np.array_equal(drawn, np.float32(sigma) * normals([5], range(50), 7))
    votes = recert.StoredVotes(np.ones((1, 1_000), int), selection=np.ones((1, 20), int), classes=2)
    cache = recert.certify(
        votes, None, noise=Gaussian(sigma), samples=1_000, selection_samples=20, alpha=0.001, certificate="one-sided"
    )
    exact = float(np.float32(sigma)) * stats.norm.ppf(0.001 ** (1 / 1_000))
    assert exact * (1 - 1e-12) <= cache.certificates.radius[0] <= exact


def test_golden_hash() -> None:
    """Pins the stream: caches that were written once must replay for ever."""
    assert hashlib.sha256(normals([0xFEDCBA9876543210], range(64), 3072).tobytes()).hexdigest() == (
        "0ab34ac0fa60b10d329a7ab08c021c62812167f7851be0083e0e6a57d8021d18"
    )


@pytest.mark.parametrize(
    ("spec", "digest"),
    [
        ("laplace:1.0", "9fdffdefd77d133886ab5432439b9549fde31cf1d319165f148b784205f558ae"),
        ("uniform:1.0", "041c89f57b09025591bbdd9f1133055160aeff7b508f1d72e413b62ad09c8858"),
        ("splitting:1.0", "f41d38a5dacd29c3b7c24f61913af06ad8e2a0fe0c40e1551dc333813a5008aa"),
        ("gaussian:1.0:grid=1/255", "550d6462eb9cea1259cffeabe3228aa3b0325b11389bea46845c4d9fdedf70a5"),
    ],
)
def test_golden_hashes_of_other_noises(spec: str, digest: str) -> None:
    wanted = NoisyRows(np.zeros(64, np.int64), np.arange(64), np.ones(64, np.int64))
    z = perturb(torch.zeros(1, 3072), np.array([0xFEDCBA9876543210], np.uint64), wanted, recert.parse_noise(spec))
    assert hashlib.sha256(z.numpy().tobytes()).hexdigest() == digest


@settings(max_examples=30)
@given(st.integers(0, 2**64 - 1), st.integers(1, 70), st.data())
def test_every_split_of_a_batch_gives_the_same_bytes(key: int, size: int, data: st.DataObject) -> None:
    whole = normals([key], range(20), size)
    cut = data.draw(st.integers(1, 19))
    assert (
        np.concatenate([normals([key], range(cut), size), normals([key], range(cut, 20), size)]).tobytes()
        == whole.tobytes()
    )
    assert normals([key], range(7, 8), size).tobytes() == whole[7].tobytes()


@pytest.mark.parametrize("batch", [1, 7, 256])
def test_batch_size_does_not_matter(batch: int) -> None:
    whole = normals([1, 2], range(300), 11)
    starts = range(0, 300, batch)
    parts = [np.concatenate([normals([key], range(s, min(s + batch, 300)), 11) for s in starts]) for key in (1, 2)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_a_longer_input_starts_with_the_noise_of_a_shorter_one_under_the_same_key() -> None:
    assert np.array_equal(normals([3], range(5), 10), normals([3], range(5), 23)[:, :10])


def test_moments_and_kolmogorov_smirnov() -> None:
    z = normals([12345], range(700), 3072).ravel().astype(float)
    n = z.size
    assert abs(z.mean()) < 4 / np.sqrt(n)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs(stats.skew(z)) < 4 * np.sqrt(6 / n)
    assert abs(stats.kurtosis(z)) < 4 * np.sqrt(24 / n)
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert stats.binomtest(int((np.abs(z) > 4).sum()), n, 2 * stats.norm.sf(4)).pvalue > 1e-3


def test_accuracy_of_the_transform_against_float64() -> None:
    """Box-Muller by our polynomials against numpy's log, sin and cos in double precision."""
    z = normals([99], range(50), 400).reshape(50, 100, 4).astype(float)
    words = np.array([[on_cpu.philox4x32(np.array([b, s, 0, 1], np.uint32), np.array([99, 0], np.uint32)) for b in range(100)]
                      for s in range(50)]).astype(float)  # fmt: skip
    r, a = np.sqrt(-2 * np.log((words[..., ::2] + 0.5) / 2**32)), 2 * np.pi * words[..., 1::2] / 2**32
    exact = np.stack([r * np.cos(a), r * np.sin(a)], axis=-1).reshape(z.shape)
    error = np.abs(z - exact)
    far = np.repeat(r, 2, axis=-1) > 0.1  # nearer to 0 the uniform, a float32 next to 1, is the coarser grid
    assert error[far].max() < 1e-6
    assert error.max() < 5e-4


def test_streams_samples_and_keys_are_independent() -> None:
    drawn = [normals([k], range(s, s + 1), 20_000, stream)[0] for k in (1, 2) for s in (0, 1) for stream in Stream]
    correlation = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)


def test_key_depends_on_seed_bytes_and_shape() -> None:
    x = np.arange(6, dtype=np.float32)
    digests = {input_digest(x), input_digest(x.reshape(2, 3)), input_digest(x.reshape(3, 2)), input_digest(x + 1)}
    assert len(digests) == 4
    expected = hashlib.sha256(b"float32[6]" + x.tobytes()).hexdigest()
    assert input_digest(x) == input_digest(x[::-1][::-1]) == expected
    mixed = hashlib.sha256((7).to_bytes(8, "little") + bytes.fromhex(expected)).digest()
    assert noise_key(7, expected) == int.from_bytes(mixed[:8], "little")
    with pytest.raises(ValueError, match="seed between 0"):
        noise_key(-1, expected)


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed: its interpreter is not tried"
)
def test_triton_interpreter_gives_the_same_bits() -> None:
    import os
    import subprocess
    import sys

    program = (
        "import numpy as np, torch, hashlib, recert; from recert.registration import function_named;"
        "key=np.array([0xFEDCBA9876543210],np.uint64).view(np.int64); n=4;"
        "c=[torch.from_numpy(x) for x in [np.zeros(n,np.int64), key, np.arange(n), np.ones(n,np.int64)]];"
        "z=torch.empty(n,103); x=torch.arange(103)[None]/16;\n"
        f"for spec in {ALL}:\n"
        "  noise=recert.parse_noise(spec); k=noise.kernels\n"
        "  function_named(k.cuda)(z, x, *c, noise.scale, *k.numbers)\n"
        "  print(hashlib.sha256(z.numpy().tobytes()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    x, key = torch.arange(103)[None] / 16, np.array([0xFEDCBA9876543210], np.uint64)
    wanted = NoisyRows(np.zeros(4, np.int64), np.arange(4), np.ones(4, np.int64))
    here = [perturb(x, key, wanted, recert.parse_noise(spec)).numpy().tobytes() for spec in ALL]
    assert run.stdout.split() == [hashlib.sha256(noisy).hexdigest() for noisy in here], run.stderr


@pytest.mark.parametrize("sigma", [0, -1, float("nan"), float("inf"), "0.5"])
def test_bad_sigma(sigma: object) -> None:
    with pytest.raises(ValueError, match="sigma > 0"):
        Gaussian(sigma)  # type: ignore[arg-type]
