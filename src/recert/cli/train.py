"""recert train"""

from pathlib import Path
from typing import Annotated

import typer

from recert.cli import options as o
from recert.cli.output import say, show


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert train --model digits --data digits --noise gaussian:0.5 --out runs/networks")(
        train
    )


def train(
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="A shipped network: digits, cifar-resnet20, cifar-resnet110."
        ),
    ],
    data: o.Data,
    noise: o.Noise = "gaussian:0.5",
    epochs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Passes over the data.", show_default="what is usual for the network"),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", help="Images per step.", show_default="what is usual for the network")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(metavar="X", help="Largest learning rate.", show_default="what is usual for the network"),
    ] = None,
    seed: o.Seed = 0,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu or cuda.", show_default="cuda if there is one")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the weights and their card.")
    ] = Path("runs/networks"),
    restart: Annotated[bool, typer.Option("--restart", help="Start afresh instead of continuing.")] = False,
    format: o.OutputFormat = o.Format.TABLE,
    debug: o.Debug = False,
) -> None:
    """Train a shipped network on noisy inputs; an interrupted training continues where it stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from recert.data import load_data
    from recert.noise import parse_noise
    from recert.training import train as train_network

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs, {task.fields[state]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("training", total=None, state="")

        def show_epoch(done: int, total: int, loss: float, accuracy: float) -> None:
            bars.update(bar, completed=done, total=total, state=f"loss {loss:.3f}, accuracy {accuracy:.1%}")

        trained = train_network(
            model, load_data(data, split="train"), parse_noise(noise), test=load_data(data, split="test"), epochs=epochs,
            batch_size=batch_size, learning_rate=learning_rate, seed=seed, device=device, out=out, progress=show_epoch, resume=not restart,
        )  # fmt: skip
    card = trained.card
    show(
        [{
            "model": model, "noise": card.noise, "accuracy": card.test_accuracy, "accuracy under noise": card.noisy_test_accuracy,
            "train loss": card.train_loss, "seconds": card.seconds,
        }],
        format,
    )  # fmt: skip
    say(
        f"weights: {trained.weights}\ncertify with:\n  recert certify --model {model}@{trained.weights} --data {data} --noise {noise}"
    )
