"""What training with noise changes, for the page "Your own model": an ordinary small network before and after, with and without consistency.

    python benchmarks/training.py TRAIN.npz TEST.npz [--epochs 5] [--images 200] [--samples 1000] [--sigma 0.5]

The files hold `inputs` (count, 1, 28, 28) in [0, 1] and `labels` from 0 to 9, as Fashion-MNIST has them.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

import recert
from recert.data import Dataset, load_data


def network() -> nn.Module:
    """Two convolutions with batch normalisation, 20,586 parameters."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 7 * 7, 10)),
    )


def ordinary(data: Dataset, epochs: int) -> nn.Module:
    """Trained as most networks are, without noise."""
    torch.manual_seed(0)
    net, x, y = network(), torch.from_numpy(data.inputs), torch.from_numpy(np.asarray(data.labels))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(epochs):
        for chosen in shuffled(x):
            loss = nn.functional.cross_entropy(net(x[chosen]), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net.eval()


def shuffled(x: Tensor) -> Iterator[Tensor]:
    yield from torch.randperm(len(x)).split(64)


def row(name: str, net: nn.Module, test: Dataset, seconds: float, wanted: argparse.Namespace) -> str:
    """Accuracies of all test inputs; certificates of the first ones."""
    noise, some, labels = recert.Gaussian(wanted.sigma), test.inputs[: wanted.images], test.labels[: wanted.images]
    x, y = torch.from_numpy(test.inputs), torch.from_numpy(test.labels)
    with torch.inference_mode():
        clean = (net(x).argmax(1) == y).float().mean()
        draws = torch.Generator().manual_seed(1)
        noisy = (net(x + wanted.sigma * torch.randn(x.shape, generator=draws)).argmax(1) == y).float().mean()
    found = recert.certify(net, some, noise=noise, samples=wanted.samples).certificates.with_labels(labels)
    shares = found.certified_accuracy(labels, [0.0, 0.25, 0.5])
    cells = [f"{each:.1%}" for each in (clean, noisy, 1 - found.abstention_rate, *shares)]
    return f"| {name} | {' | '.join(cells)} | {found.average_certified_radius(labels):.3f} | {seconds:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("test")
    for name, kind, usual in (("epochs", int, 5), ("images", int, 200), ("samples", int, 1_000), ("sigma", float, 0.5)):
        parser.add_argument(f"--{name}", type=kind, default=usual)
    wanted = parser.parse_args()
    data, test = load_data(wanted.train), load_data(wanted.test)
    print(
        "| network | accuracy | under noise | certified | right | right at .25 | right at .5 | ACR | CPU seconds |",
        flush=True,
    )
    print("|---|---|---|---|---|---|---|---|---|")
    started = time.process_time()
    net = ordinary(data, 5)
    print(row("ordinary", net, test, time.process_time() - started, wanted), flush=True)
    for strength in (0.0, 10.0):
        for name, start in (("fine-tuned", net), ("from scratch", network())):
            with tempfile.TemporaryDirectory() as out:
                started = time.process_time()
                trained = recert.train(
                    start,
                    data,
                    recert.Gaussian(wanted.sigma),
                    test=test,
                    epochs=wanted.epochs,
                    consistency=strength,
                    out=out,
                )
                seconds = time.process_time() - started
            print(row(f"{name}, consistency {strength:g}", trained.model, test, seconds, wanted), flush=True)


if __name__ == "__main__":
    main()
