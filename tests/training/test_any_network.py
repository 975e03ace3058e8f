"""Training of networks that are not shipped: every form of data gives the same weights, and what is stopped goes on to the same ones."""

import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler
from torch.utils.data import Dataset as TorchDataset

import recert
from recert.cli import main
from recert.cli.train import _test_split
from recert.data import load_data
from recert.errors import RecertError
from recert.training import OtherTraining
from recert.training.recipes import usual_recipe
from recert.units import UnusualUnits

NOISE = recert.Gaussian(0.25)
TRAINING, TEST = load_data("digits", split="train", count=300), load_data("digits", count=120)
PAIR, TEST_PAIR = (TRAINING.inputs, TRAINING.labels), (TEST.inputs, TEST.labels)


def small() -> nn.Module:
    """With what makes training random or stateful: dropout, batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 36, 10)
    )


def fresh(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return small()


def train(out: Path, data=PAIR, model=None, **options) -> recert.TrainedModel:
    settings = {"epochs": 3, "batch_size": 32, "device": "cpu", "progress": False, **options}
    return recert.train(model or fresh(), data, NOISE, out=out, **settings)


def npz(folder: Path, name: str, inputs, labels) -> str:
    np.savez(folder / f"{name}.npz", inputs=inputs, labels=labels)
    return str(folder / f"{name}.npz")


class Items(TorchDataset):
    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, i):
        return torch.from_numpy(self.inputs[i]), int(self.labels[i])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(())


class Jittered(Items):
    def __getitem__(self, i):
        image, label = super().__getitem__(i)
        return image * (0.8 + 0.2 * torch.rand(())), label


class Pictures(TorchDataset):
    def __len__(self):
        return 9

    def __getitem__(self, i):
        return pytest.importorskip("PIL.Image").new("L", (8, 8)), 1


def loader(**options) -> DataLoader:
    return DataLoader(Items(*PAIR), batch_size=32, **options)


FORMS = {
    "tensors": lambda folder: {"data": tuple(map(torch.from_numpy, PAIR))},
    "data set of recert": lambda folder: {"data": TRAINING},
    "data set of tensors": lambda folder: {"data": TensorDataset(*map(torch.from_numpy, PAIR))},
    "file": lambda folder: {"data": npz(folder, "train", *PAIR)},
    "file, streamed": lambda folder: {"data": npz(folder, "train", *PAIR), "stream": True},
    "arrays, streamed": lambda folder: {"data": PAIR, "stream": True},
    "data set of torch": lambda folder: {"data": Items(*PAIR)},
    "loader": lambda folder: {"data": loader(shuffle=True), "batch_size": None},
    "loader with workers": lambda folder: {"data": loader(num_workers=2)},
}


@pytest.fixture(scope="module")
def by_arrays(tmp_path_factory) -> bytes:
    return train(tmp_path_factory.mktemp("arrays")).weights.read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_data_gives_the_same_weights(tmp_path, by_arrays, form):
    assert train(tmp_path / "out", **FORMS[form](tmp_path)).weights.read_bytes() == by_arrays


def stop_after(epoch: int):
    def progress(report):
        if report.done == epoch:
            raise KeyboardInterrupt

    return progress


STOPPED = {
    "adamw": {},
    "consistency": {"consistency": 5.0},
    "streamed": {"stream": True},
    "random augmentation": {"data": Jittered(*PAIR)},
    "random augmentation in workers": {"data": DataLoader(Jittered(*PAIR), batch_size=64, num_workers=2)},
    "one network": {"model": fresh(3), "learning_rate": 1e-3},
}


@pytest.mark.parametrize("case", STOPPED)
def test_what_was_stopped_ends_in_the_same_bits(tmp_path, case):
    whole = train(tmp_path / "whole", **STOPPED[case])
    for stop in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "parts", progress=stop_after(stop), **{**STOPPED[case]})
    torch.manual_seed(99)
    parts = train(tmp_path / "parts", **STOPPED[case])
    assert parts.weights.read_bytes() == whole.weights.read_bytes()
    assert (parts.card.before, parts.card.after) == (whole.card.before, whole.card.after)


KILLED = """
import sys
import torch
from tests.training.test_any_network import train, Path
torch.set_num_threads(int(sys.argv[2]))
train(Path(sys.argv[1]), epochs=60)
"""


def test_a_killed_training_goes_on_to_the_same_bits(tmp_path):
    """The second call builds a network with other random weights, as a script without a seed does."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "killed"), str(torch.get_num_threads())])
    state = tmp_path / "killed" / "Sequential-0.25.state.safetensors"
    deadline = time.monotonic() + 100
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert state.exists()
    reports = []
    gone_on = train(tmp_path / "killed", epochs=60, model=fresh(5), progress=reports.append)
    assert reports[0].done > 1
    whole = train(tmp_path / "whole", epochs=60)
    assert gone_on.weights.read_bytes() == whole.weights.read_bytes()


def test_the_users_network_stays_as_it_is_and_the_result_is_loaded_by_its_spec(tmp_path, monkeypatch):
    net = fresh()
    before = safetensors.torch.save(net.state_dict())
    trained = train(tmp_path, model=net, test=TEST_PAIR)
    assert net.training
    assert safetensors.torch.save(net.state_dict()) == before
    assert not trained.model.training
    (tmp_path / "ownnets.py").write_text("from tests.training.test_any_network import small")
    monkeypatch.chdir(tmp_path)
    loaded = recert.load_model(f"ownnets:small@{trained.weights}").model
    x = torch.from_numpy(TEST.inputs)
    with torch.inference_mode():
        torch.testing.assert_close(loaded(x), trained.model(x))
        right = (loaded(x).argmax(1).numpy() == TEST.labels).mean()
    assert trained.card.after["accuracy"] == trained.card.test_accuracy == pytest.approx(right)
    again = train(tmp_path, model=net, test=TEST_PAIR, progress=stop_after(1))  # would stop if it trained
    assert again.card == trained.card
    with torch.inference_mode():
        torch.testing.assert_close(again.model(x), trained.model(x))


@pytest.fixture(scope="module")
def ordinary() -> nn.Module:
    """Trained without noise, as most networks are."""
    net, (x, y) = fresh(), (torch.from_numpy(each) for each in PAIR)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(60):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()


def test_an_ordinary_network_is_fine_tuned_and_certifies_more(tmp_path, ordinary):
    noise = recert.Gaussian(0.5)
    trained = recert.train(ordinary, PAIR, noise, test=TEST_PAIR, device="cpu", out=tmp_path, progress=False)
    card = trained.card
    assert card.settings["start"] is not None
    assert card.settings["epochs"] == 100
    assert card.before["accuracy"] > 0.8
    assert card.after["noisy_accuracy"] > card.before["noisy_accuracy"] + 0.05
    assert card.after["acr"] > card.before["acr"] + 0.03
    found = [
        recert.certify(each, TEST.inputs[:60], noise=noise, samples=300).certificates.certified_accuracy(
            TEST.labels[:60], [0.25]
        )[0]
        for each in (ordinary, trained.model)
    ]
    assert found[1] > found[0] + 0.05


def test_another_trained_network_is_another_training(tmp_path, ordinary):
    train(tmp_path, model=ordinary)
    other = copy.deepcopy(ordinary)
    with torch.no_grad():
        other[0].weight.mul_(1.01)
    with pytest.raises(OtherTraining, match="start"):
        train(tmp_path, model=other)


def test_a_last_batch_of_one_is_left_out(tmp_path):
    """Batch normalisation has no variance of one row."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))
    trained = train(tmp_path, model=net, data=(TRAINING.inputs[:33], TRAINING.labels[:33]), epochs=1)
    assert trained.card.train_accuracy * 32 == pytest.approx(round(trained.card.train_accuracy * 32))


class Shapes(nn.Module):
    """Stands in for a compiled network: remembers the shapes that it would be compiled for."""

    def __init__(self, network: nn.Module, seen: set) -> None:
        super().__init__()
        self.network, self.seen = network, seen

    def forward(self, x):
        self.seen.add(tuple(x.shape))
        return self.network(x)


def test_a_compiled_network_sees_batches_of_one_shape(tmp_path, monkeypatch):
    seen: set = set()
    monkeypatch.setattr(torch, "compile", lambda network: Shapes(network, seen))
    train(tmp_path, compile=True, consistency=1.0)  # 300 examples: nine batches of 32, and 12 that are left out
    assert seen == {(64, 1, 8, 8)}
    train(tmp_path / "small", compile=True, data=(TRAINING.inputs[:20], TRAINING.labels[:20]))
    assert seen == {(64, 1, 8, 8), (20, 1, 8, 8)}  # fewer than a batch are all there is


def test_usual_recipes():
    def usual(shape, *, trained=False, count=10_000, name=None):
        recipe = usual_recipe(name, trained=trained, count=count, shape=shape)
        return recipe.epochs, recipe.batch_size, recipe.crop, recipe.flip

    assert usual((3, 64, 64), count=100_000) == (40, 128, 8, True)
    assert usual((1, 28, 28)) == (51, 128, 0, False)
    assert usual((3, 16, 16), count=1_000) == (125, 32, 0, False)  # 4,000 steps
    assert usual((30,), trained=True, count=4_000) == (20, 80, 0, False)
    assert usual((3, 32, 32), name="cifar-resnet20") == (160, 512, 4, True)
    assert usual((3, 32, 32), name="cifar-resnet20", trained=True) == (13, 128, 4, True)


BAD = {
    "labels": ({"data": (TRAINING.inputs, TRAINING.labels + 5)}, "expected labels from 0 to 9, .* got 5 to 14"),
    "labels, streamed": ({"data": Items(TRAINING.inputs, TRAINING.labels + 5)}, "expected labels from 0 to 9"),
    "one-hot": ({"data": (TRAINING.inputs, np.eye(10)[TRAINING.labels])}, r"pass labels\.argmax\(1\)"),
    "bytes": ({"data": ((TRAINING.inputs * 16).astype(np.uint8), TRAINING.labels)}, "expected float32 inputs"),
    "lengths": ({"data": (TRAINING.inputs, TRAINING.labels[:9])}, "as many labels as inputs, got 9 and 300"),
    "no labels": ({"data": TRAINING.inputs}, r"expected data to train on as \(inputs, labels\)"),
    "shape": ({"data": (TRAINING.inputs[:, :, :5], TRAINING.labels)}, "expected a network that takes inputs of shape"),
    "sampler": ({"data": loader(sampler=WeightedRandomSampler(np.ones(300), 300))}, "got one with a Weighted"),
    "pictures": ({"data": Pictures()}, r"transform=torchvision\.transforms\.ToTensor"),
    "iterable": ({"data": Stream()}, "with a length and items by number"),
    "function": ({"model": lambda x: x}, "expected a torch.nn.Module to train"),
    "no weights": ({"model": nn.Flatten()}, "which has none that require a gradient"),
    "half": ({"model": small().half()}, r"convert the network with \.float\(\)"),
    "no logits": ({"model": nn.Conv2d(1, 2, 3)}, r"expected logits of shape \(batch, classes\)"),
    "consistency": ({"consistency": -1.0}, "expected consistency >= 0"),
    "flip": (
        {"model": nn.Linear(4, 2), "data": (np.ones((9, 4), np.float32), [0] * 9), "flip": True},
        "to flip or crop",
    ),
    "name": ({"name": "../other"}, "expected a name without folders, got '../other'"),
    "file": ({"start": Path("nothing.pt")}, "which does not exist"),
}


@pytest.mark.parametrize("bad", BAD)
def test_mistakes_are_named(tmp_path, bad):
    options, message = BAD[bad]
    with pytest.raises((ValueError, RecertError), match=message):
        train(tmp_path, **options)


def test_images_in_other_units_are_warned_about(tmp_path):
    """Noise of .25 is nothing beside grey levels up to 255."""
    for number, data in enumerate(
        [(TRAINING.inputs * 255, TRAINING.labels), Items(TRAINING.inputs * 255, TRAINING.labels)]
    ):
        with pytest.warns(UnusualUnits, match="divide them by 255") as found:
            train(tmp_path / str(number), data=data, epochs=1)
        assert [Path(each.filename).name for each in found] == [Path(__file__).name]


def test_the_command_line_fine_tunes_a_network_of_ones_own_on_a_folder(tmp_path, monkeypatch, capsys, ordinary):
    image = pytest.importorskip("PIL.Image")
    for split, data in (("train", TRAINING), ("test", TEST)):
        for i, (pixels, label) in enumerate(zip(data.inputs, data.labels, strict=True)):
            path = tmp_path / "digits" / split / str(label) / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.fromarray((pixels[0] * 255).astype(np.uint8)).save(path)
    (tmp_path / "clinets.py").write_text("from tests.training.test_any_network import small")
    torch.save(ordinary.state_dict(), tmp_path / "ordinary.pt")
    monkeypatch.chdir(tmp_path)
    common = ["--data", "folder:digits", "--noise", "gaussian:0.5"]
    given = [
        "recert",
        "train",
        "--model",
        "clinets:small",
        "--from",
        "ordinary.pt",
        *common,
        "--epochs",
        "30",
        "--format",
        "json",
    ]
    monkeypatch.setattr("sys.argv", given)
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    said = capsys.readouterr()
    before, after = json.loads(said.out)
    assert after["ACR at 100 votes"] > before["ACR at 100 votes"]
    on_the_way = re.findall(r"epoch (\d+) of 30: .* under noise [\d.]+%, ACR at 100 votes [\d.]+", said.err)
    assert on_the_way == [str(3 * i) for i in range(1, 11)]
    command = said.err.partition("certify with:\n")[2].split()
    assert command[:4] == ["recert", "certify", "--model", "clinets:small@runs/networks/small-0.5.safetensors"]
    monkeypatch.setattr("sys.argv", [*command, "--samples", "100", "--count", "5", "--store", "store"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code


def test_the_command_line_warns_of_other_units_in_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["recert", "train", "--model", "digits", "--data", npz(tmp_path, "grey", TRAINING.inputs * 255, TRAINING.labels),
                                     "--epochs", "1", "--out", str(tmp_path)])  # fmt: skip
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "warning: inputs reach 255, as images in 0..255 do: divide them by 255" in said
    assert "UnusualUnits" not in said


def test_npz_without_a_test_file_is_measured_on_itself_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["recert", "train", "--model", "digits", "--data", npz(tmp_path, "all", *PAIR), "--epochs", "1",
                                     "--out", str(tmp_path)])  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert "these are of the inputs that it was trained on; name others with --test" in capsys.readouterr().err
    assert json.loads((tmp_path / "digits-0.5.json").read_text())["test_accuracy"] is None


def test_data_without_splits_are_not_their_own_test(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for label in "ab":
        (tmp_path / label).mkdir()
        image.new("L", (8, 8)).save(tmp_path / label / "1.png")
    assert _test_split(f"folder:{tmp_path}") is None
    assert _test_split("digits") == "digits"


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("recert.training.train", interrupted)
    monkeypatch.setattr(
        "sys.argv", ["recert", "train", "--model", "digits", "--data", "digits", "--out", str(tmp_path)]
    )
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 130
    assert "run the same command again to continue" in " ".join(capsys.readouterr().err.split())


class Startled(nn.Module):
    """Right without noise; with it, it says one class of everything."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x):
        rough = (x - x.mul(16).round().div(16)).abs().flatten(1).mean(1) > 1e-4
        return torch.where(rough[:, None], nn.functional.one_hot(torch.tensor(3), 10).float(), self.net(x))


def startled() -> nn.Module:
    return Startled(recert.load_model("digits").model)


@pytest.mark.parametrize("command", ["certify", "predict"])
@pytest.mark.parametrize(("model", "asked"), [("digits", False), ("startlednets:startled", True)])
def test_commands_ask_whether_a_network_was_trained_with_noise(tmp_path, monkeypatch, capsys, model, asked, command):
    (tmp_path / "startlednets.py").write_text("from tests.training.test_any_network import startled")
    monkeypatch.chdir(tmp_path)
    given = ["--model", model, "--data", "digits", "--count", "40", "--samples", "100"]
    monkeypatch.setattr("sys.argv", ["recert", command, *given])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    said = " ".join(capsys.readouterr().err.split())
    assert ("Was it trained with this noise?" in said) == asked
    assert ("recert train --model startlednets:startled --data TRAINING_DATA --noise gaussian:0.5" in said) == asked
