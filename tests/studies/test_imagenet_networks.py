"""The studies on ImageNet's classes, at a tiny size: trained, and run, by the commands that their module names."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from recert import load_model
from studies import imagenet_networks, networks
from studies.imagenet_networks import FromUnitRange
from tests.studies.test_command_line import call

WNIDS = ("n01443537", "n01629819")
SPEC = "tests.studies.test_imagenet_networks:small"


def small() -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(48, 2))


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
    imagenet_networks.train(data, sigma=0.5, epochs=15, batch_size=4, device="cpu", compile=False, out=weights)
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
    assert "ResNet-50 (Tiny ImageNet, 64 x 64, our weights)" in (results / "speedup.md").read_text()


def test_weights_that_are_missing_are_asked_for_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"python -m studies.imagenet_networks tiny-imagenet:DIR --sigma 0\.25"):
        networks.load_network("tiny-resnet50", 0.25, tmp_path)


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
