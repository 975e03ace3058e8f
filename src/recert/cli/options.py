"""Options that commands share: each has one name, the same everywhere, in groups where several commands take all of them.

A group is a dataclass whose fields are options. A command takes a parameter of its type, and `with_groups` makes the options of
the group options of the command. In which panel of the help an option is, `recert.cli.help` says.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

# torch and what needs it are imported inside functions, here and in all commands: importing torch takes seconds, and `--help` or a
# mistyped option must not wait for it.
if TYPE_CHECKING:
    from recert.data import Dataset
    from recert.engines import Execution
    from recert.sampling import ProgressCallback


# Enumerations instead of texts: typer lists their values in the help, and refuses others with exit code 2.
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


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="A name (see [b]recert models[/b]), a file, or package.module:factory\\[@weights], which is code, and is run.",
    ),
]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        "-d",
        metavar="DATA",
        help="digits, cifar10:DIR, tiny-imagenet:DIR, FILE.npz, folder:DIR\\[?size=N] or torchvision:NAME:DIR.",
    ),
]
Identity = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of a model that is a function: its name, such as my-api-2024-05; another whenever it changes.",
    ),
]
Classes = Annotated[
    int | None, typer.Option(metavar="N", help="Of a function that returns labels: the number of classes.")
]
Noise = Annotated[
    str,
    typer.Option(
        metavar="NOISE",
        help="Family and scale, in units of the input: gaussian:0.5, laplace:0.5, uniform:1.0, splitting:1.0, gaussian:0.5:grid=1/255.",
    ),
]
Alpha = Annotated[float, typer.Option(metavar="X", help="Probability that the certificate of an input is wrong.")]
APPROXIMATION = typer.Option(
    "--approximation",
    "-a",
    metavar="CHANGE",
    help="Compression to apply, such as int8 or prune:0.3 (see [b]recert approximations[/b]).",
    show_default="unchanged",
)
CalibrationData = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="DATA",
        help="Data on which the scales of a quantised network are measured.",
        show_default="training split of --data",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the noise.")]
Store = Annotated[str, typer.Option("--store", "-s", metavar="STORE", help="Folder of the cache, or an fsspec URL.")]
PublicKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Refuse the cache unless the owner of this Ed25519 public key (PEM) signed all of it.",
        show_default="what RECERT_PUBLIC_KEY names",
    ),
]
Every = Annotated[int, typer.Option(metavar="K", help="Take every K-th input.")]
Count = Annotated[int | None, typer.Option(metavar="N", help="Take at most this many inputs.", show_default="all")]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Certify inputs I, I+N, I+2N, ... (I from 1 to N) into a store of their own, STORE-shard-I-of-N. "
        "Join the N stores with [b]recert cache merge[/b].",
    ),
]
Split = Annotated[str, typer.Option(metavar="NAME", help="Which split of the data.")]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, ...")]
BatchSize = Annotated[
    int | None,
    typer.Option(metavar="N", help="Noisy copies per batch; of a function at most 64.", show_default="the fastest"),
]
UsePrecision = Annotated[
    Precision | None,
    typer.Option(
        "--precision",
        metavar="NAME",
        help="fp32 (strict), tf32 (on a GPU), bf16 or fp16.",
        show_default="unchanged",
    ),
]
ChannelsLast = Annotated[bool, typer.Option(help="Memory format of images: the faster one for convolutions, or plain.")]
Compile = Annotated[
    bool, typer.Option("--compile", help="Compile the network first, and say how long that took: for long runs.")
]
CompileAuto = Annotated[
    bool, typer.Option("--compile-auto", help="Compile the network where that is expected to save time.")
]
UseRuntime = Annotated[
    Runtime, typer.Option("--runtime", metavar="NAME", help="torch, or onnxruntime in float32 on the CPU.")
]
UseEngine = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="local: this process; ray: a cluster, or this machine.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="With --engine ray: how many.",
        show_default="one per GPU with --device cuda, else one per core",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(metavar="URL", help="With --engine ray: of the cluster, or auto.", show_default="one is started here"),
]
Radii = Annotated[str, typer.Option(metavar="R,R,...", help="Radii at which certified accuracy is shown.")]
At = Annotated[
    str | None,
    typer.Option(
        metavar="R,R,...",
        help="Ask only whether the radius is at least so large, e.g. 0.5 or 0.25,0.5: each input is sampled until that is decided, "
        "--samples times at most. With --require accuracy:... all ends as soon as that is decided.",
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", "-f", metavar="NAME", help="table, json or csv.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write a row per input here: .parquet, .csv or .tsv."),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT", help="Exit with 3 unless this holds, e.g. 'accuracy:0.5>=0.6' or 'acr>=0.4'. Repeatable."
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Load .pt2 and TorchScript files, which can run code, and run the factory that the card of a file names.",
    ),
]
SameModel = Annotated[
    bool,
    typer.Option(
        "--same-model",
        help="State that the model is the one of the cache although their digests differ; recorded in every guarantee.",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Save the model that was certified here, with its card FILE.json beside it: .onnx for int8 and graphs, else .safetensors.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and run nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@dataclass(frozen=True)
class ModelOptions:
    """Model"""

    model: Model
    trust: Trust = False

    def load(self, device: str) -> Any:
        from recert.cli.loading import load_network

        return load_network(self.model, device=device, trust=self.trust)


@dataclass(frozen=True)
class DataOptions:
    """Inputs"""

    data: Data
    split: Split = "test"
    every: Every = 1
    count: Count = None

    def load(self) -> "Dataset":
        from recert.cli.loading import load_inputs

        return load_inputs(self.data, split=self.split, every=self.every, count=self.count)


@dataclass(frozen=True)
class ExecutionOptions:
    """How and where the model is run"""

    device: Device = "cpu"
    precision: UsePrecision = None
    channels_last: ChannelsLast = True
    compile: Compile = False
    compile_auto: CompileAuto = False
    runtime: UseRuntime = Runtime.TORCH
    engine: UseEngine = "local"
    workers: Workers = None
    ray_address: RayAddress = None
    batch_size: BatchSize = None

    def __post_init__(self) -> None:
        # Options that would be ignored are refused: a user who gives them expects an effect.
        if self.engine == "local" and (self.workers is not None or self.ray_address is not None):
            raise ValueError(
                "expected --engine ray with --workers or --ray-address, got local; add it, or leave them out"
            )
        if self.compile and self.compile_auto:
            raise ValueError("expected --compile or --compile-auto, got both; leave one of them out")
        compiled = self.compile or self.compile_auto
        if self.runtime is Runtime.ONNXRUNTIME and (self.precision not in (None, Precision.FP32) or compiled):
            raise ValueError(
                "expected no --compile and no --precision but fp32 with --runtime onnxruntime; it decides these"
            )

    @property
    def local_device(self) -> str:
        """Where the command itself loads the network. Other engines move it to their own devices."""
        return self.device if self.engine == "local" else "cpu"

    def of_a_shard(self, elements: int, store: str) -> "ExecutionOptions":
        """On a CPU with the batch size that all shards take: what each finds by timing may differ, and such stores do not merge."""
        import torch

        from recert.cache import Cache
        from recert.sampling.batch_size import usual_batch_size

        device = torch.device(self.device)
        if self.batch_size is not None or device.type == "cuda" or Cache.manifest_at(store) is not None:
            return self
        return replace(self, batch_size=usual_batch_size(elements, device))

    def execution(
        self, progress: "ProgressCallback | None" = None, *, allow_numerics: bool = False, same_model: bool = False
    ) -> "Execution":
        """The value that all verbs take."""
        from recert.engines import Execution

        # In this process the network was loaded onto its device already. A device here would also refuse networks that run on the CPU
        # only, such as int8 ones, which the commands accept.
        return Execution(
            device=None if self.engine == "local" else self.device,
            precision=None if self.precision is None else self.precision.value,
            compile="auto" if self.compile_auto else self.compile, channels_last=self.channels_last, runtime=self.runtime.value, batch_size=self.batch_size,
            engine=self.engine, workers=self.workers, ray_address=self.ray_address, allow_numerics=allow_numerics,
            same_model=same_model, progress=progress,
        )  # fmt: skip


KeepVotes = Annotated[
    bool, typer.Option(help="Keep the votes of the changed model beside the cache, for the next time.")
]
Votes = Annotated[
    str | None,
    typer.Option(metavar="FOLDER", help="Keep them here instead (or at an fsspec URL).", show_default="STORE.replays"),
]


@dataclass(frozen=True)
class VotesOptions:
    """Votes of the changed model"""

    keep_votes: KeepVotes = True
    votes: Votes = None

    def __post_init__(self) -> None:
        if not self.keep_votes and self.votes is not None:
            raise ValueError("expected no --votes with --no-keep-votes, got both; leave one of them out")

    @property
    def keep(self) -> bool | str:
        """The value that all verbs take."""
        return self.keep_votes if self.votes is None else self.votes


@dataclass(frozen=True)
class ResultOptions:
    """What becomes of the result"""

    format: OutputFormat = Format.TABLE
    out: Out = None
    require: Require = None


def _options_of(group: Any) -> list[inspect.Parameter]:
    """The options of a group."""
    parameters = inspect.signature(group).parameters.values()
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its groups in place of the groups themselves."""
    parameters = inspect.signature(command).parameters
    groups: dict[str, Any] = {name: p.annotation for name, p in parameters.items() if is_dataclass(p.annotation)}

    @wraps(command)
    def expanded(**given: Any) -> None:
        made = {name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        command(**given, **made)

    # typer reads the signature and the annotations of a function, and knows nothing of groups. So it gets a function without them.
    flat: list[inspect.Parameter] = []
    for name, parameter in parameters.items():
        flat += _options_of(groups[name]) if name in groups else [parameter]
    expanded.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    expanded.__annotations__ = {each.name: each.annotation for each in flat}
    return expanded


def parse_at(text: str | None) -> list[float] | None:
    """The radii of --at, if it was given."""
    if text is None:
        return None
    radii = parse_radii(text)
    if 0 in radii:
        raise typer.BadParameter(f"expected radii above 0 with --at, got {text!r}")
    return radii


def parse_radii(text: str) -> list[float]:
    """Numbers between commas."""
    try:
        radii = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"expected radii like 0.25,0.5,1.0, got {text!r}") from None
    if any(r < 0 for r in radii):
        raise typer.BadParameter(f"expected radii of at least 0, got {text!r}")
    return radii
