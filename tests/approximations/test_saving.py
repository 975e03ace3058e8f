"""Saved models: what is loaded again is the model that was saved, to the last bit, and no file runs code."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import safetensors.torch
import torch
from torch import nn

import recert
from recert.approximations.saving import save_model
from recert.errors import UnusableModel
from recert.models import load_model
from recert.models.cards import card_of, card_path
from recert.models.digest import identify
from tests.approximations.conftest import NOISE, SPECS, SmallResNet, answers, images, made, trained

HERE = "tests.approximations.test_saving"
ARCHITECTURE = f"{HERE}:build"


def build() -> nn.Module:
    return SmallResNet()


class Tied(nn.Module):
    """Two names for one weight, and a buffer that a state dict leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.full((1,), 0.1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x.flatten(1)) * self.scale)


def ending(spec: str) -> str:
    return ".onnx" if "int8" in spec else ".safetensors"


@pytest.mark.parametrize("spec", [*SPECS, "prune:0.3+int8", "int8[!stem]", "fp16-weights[block]"])
def test_what_is_loaded_again_is_the_same_model(spec: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{ending(spec)}"
    made(spec).save(path, architecture=ARCHITECTURE)
    again = load_model(path, trust=True).model
    assert identify(again) == identify(made(spec).model)
    noisy = torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(answers(again, noisy), answers(made(spec).model, noisy))
    if ending(spec) == ".safetensors":
        named = load_model(f"{ARCHITECTURE}@{path}").model
        assert identify(named) == identify(again)
    # Saved once more: the same bytes.
    before = path.read_bytes()
    save_model(again, path, architecture=ARCHITECTURE)
    assert path.read_bytes() == before


def test_the_votes_are_those_that_were_certified(tmp_path: Path) -> None:
    x = images(10, seed=6)[0]
    for spec in ("int8", "bf16-weights"):
        path = tmp_path / f"{spec}{ending(spec)}"
        made(spec).save(path, architecture=ARCHITECTURE)
        caches = [
            recert.certify(model, x, noise=NOISE, samples=200)
            for model in (made(spec).model, load_model(path, trust=True).model)
        ]
        for digest in caches[0].digests:
            assert np.array_equal(caches[0].votes(digest), caches[1].votes(digest))


def test_an_int8_file_is_what_onnxruntime_ran(tmp_path: Path) -> None:
    made("int8").save(tmp_path / "model.onnx")
    rows = images(8, seed=7)[0]
    session = onnxruntime.InferenceSession((tmp_path / "model.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    direct = session.run(None, {session.get_inputs()[0].name: rows})[0]
    assert np.array_equal(direct, answers(made("int8").model, torch.from_numpy(rows)).numpy())
    assert (tmp_path / "model.onnx").read_bytes() == made("int8").model.data.numpy().tobytes()


def test_rounded_weights_take_half_the_bytes(tmp_path: Path) -> None:
    for spec in ("prune:0.2", "fp16-weights"):
        made(spec).save(tmp_path / f"{spec}.safetensors", architecture=ARCHITECTURE)
    dense, rounded = (
        safetensors.torch.load_file(tmp_path / f"{spec}.safetensors") for spec in ("prune:0.2", "fp16-weights")
    )
    assert dense["stem.weight"].dtype == torch.float32
    assert rounded["stem.weight"].dtype == torch.float16
    assert (
        load_model(f"{ARCHITECTURE}@{tmp_path / 'fp16-weights.safetensors'}").model.stem.weight.dtype == torch.float32
    )


def test_tied_weights_stay_one_tensor_and_odd_buffers_are_kept(tmp_path: Path) -> None:
    net = Tied().eval()
    net.scale.fill_(0.25)
    save_model(net, tmp_path / "tied.safetensors", architecture=f"{HERE}:Tied")
    again = load_model(tmp_path / "tied.safetensors", trust=True).model
    assert again.second.weight is again.first.weight
    assert again.scale.item() == 0.25
    assert set(safetensors.torch.load_file(tmp_path / "tied.safetensors")) == {
        "first.weight", "first.bias", "second.bias", "scale",
    }  # fmt: skip


def test_in_a_fresh_process(tmp_path: Path) -> None:
    net = load_model("digits").model
    pruned = recert.approximate(net, "prune:0.3")
    pruned.save(tmp_path / "model.safetensors")
    program = (
        "import recert; from recert.models.digest import identify; import sys;"
        "found = identify(recert.load_model(sys.argv[1]).model); print(found.weights, found.structure)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model.safetensors")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    wanted = identify(pruned.model)
    assert run.stdout.split() == [wanted.weights, wanted.structure], run.stderr


def test_a_float32_network_is_exported_as_another_model(tmp_path: Path) -> None:
    made("prune:0.2").save(tmp_path / "model.onnx", example_input=images(2, seed=3)[0])
    again = load_model(tmp_path / "model.onnx").model
    rows = torch.from_numpy(images(16, seed=8)[0])
    assert torch.allclose(answers(again, rows), answers(made("prune:0.2").model, rows), atol=1e-4)
    with pytest.raises(ValueError, match="float32 to export, got one in bfloat16"):
        made("bf16").save(tmp_path / "other.onnx", example_input=images(2, seed=3)[0])


def test_a_card_of_other_code_needs_trust_and_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    made("prune:0.2").save(path, architecture=ARCHITECTURE)
    with pytest.raises(UnusableModel, match="code that would run here"):
        load_model(path)
    card = json.loads(card_path(path).read_text())
    card["architecture"] = "antigravity:nothing"
    card_path(path).write_text(json.dumps(card))
    with pytest.raises(UnusableModel, match="code that would run here"):
        load_model(path)
    assert "antigravity" not in sys.modules
    made("prune:0.2").save(path, architecture=ARCHITECTURE)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(UnusableModel, match="changed or exchanged"):
        load_model(path, trust=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "pickle"}, "a kind that is none"),
        ({"shared": []}, "not a mapping"),
        ({"facts": {"a": 1}}, "not a text"),
        ({"sha256": "0"}, "changed or exchanged"),
    ],
)
def test_damaged_cards(change: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    made("int8").save(path)
    card = json.loads(card_path(path).read_text())
    card_path(path).write_text(json.dumps({**card, **change}))
    with pytest.raises(UnusableModel, match=message):
        load_model(path)
    card_path(path).write_bytes(b"\xff{")
    with pytest.raises(UnusableModel, match="damaged"):
        load_model(path)
    card_path(path).write_text("{}")  # of another program: no card of ours
    assert card_of(path) is None


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ending in .safetensors or .onnx"):
        made("int8").save(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="which is an ONNX graph"):
        made("int8").save(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"expected architecture=..."):
        save_model(trained(), tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="example_input"):
        save_model(trained(), tmp_path / "model.onnx")
    with pytest.raises(UnusableModel, match="tensors of DigitsNetwork"):
        save_model(trained(), tmp_path / "model.safetensors", architecture="digits")
    other = trained()
    with pytest.raises(UnusableModel, match="another structure"):
        save_model(_Louder(other), tmp_path / "model.safetensors", architecture=f"{HERE}:quiet")
    assert list(tmp_path.iterdir()) == []


class _Louder(nn.Module):
    def __init__(self, inner: nn.Module, by: float = 2.0) -> None:
        super().__init__()
        self.inner, self.by = inner, by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.by


def quiet() -> nn.Module:
    return _Louder(SmallResNet(), by=1.0)
