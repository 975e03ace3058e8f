"""Training: interrupted runs end in the same bits, files say what made them, and the network learns."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch

from recert.cli import main
from recert.data import Dataset, load_data
from recert.models import build_model, load_model
from recert.noise import Gaussian, Laplace, Uniform
from recert.training import OtherTraining, TrainingDiverged, train

NOISE = Gaussian(0.25)
DIGITS, TEST = load_data("digits", split="train", count=200), load_data("digits", count=100)


def train_digits(out, **options):
    return train("digits", DIGITS, NOISE, **{"test": TEST, "epochs": 4, "device": "cpu", "out": out, **options})


def stop_after(epoch):
    def progress(report):
        if report.done == epoch:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("stops", [[1], [3], [1, 2, 3], [4]])
def test_interrupted_training_ends_in_the_same_bits(tmp_path, stops):
    whole = train_digits(tmp_path / "whole")
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            train_digits(tmp_path / "parts", progress=stop_after(stop))
        assert (tmp_path / "parts" / "digits-0.25.state.safetensors").is_file()
        assert not (tmp_path / "parts" / "digits-0.25.safetensors").exists()
    epochs = []
    parts = train_digits(tmp_path / "parts", progress=lambda report: epochs.append(report.done))
    assert epochs == list(range(stops[-1] + 1, 5))
    assert parts.weights.read_bytes() == whole.weights.read_bytes()
    assert parts.card.train_loss == whole.card.train_loss
    assert sorted(file.name for file in (tmp_path / "parts").iterdir()) == [
        "digits-0.25.json",
        "digits-0.25.safetensors",
    ]


def images(count: int, seed: int = 0) -> Dataset:
    generator = np.random.default_rng(seed)
    return Dataset("noise", generator.random((count, 3, 32, 32), np.float32), np.arange(count) % 10, np.arange(count))


def test_interrupted_training_with_batch_normalisation_crops_and_flips(tmp_path):
    options = {"epochs": 2, "batch_size": 8, "device": "cpu"}
    whole = train("cifar-resnet20", images(20), NOISE, out=tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        train("cifar-resnet20", images(20), NOISE, out=tmp_path / "parts", progress=stop_after(1), **options)
    parts = train("cifar-resnet20", images(20), NOISE, out=tmp_path / "parts", **options)
    assert parts.weights.read_bytes() == whole.weights.read_bytes()
    assert parts.card.test_accuracy is None


def test_the_network_learns(tmp_path):
    data = load_data("digits", split="train")
    reports = []
    trained = train("digits", data, NOISE, test=TEST, epochs=20, device="cpu", out=tmp_path, progress=reports.append)
    assert [report.done for report in reports] == list(range(1, 21))
    assert {report.total for report in reports} == {20}
    assert reports[-1].loss < 0.5 * reports[0].loss
    assert sum(report.measured is not None for report in reports) == 10
    assert reports[-1].measured.noisy_accuracy == pytest.approx(trained.card.noisy_test_accuracy)
    assert trained.card.noisy_test_accuracy > 0.8
    assert trained.card.test_accuracy > 0.9


OTHERS = {
    Uniform(0.5): "digits-uniform-0.5",
    Laplace(0.25): "digits-laplace-0.25",
    Gaussian(0.25, grid=1 / 16): "digits-gaussian-0.25-grid-1-16",
}


@pytest.mark.parametrize("noise", OTHERS, ids=str)
def test_any_noise_can_be_trained_with(tmp_path, noise):
    options = {"test": TEST, "epochs": 12, "device": "cpu"}
    data = load_data("digits", split="train")
    with pytest.raises(KeyboardInterrupt):
        train("digits", data, noise, out=tmp_path, progress=stop_after(5), **options)
    trained = train("digits", data, noise, out=tmp_path, **options)
    assert trained.weights.name == f"{OTHERS[noise]}.safetensors"
    assert trained.card.noise == noise.spec
    assert trained.card.noisy_test_accuracy > 0.7


def test_the_command_line_trains_with_any_noise_and_certifies_with_it(tmp_path, monkeypatch, capsys):
    common = ["--model", "digits", "--data", "digits", "--noise", "splitting:0.5"]
    monkeypatch.setattr("sys.argv", ["recert", "train", *common, "--epochs", "2", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert "--noise splitting:0.5" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "digits-splitting-0.5.safetensors").is_file()
    monkeypatch.setattr("sys.argv", ["recert", "train", *common[:-1], "gaussian:0.5:grid=1/7", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert "expected inputs that are multiples of 1/7" in " ".join(capsys.readouterr().err.split())


def test_inputs_that_are_not_on_the_grid_are_refused_before_training(tmp_path):
    with pytest.raises(ValueError, match="expected inputs that are multiples of 1/10"):
        train("digits", DIGITS, Gaussian(0.25, grid=1 / 10), test=TEST, out=tmp_path, progress=stop_after(1))
    with pytest.raises(ValueError, match="expected a noise such as"):
        train("digits", DIGITS, 0.25, test=TEST, out=tmp_path, progress=stop_after(1))


def test_weights_and_card_belong_together(tmp_path):
    trained = train_digits(tmp_path, seed=7)
    card = json.loads(trained.card_file.read_text())
    assert trained.weights == tmp_path / "digits-0.25.safetensors"
    assert card["weights_sha256"] == hashlib.sha256(trained.weights.read_bytes()).hexdigest()
    assert card["noise"] == "gaussian:0.25"
    assert card["parameters"] == 38_282
    assert {"seed": 7, "epochs": 4, "batch_size": 64, "architecture": "digits"}.items() <= card["settings"].items()
    pixels = hashlib.sha256(DIGITS.inputs.tobytes() + DIGITS.labels.tobytes()).hexdigest()
    assert card["settings"]["train_data"] == {
        "name": "digits train",
        "count": 200,
        "shape": [1, 8, 8],
        "sha256": pixels,
    }
    assert card["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert card["seconds"] >= 0
    network = load_model(f"digits@{trained.weights}").model
    with torch.inference_mode():
        right = network(torch.from_numpy(TEST.inputs)).argmax(1).numpy() == TEST.labels
    assert card["test_accuracy"] == pytest.approx(right.mean())


def test_saved_weights_are_float32(tmp_path):
    tensors = safetensors.torch.load_file(train_digits(tmp_path, epochs=1).weights)
    assert tensors.keys() == build_model("digits").state_dict().keys()
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}


def test_finished_training_is_returned_as_it_is(tmp_path):
    first = train_digits(tmp_path)
    again = train_digits(tmp_path, progress=stop_after(1))  # would stop if it trained
    assert again.card == first.card


def test_another_training_is_not_overwritten(tmp_path):
    train_digits(tmp_path)
    with pytest.raises(OtherTraining, match=r"expected a training with epochs = 5, got one with 4 in .*resume=False"):
        train_digits(tmp_path, epochs=5)
    assert train_digits(tmp_path, epochs=5, resume=False).card.settings["epochs"] == 5


def test_state_of_another_training_is_not_continued(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train_digits(tmp_path, progress=stop_after(2))
    with pytest.raises(OtherTraining, match=r"learning_rate = 0\.01, got one with 0\.05"):
        train_digits(tmp_path, learning_rate=0.01)
    other = replace(DIGITS, inputs=DIGITS.inputs / 2)
    with pytest.raises(OtherTraining, match="train_data"):
        train("digits", other, NOISE, test=TEST, epochs=4, device="cpu", out=tmp_path)
    assert train_digits(tmp_path, learning_rate=0.01, resume=False).card.settings["learning_rate"] == 0.01


def test_changed_weights_are_noticed(tmp_path):
    trained = train_digits(tmp_path, epochs=1)
    content = trained.weights.read_bytes()
    trained.weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(OtherTraining, match=r"the weights that digits-0\.25\.json describes, got others"):
        train_digits(tmp_path, epochs=1)


def test_seed_decides_and_global_state_does_not(tmp_path):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = train_digits(tmp_path / "a", epochs=1).weights.read_bytes()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert train_digits(tmp_path / "b", epochs=1).weights.read_bytes() == first
    assert train_digits(tmp_path / "c", epochs=1, seed=1).weights.read_bytes() != first


def test_divergence(tmp_path):
    with pytest.raises(
        TrainingDiverged, match=r"expected a finite loss, got (nan|inf) in epoch \d; lower learning_rate"
    ):
        train_digits(tmp_path, learning_rate=1e9)
    assert not (tmp_path / "digits-0.25.safetensors").exists()


BAD = {
    "shape": ("digits", images(4), {}, r"expected inputs of shape \(1, 8, 8\) for digits, got \(3, 32, 32\) in noise"),
    "no labels": ("digits", replace(DIGITS, labels=None), {}, "expected labels to train on, got none in digits train"),
    "labels": ("digits", replace(DIGITS, labels=DIGITS.labels + 1), {}, "expected labels from 0 to 9, .* got 1 to 10"),
    "name": ("vgg", DIGITS, {}, "expected a model .digits, "),
    "epochs": ("digits", DIGITS, {"epochs": 0}, "expected epochs >= 1"),
    "rate": ("digits", DIGITS, {"learning_rate": -1.0}, "learning_rate > 0"),
    "batch": ("digits", DIGITS, {"batch_size": 0}, "batch_size >= 1"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_arguments(tmp_path, bad):
    architecture, data, options, message = BAD[bad]
    with pytest.raises(ValueError, match=message):
        train(architecture, data, NOISE, out=tmp_path, **options)


def test_test_data_are_checked_before_training(tmp_path):
    with pytest.raises(ValueError, match="expected inputs of shape"):
        train_digits(tmp_path, test=images(4), progress=stop_after(1))
