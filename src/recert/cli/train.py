"""recert train"""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from recert.cli import options as o
from recert.cli.output import Row, say, show
from recert.cli.stopping import INTERRUPTED


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert train --model mynets:cnn --data train.npz --noise gaussian:0.5 --epochs 20")(
        train
    )


def train(
    model: o.Model,
    data: o.Data,
    noise: o.Noise = "gaussian:0.5",
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="For the accuracies, in the forms of --data.",
            show_default="its test split, if it has one",
        ),
    ] = None,
    start: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Begin with these weights: fine-tuning.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Passes over the data.", show_default="40, or 10 if it is trained; more if small"
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", help="Inputs per step.", show_default="128, or fewer of small data")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(metavar="X", help="Largest learning rate.", show_default="what is usual for the network"),
    ] = None,
    consistency: Annotated[
        float | None,
        typer.Option(
            metavar="LAMBDA",
            help="Pull two noisy copies of each input towards the same answer, so strongly; 10 or 20. Twice the time, larger radii.",
        ),
    ] = None,
    flip: Annotated[
        bool | None,
        typer.Option("--flip/--no-flip", help="Mirror images.", show_default="colour images of 32 x 32 and more"),
    ] = None,
    crop: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Move images by up to so many pixels.",
            show_default="an eighth of the side where mirrored",
        ),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--whole", help="Read the data batch by batch, or at once.", show_default="what memory holds"
        ),
    ] = None,
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile the network first, for long runs on a GPU.")
    ] = False,
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
    """Train a network on noisy inputs, from scratch or from the weights that it has; an interrupted training continues where it stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from recert.noise import parse_noise
    from recert.training import Epoch
    from recert.training import train as train_network

    smoothing = parse_noise(noise)
    columns = (
        TextColumn("training"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("epochs, {task.fields[state]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    try:
        with (
            warnings.catch_warnings(),
            Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars,
        ):
            warnings.showwarning = _say_warning
            bar = bars.add_task("training", total=None, state="")

            def show_epoch(epoch: Epoch) -> None:
                state = f"loss {epoch.loss:.3f}, accuracy {epoch.accuracy:.1%}"
                bars.update(bar, completed=epoch.done, total=epoch.total, state=state)

            trained = train_network(
                model, data, smoothing, test=test or _test_split(data), epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
                start=start, consistency=consistency, flip=flip, crop=crop, stream=stream, compile=compile, seed=seed, device=device, out=out,
                progress=show_epoch, resume=not restart,
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"stopped; what was trained up to the last epoch is kept in {out}: run the same command again to continue")
        raise typer.Exit(INTERRUPTED) from None
    card = trained.card
    show([_row("before", card.before, card), _row("after", card.after, card)], format)
    if card.measured_on != "test":
        say("these are of the inputs that it was trained on; name others with --test")
    say(
        f"weights: {trained.weights}\ncertify with:\n  recert certify --model {_without_weights(model)}@{trained.weights} "
        f"--data {test or data} --noise {noise}"
    )


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """As the other commands say it, without a line of the program."""
    say(f"[yellow]warning:[/yellow] {escape(str(message))}")


def _row(when: str, found: dict[str, Any] | None, card: Any) -> Row:
    """A row of numbers; a card of an older version has those of the end alone."""
    shown = found or {"accuracy": card.test_accuracy, "noisy_accuracy": card.noisy_test_accuracy, "acr": None}
    if when == "before" and found is None:
        shown = dict.fromkeys(shown)
    return {
        "network": when, "accuracy": shown["accuracy"], "accuracy under noise": shown["noisy_accuracy"],
        "ACR at 100 votes": shown["acr"], "seconds": card.seconds if when == "after" else None,
    }  # fmt: skip


def _test_split(data: str) -> str | None:
    """The data once more if they have a test split; without one, all inputs would be those of the training."""
    import numpy as np

    from recert.data import data_source

    if data.lower().endswith(".npz"):  # it has no splits, and would be read for nothing
        return None
    training, testing = data_source(data, split="train"), data_source(data, split="test")
    if training.name == testing.name and np.array_equal(training.positions, testing.positions):
        return None
    return data


def _without_weights(model: str) -> str:
    """A spec to which weights can be added."""
    from recert.models.specs import parse_spec

    spec = parse_spec(model)
    return spec.name if spec.argument is None or spec.kind == "registered" else f"{spec.name}:{spec.argument}"
