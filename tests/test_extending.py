"""The four recipes of CONTRIBUTING.md, tried: each example runs as it is, and what it registers works everywhere."""

import importlib.util
import os
import re
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy import stats

import recert
from recert.approximations import registry as approximations
from recert.cli import main
from recert.data import load_data
from recert.engines import registry as engines
from recert.models import load_model
from recert.noise import registry as noises
from recert.noise.stream import NoisyRows, perturb
from recert.recertification import registry as methods
from recert.report import Result
from recert.report.page import render_page
from tests.halfspaces import HalfSpace, rotated

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "extending"
SAYS = {
    "noise.py": "average certified radius of the pruned network, l1: 0.6",
    "method.py": "product: average certified radius 0.4",
    "approximation.py": "inputs of 4 layers clipped to where 0.99 of them lie; changed: weights and outputs",
    "engine.py": "the votes of both engines are the same",
}


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example as a module. What it registers is forgotten after the test."""
    for registry, known in (
        (noises, "_FAMILIES"), (methods, "_METHODS"), (engines, "_ENGINES"), (approximations, "_registered")
    ):  # fmt: skip
        monkeypatch.setattr(registry, known, dict(getattr(registry, known)))
    spec = importlib.util.spec_from_file_location(f"extending_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec.loader.exec_module(module)
    return module


def command(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["recert", *arguments, "--model", "digits", "--data", "digits", "--count", "6"])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_every_example_is_in_the_recipes_and_run() -> None:
    assert {script.name for script in EXAMPLES.glob("*.py")} == set(SAYS)
    recipes = (ROOT / "CONTRIBUTING.md").read_text()
    for name in SAYS:
        assert f"(examples/extending/{name})" in recipes


def test_code_of_the_recipes_is_code_of_the_examples() -> None:
    """Every block of Python in CONTRIBUTING.md stands in an example, line by line but for lines that are left out."""
    examples = {
        script.name: [line.strip() for line in script.read_text().splitlines()] for script in EXAMPLES.glob("*.py")
    }
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    assert len(blocks) >= 4
    for block in blocks:
        shown = [line.strip() for line in block.splitlines() if line.strip() not in ("", "...")]
        assert any(set(shown) <= set(lines) for lines in examples.values()), block


@pytest.mark.parametrize("name", SAYS)
def test_script(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert SAYS[name] in run.stdout
    assert "For each input on its own, with probability at least 0.99" in run.stdout


# a noise


def noisy(noise: recert.Noise, device: str = "cpu", size: int = 10, samples: int = 500) -> torch.Tensor:
    """Three inputs under some noises, on a device."""
    inputs = torch.from_numpy(np.random.default_rng(0).normal(size=(3, size)).astype(np.float32))
    keys = np.array([1, 2**63 + 5, 2**64 - 1], dtype=np.uint64)
    count = np.arange(3 * samples)
    return perturb(inputs.to(device), keys, NoisyRows(count % 3, count // 3 + 2**31, count % 4), noise).cpu()


@pytest.mark.parametrize("size", [1, 4, 10])
def test_both_implementations_of_the_noise_give_the_same_bits(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    triangular = example("noise", monkeypatch).Triangular(0.3)
    on_cpu = noisy(triangular, size=size)
    monkeypatch.setattr(
        type(triangular), "kernels", triangular.kernels._replace(cpu=f"{__name__}:torch_kernel_on_arrays"), raising=True
    )
    assert on_cpu.numpy().tobytes() == noisy(triangular, size=size).numpy().tobytes()


def torch_kernel_on_arrays(inputs, rows, keys, samples, streams, scale, out) -> None:  # type: ignore[no-untyped-def]
    """The torch implementation with the arguments of the other."""
    tensors = [torch.from_numpy(a) for a in (inputs, rows, keys.view(np.int64), samples, streams)]
    out[...] = sys.modules["extending_noise"].add_on_torch(*tensors, float(scale)).numpy()


@pytest.mark.gpu
def test_the_noise_on_a_gpu_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    triangular = example("noise", monkeypatch).Triangular(0.3)
    assert noisy(triangular).numpy().tobytes() == noisy(triangular, "cuda").numpy().tobytes()


def test_the_noise_is_triangular(monkeypatch: pytest.MonkeyPatch) -> None:
    triangular = example("noise", monkeypatch).Triangular(0.5)
    inputs = torch.zeros(1, 8)
    count = np.arange(50_000)
    drawn = perturb(
        inputs, np.array([7], dtype=np.uint64), NoisyRows(count * 0, count, count * 0 + 1), triangular
    ).numpy()
    assert stats.kstest(drawn.ravel().astype(float), stats.triang(0.5, -0.5, 1.0).cdf).pvalue > 1e-4
    assert abs(np.corrcoef(drawn.T) - np.eye(8)).max() < 0.02


def exact_quantile(probability: float) -> Decimal:
    """Of the triangle on [-1, 1], to 60 digits."""
    p = Decimal(probability)
    return 1 - (2 * (1 - p)).sqrt() if p > 0.5 else (2 * p).sqrt() - 1


def test_the_radius_of_the_noise_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    triangular = example("noise", monkeypatch).Triangular(0.3)
    rng = np.random.default_rng(1)
    scale = Decimal(triangular.scale)
    with localcontext() as digits:
        digits.prec = 60
        for p, q in zip(rng.uniform(0.5, 1, 300), rng.uniform(0, 0.5, 300), strict=True):
            assert Decimal(float(triangular.radius(p))) <= scale * exact_quantile(p)
            exact = scale / 2 * (exact_quantile(p) - exact_quantile(q))
            assert exact - Decimal("1e-14") <= Decimal(float(triangular.radius(p, q))) <= exact
    assert triangular.radius([0.3, 0.5], [0.4, 0.5]).tolist() == [0, 0]


def test_certificates_under_the_noise_keep_to_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a half-space across an axis the smoothed class changes at the boundary itself, in the l1 norm too."""
    noise = example("noise", monkeypatch).Triangular(1.0)
    inputs = np.random.default_rng(2).uniform(-0.45, 0.45, size=(30, 3)).astype(np.float32)
    truth, store = np.abs(inputs[:, 0]), tmp_path / "store"
    plane = HalfSpace([1, 0, 0], 0.0)
    result = recert.certify(plane, inputs, noise=noise, samples=1_000, alpha=1e-6, store=store).certificates
    assert set(result.norm) == {"l1"}
    assert (result.radius <= truth).all()
    assert result.radius.max() > 0.3
    moved = recert.recertify(
        HalfSpace([1, 0, 0], 0.02), inputs, store, samples=300, alpha=2e-6
    )  # read back by its spec
    assert moved.settings.noise == "triangular:1.0"
    assert (moved.radius <= np.abs(inputs[:, 0] - 0.02)).all()
    assert moved.radius.max() > 0.3
    page = render_page([Result("base", result), Result("moved", moved)], [0.25])
    assert "within this l1 distance of the input" in page


def test_the_command_line_knows_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example("noise", monkeypatch)
    store = str(tmp_path / "store")
    assert (
        command("certify", "--noise", "triangular:1.0", "--samples", "300", "--store", store, monkeypatch=monkeypatch)
        == 0
    )
    assert recert.Cache.open(store).manifest.noise.spec == "triangular:1.0"


# a method


@pytest.mark.parametrize(("p", "r"), [(0.9, 0.9), (0.75, 0.9), (0.99, 0.5), (0.6, 0.7)])
def test_the_bound_of_the_method_is_exceeded_by_chance_alpha_at_most(
    p: float, r: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Summed over all outcomes of both binomials."""
    lower = example("method", monkeypatch).product_lower
    samples, replayed, alpha = 60, 25, 0.1
    votes, kept = np.meshgrid(np.arange(samples + 1), np.arange(replayed + 1), indexing="ij")
    chance = stats.binom(samples, p).pmf(votes) * stats.binom(replayed, r).pmf(kept)
    wrong = lower(votes, samples, kept, np.full_like(kept, replayed), alpha) > p * r
    assert 0 < chance[wrong].sum() <= alpha


def test_the_method_keeps_to_the_truth_and_below_series(monkeypatch: pytest.MonkeyPatch) -> None:
    example("method", monkeypatch)
    inputs = np.random.default_rng(3).normal(size=(40, 2)).astype(np.float32)
    changed = rotated(0.03)
    cache = recert.certify(rotated(0.0), inputs, noise=recert.Gaussian(0.5), samples=2_000, alpha=1e-6)
    ours, series = (
        recert.recertify(changed, inputs, cache, samples=300, alpha=2e-6, method=method, certificate="one-sided", plan="uniform")
        for method in ("product", "series")
    )  # fmt: skip
    truth = np.array([abs(changed.distance(x)) for x in inputs])
    assert (ours.radius <= truth).all()
    assert ours.certified.sum() > 20
    assert (ours.radius <= series.radius).all()  # series is valid for the same counts, and the largest such bound
    assert ours.replayed.tolist() == series.replayed.tolist()
    assert set(ours.method) <= {"product"}


def test_the_plan_shares_out_the_budget_for_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    example("method", monkeypatch)
    model, data = load_model("digits").model, load_data("digits", count=30)
    cache = recert.certify(model, data.inputs, noise=recert.Gaussian(0.5), samples=2_000)
    changed = recert.approximate(model, "prune:0.2").model
    planned, even = (
        recert.recertify(changed, data.inputs, cache, samples=200, method="product", plan=plan).radius.sum()
        for plan in ("acr", "uniform")
    )
    assert planned > even
    with pytest.raises(ValueError, match=r"expected certificate='one-sided' with method='product'"):
        recert.recertify(changed, data.inputs, cache, samples=200, method="product", certificate="two-sided")


def test_the_command_line_knows_the_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example("method", monkeypatch)
    store = ["--store", str(tmp_path / "store")]
    assert command("certify", "--samples", "1000", *store, monkeypatch=monkeypatch) == 0
    asked = ["--method", "product", "--samples", "100", "--approximation", "prune:0.1"]
    assert command("recertify", *asked, *store, monkeypatch=monkeypatch) == 0


# an approximation


def test_the_approximation_asks_for_calibration_and_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    example("approximation", monkeypatch)
    model, noise = load_model("digits").model, recert.Gaussian(0.5)
    with pytest.raises(ValueError, match=r"expected calibration inputs for clip:0\.9, got none"):
        recert.approximate(model, "clip:0.9")
    with pytest.raises(ValueError, match="expected a share between 0 and 1"):
        recert.approximate(model, "clip:2")
    calibration = recert.Calibration(load_data("digits", split="train", count=50).inputs, noise=noise)
    made = recert.approximate(model, "clip:0.9", calibration=calibration)
    low, high = np.quantile(calibration.noisy(), [0.05, 0.95])  # the first layer sees the noisy inputs themselves
    assert made.model.conv1[0].min_val == pytest.approx(low)
    assert made.model.conv1[0].max_val == pytest.approx(high)
    assert made.facts["calibration"] == "1 x 50 inputs, gaussian:0.5, seed 0"
    assert isinstance(model.conv1, torch.nn.Conv2d)  # the model stays as it is


def test_the_command_line_calibrates_the_approximation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example("approximation", monkeypatch)
    store = ["--store", str(tmp_path / "store")]
    assert command("certify", "--samples", "1000", *store, monkeypatch=monkeypatch) == 0
    asked = ["--samples", "100", "--approximation", "prune:0.1+clip:0.99"]
    assert command("recertify", *asked, *store, monkeypatch=monkeypatch) == 0
    assert "then inputs of 4 layers clipped" in " ".join(capsys.readouterr().err.split())


# an engine


def test_the_engine_draws_in_a_thread_and_gives_the_same_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    example("engine", monkeypatch)
    model, data = load_model("digits").model, load_data("digits", count=8)
    threads = set()

    def noted(batch: torch.Tensor) -> torch.Tensor:
        import threading

        threads.add(threading.current_thread().name)
        return model(batch)

    caches = [
        recert.certify(noted, data.inputs, noise=recert.Gaussian(0.5), samples=500, execution=recert.Execution(engine=engine))
        for engine in ("thread", "local")
    ]  # fmt: skip
    assert any(name.startswith("votes") for name in threads)
    for digest in caches[0].digests:
        assert caches[0].votes(digest).tobytes() == caches[1].votes(digest).tobytes()
    assert caches[0].manifest.numerics == caches[1].manifest.numerics


def test_what_the_model_raises_in_the_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    example("engine", monkeypatch)
    calls = []

    def fails_later(batch: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 4:
            raise RuntimeError("no more")
        return batch.flatten(1)[:, :2]

    inputs = np.zeros((2, 3), dtype=np.float32)
    with pytest.raises(recert.RecertError, match="no more"):
        recert.certify(
            fails_later, inputs, noise=recert.Gaussian(0.5), samples=5_000, batch_size=100,
            execution=recert.Execution(engine="thread"),
        )  # fmt: skip


def test_the_command_line_knows_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--samples", "300", "--store", str(tmp_path / "store")]
    assert command("certify", "--engine", "thread", *store, monkeypatch=monkeypatch) == 1
    assert "expected engine to be one of local, ray, got 'thread'" in " ".join(capsys.readouterr().err.split())
    example("engine", monkeypatch)
    assert command("certify", "--engine", "thread", *store, monkeypatch=monkeypatch) == 0
