"""Options that commands share: one noun each, the same everywhere."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class CertificateKind(StrEnum):
    ONE_SIDED = "one-sided"
    TWO_SIDED = "two-sided"


class Precision(StrEnum):
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"


class Runtime(StrEnum):
    TORCH = "torch"
    ONNXRUNTIME = "onnxruntime"


class Engine(StrEnum):
    LOCAL = "local"
    RAY = "ray"


Model = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="Model: a name (see [b]recert models[/b]), package.module:factory\\[@weights], or a file."
    ),
]
Data = Annotated[str, typer.Option("--data", "-d", help="Data: digits, cifar10:DIR, FILE.npz, folder:DIR.")]
Noise = Annotated[str, typer.Option(help="Noise family and scale, in units of the input.")]
Alpha = Annotated[float, typer.Option(help="Probability that an input's certificate is wrong.")]
Seed = Annotated[int, typer.Option(help="Seed of the noise.")]
Store = Annotated[str, typer.Option("--store", "-s", help="Folder of the cache, or an fsspec URL.")]
Every = Annotated[int, typer.Option(help="Take every k-th input.")]
Count = Annotated[int | None, typer.Option(help="Take at most this many inputs.")]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Certify inputs I, I+N, I+2N, ... (counted from 1; I from 1 to N) into a store of their own, STORE-shard-I-of-N. "
        "Join the N stores with [b]recert cache merge[/b].",
    ),
]
Split = Annotated[str, typer.Option(help="Which split of the data.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")]
BatchSize = Annotated[int | None, typer.Option(help="Samples per batch; the fastest if not given.")]
UsePrecision = Annotated[
    Precision | None,
    typer.Option(
        "--precision", help="How the network computes: fp32 is strict, tf32 needs a GPU; as it is, if not given."
    ),
]
ChannelsLast = Annotated[bool, typer.Option(help="Memory format of images: the faster one for convolutions, or plain.")]
Compile = Annotated[bool, typer.Option("--compile", help="Compile the network first: for long runs.")]
UseRuntime = Annotated[
    Runtime, typer.Option("--runtime", help="Who computes: torch, or onnxruntime in float32 on the CPU.")
]
UseEngine = Annotated[Engine, typer.Option("--engine", help="local: this process; ray: a cluster, or this machine.")]
Workers = Annotated[
    int | None, typer.Option(help="ray: number of workers; one per GPU with --device cuda, else one per core.")
]
RayAddress = Annotated[
    str | None, typer.Option(help="ray: auto or the address of a cluster; one is started here if not given.")
]
Radii = Annotated[str, typer.Option(help="Radii at which certified accuracy is shown.")]
OutputFormat = Annotated[Format, typer.Option("--format", "-f", help="How results are printed.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write a row per input here: .parquet, .csv or .tsv.")]
Require = Annotated[
    list[str] | None,
    typer.Option(help="Exit with 3 unless this holds, e.g. 'accuracy:0.5>=0.6' or 'acr>=0.4'. Repeatable."),
]
Trust = Annotated[bool, typer.Option("--trust", help="Load .pt2 files, which can run code.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and spend nothing.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def check_engine(engine: Engine, workers: int | None, address: str | None) -> None:
    """Refuse options of an engine that is not used."""
    if engine is Engine.LOCAL and (workers is not None or address is not None):
        raise ValueError("expected --engine ray with --workers or --ray-address, got local; add it, or leave them out")


def home(engine: Engine, device: str) -> str:
    """Where the command itself holds the network. Workers of a cluster move it to their devices."""
    return "cpu" if engine is Engine.RAY else device


def parse_radii(text: str) -> list[float]:
    """Numbers between commas."""
    try:
        radii = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"expected radii like 0.25,0.5,1.0, got {text!r}") from None
    if any(r < 0 for r in radii):
        raise typer.BadParameter(f"expected radii of at least 0, got {text!r}")
    return radii
