"""The list of models needs no torch; shipped weights are what their cards say."""

import hashlib
import json
import subprocess
import sys

import pytest
import torch

from recert.data import load_data
from recert.models import available_models, build_model, load_model
from recert.models.registry import WEIGHTS, model_entry


def test_listing_models_and_data_does_not_import_torch():
    code = (
        "import sys; from recert.models import available_models, SPEC_FORMS; from recert.data import DATA_FORMS; "
        "[entry.sigmas for entry in available_models()]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_entry_says_what_it_is_in_one_line():
    for entry in available_models():
        assert entry.description
        assert "\n" not in entry.description


def test_digits_are_shipped_trained():
    assert model_entry("digits").sigmas == ("0.25", "0.5")
    assert load_model("digits").name == "digits-0.5"
    assert load_model("digits:0.50").name == "digits-0.5"
    assert load_model("digits:.25").name == "digits-0.25"


@pytest.mark.parametrize("sigma", ["0.25", "0.5"])
def test_shipped_digits_are_as_accurate_as_their_card_says(sigma):
    loaded = load_model(f"digits:{sigma}")
    card = json.loads((WEIGHTS / f"digits-{sigma}.json").read_text())
    test = load_data("digits")
    images, labels = torch.from_numpy(test.inputs), torch.from_numpy(test.labels)
    generator = torch.Generator().manual_seed(1)
    with torch.inference_mode():
        clean = (loaded.model(images).argmax(1) == labels).float().mean().item()
        draws = images + float(sigma) * torch.randn(50, *images.shape, generator=generator)
        right = loaded.model(draws.flatten(0, 1)).argmax(1).reshape(50, -1) == labels
    assert clean == pytest.approx(card["test_accuracy"], abs=1e-6)
    # The card has one draw for each of 359 images: a standard error of 0.021 at most.
    assert right.float().mean().item() == pytest.approx(card["noisy_test_accuracy"], abs=0.06)
    assert right.float().mean().item() > {"0.25": 0.96, "0.5": 0.79}[sigma]


def test_shipped_weights_are_small_and_match_their_cards():
    files = sorted(WEIGHTS.glob("*.safetensors"))
    assert files
    for file in files:
        card = json.loads(file.with_suffix(".json").read_text())
        assert hashlib.sha256(file.read_bytes()).hexdigest() == card["weights_sha256"]
    assert all(file.stat().st_size < 200_000 for file in files if file.stem.startswith("digits"))


def test_loaded_model_knows_itself():
    loaded = load_model("digits")
    assert not loaded.model.training
    assert (loaded.classes, loaded.input_shape) == (10, (1, 8, 8))
    assert "gaussian:0.5" in loaded.note


def test_sigma_that_is_not_shipped():
    with pytest.raises(ValueError, match=r"got digits with sigma '0\.7'.*0\.25, 0\.5.*recert train"):
        load_model("digits:0.7")
    with pytest.raises(ValueError, match="sigma 'loud'"):
        load_model("digits:loud")


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"digits, cifar-resnet20, cifar-resnet110.*got 'vgg'"):
        build_model("vgg")
