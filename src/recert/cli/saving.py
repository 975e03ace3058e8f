"""--save: the very model that was certified, as a file that is deployed."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recert.cli.output import check_output, say

if TYPE_CHECKING:
    from torch import nn

    from recert.approximations import Approximation
    from recert.cli.options import ExecutionOptions
    from recert.models.cards import ModelCard

MODELS = (".safetensors", ".onnx")


def check_save(path: Path | None, run: "ExecutionOptions") -> None:
    """Refuse what cannot be saved, before any work is done for it."""
    if path is None:
        return
    check_output(path, MODELS)
    if run.precision is not None or run.compile or run.compile_auto or not run.channels_last:
        raise ValueError(
            "expected no --precision, --compile, --compile-auto or --no-channels-last with --save: a file holds the network and not how it was "
            "run; use --approximation for a precision, and leave out the others"
        )


def check_ending(path: Path | None, approximation: str | None, *, graph: bool) -> None:
    """Refuse a name that does not suit what is saved. `graph`: the network is a graph, or run as one."""
    if path is None:
        return
    from recert.approximations import steps

    last = "" if approximation is None else steps(approximation)[-1]
    wanted = ".onnx" if graph or last.startswith("int8") else ".safetensors"
    if path.suffix != wanted:
        remedy = "" if wanted == ".onnx" else " (or --runtime onnxruntime, which runs and saves a graph)"
        raise ValueError(f"expected a file ending in {wanted} for this model, got {path.name!r}; rename it{remedy}")


def with_ending(path: Path, ending: str) -> Path:
    """The path with this ending, in place of another one of a model.

    >>> with_ending(Path("winner-0.5"), ".onnx").name, with_ending(Path("winner.safetensors"), ".onnx").name
    ('winner-0.5.onnx', 'winner.onnx')
    """
    return path.with_suffix(ending) if path.suffix in MODELS else path.with_name(f"{path.name}{ending}")


def save(
    model: "nn.Module", path: Path, spec: str, made: "Approximation | None" = None, *, example_input: Any = None
) -> "ModelCard":
    """Write the model that a spec named, or what was made of it, and say where it is."""
    from recert.approximations.saving import save_model
    from recert.models.saved import architecture_of

    about: dict[str, Any] = (
        {} if made is None else {"approximation": made.spec, "description": made.description, "facts": made.facts}
    )
    architecture = architecture_of(spec) if path.suffix == ".safetensors" else None
    card = save_model(model, path, architecture=architecture, example_input=example_input, **about)
    say(
        f"wrote {path} and its card, {path.name}.json ({path.stat().st_size / 1e6:.3g} MB); keep the two together",
        markup=False,
    )
    return card
