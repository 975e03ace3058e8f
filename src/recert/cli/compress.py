"""recert compress"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recert.cli import options as o
from recert.cli.output import check_output, say, show
from recert.cli.saving import MODELS, save

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from recert.approximations import Approximation, Calibration

LATENCY_ROWS = 32


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: recert compress --model digits --approximation int8 --data digits -o digits-int8.onnx"
    )(o.with_groups(compress))


def compress(
    *,
    model: o.ModelOptions,
    approximation: Annotated[
        str,
        typer.Option(
            "--approximation",
            "-a",
            metavar="CHANGE",
            help="Compression to apply: int8, prune:0.3+int8, int8\\[!conv1,!fc], ... (see [b]recert approximations[/b]).",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The new model: .onnx for int8 and int8-twin, else .safetensors, or .onnx for a float32 export.",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DATA",
            help="int8 is calibrated on its training inputs, and latency is measured on it.",
        ),
    ] = None,
    noise: o.Noise = "gaussian:0.5",
    seed: o.Seed = 0,
    format: o.OutputFormat = o.Format.TABLE,
    debug: o.Debug = False,
) -> None:
    """Make a cheaper model and save it, with size and latency before and after; certify the file with recertify --model FILE.

    What needs calibration takes noise and seed as recertify and select take them from the cache: give the same to get the same model.
    """
    check_output(out, MODELS)
    import recert
    from recert.approximations import approximate, needs_calibration
    from recert.cli.loading import calibration_for
    from recert.models.loading import load_model

    calibration: Calibration | None = None
    if needs_calibration(approximation):
        if data is None:
            raise ValueError(
                f"expected --data for {approximation}, whose scales are measured on training inputs, got none"
            )
        calibration = calibration_for(data, recert.parse_noise(noise), seed)
    loaded = load_model(model.model, trust=model.trust)
    say(f"{model.model}: {loaded.note}", markup=False)
    example = _example(data, loaded.input_shape)
    made = approximate(loaded.model, approximation, calibration=calibration, example_input=example)
    say(f"{approximation}: {made.description}", markup=False)
    save(made.model, out, model.model, made, example_input=example)
    show(_rows(model.model, loaded.model, made, out, example), format)
    say(f"re-certify it with:\n  recert recertify --model {out} --store STORE --data {data or 'DATA'}", markup=False)


def _example(data: str | None, shape: tuple[int, ...] | None) -> "NDArray[np.float32] | None":
    """A few inputs to try the model on: of the data, or in the middle of the range if only their shape is known."""
    import numpy as np

    if data is not None:
        from recert.data import load_data

        return load_data(data, count=LATENCY_ROWS).inputs
    return None if shape is None else np.full((2, *shape), 0.5, dtype=np.float32)


def _rows(name: str, before: "nn.Module", made: "Approximation", out: Path, example: Any) -> list[dict[str, Any]]:
    """Size and latency of both."""
    from recert.choosing.costs import find_costs

    models = {name: before, made.spec: made.model}
    sizes = find_costs(models, "bytes", None).values
    latency = None if example is None else find_costs(models, "latency", example)
    rows: list[dict[str, Any]] = []
    for each, file in ((name, None), (made.spec, out)):
        rows.append({
            "model": each, "bytes of weights": int(sizes[each]), "bytes of file": None if file is None else file.stat().st_size,
            "ms per batch": None if latency is None else latency.values[each],
        })  # fmt: skip
    if latency is not None:
        say(f"latency: {latency.note}", markup=False)
    return rows
